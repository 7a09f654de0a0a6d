"""Our agents on simulated nodes: what driver loader, node agent, device plugin, validator and discovery would do.

They act only while their pods run, each with the rights of its own ServiceAccount, and they publish the product's own
types, so a field that does not exist cannot be reported. A driver that is loaded stays until the next boot; another
version is staged and waits for it.
"""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Final

import msgspec

from npu_operator.components import driver
from npu_operator.components.driver import WantedDriver
from npu_operator.kube import api
from npu_operator.kube.api import ApiError, NotFound, Resource
from npu_operator.model import names, npunode
from npu_operator.model.chips import ChipHealth, ChipState
from npu_operator.model.npunode import Chip, DriverFound, Found, ManagedBy, RuntimeFound, StagedVersion, Validation
from npu_operator.sim.client import SimClient
from npu_operator.sim.cluster import SimCluster
from npu_operator.sim.controllers.chores import Chores
from npu_operator.sim.controllers.kubelets import STOP_S, Impossible, PodOutcome
from npu_operator.sim.fleet import NodeKind
from npu_operator.sim.server.access import service_account
from npu_operator.sim.server.objects import Stored, at
from npu_operator.sim.server.store import Event, Table

NPU_NODES: Final = Resource(names.GROUP, names.VERSION, names.NODE_PLURAL, names.NODE_KIND, namespaced=False)

STAGE_S: Final = 8.0  # pull and copy a payload of 1-2 GB within a data centre
LOAD_S: Final = 12.0  # modules in and chips answering on an A2; an A3 may take minutes
VALIDATE_S: Final = 3.0
REPORT_S: Final = 0.5  # the agent's state file is read once in a while
RETRY_S: Final = 5.0
MANAGER: Final = "npu-node-agent"


@dataclasses.dataclass
class Box:
    """What is on one node in this boot, beside its pods."""

    kind: NodeKind
    sick: dict[int, str]
    """Fault code by number of the chip."""
    loaded: WantedDriver | None = None
    """The driver of ours whose modules are in."""
    staged: dict[str, WantedDriver] = dataclasses.field(default_factory=dict)
    """By version: what lies on the disk. Outlives a boot."""
    validated: str = ""
    """The version that the validator passed in this boot."""
    running: dict[str, Stored] = dataclasses.field(default_factory=dict)
    """By workload of ours: its running pod."""
    isolated: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The loaded driver's version, whoever loaded it; empty: none."""
        return self.kind.host_driver or (self.loaded.version if self.loaded is not None else "")


class HollowAgents:
    """The agents of all nodes of a cluster, as hooks of its kubelets.

    agents = HollowAgents(); cluster = SimCluster(clock, hooks=agents); agents.attach(cluster)
    """

    def __init__(self) -> None:
        self._boxes: dict[str, Box] = {}
        self._clients: dict[str, SimClient] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reports: Chores[str] = Chores(self._report_soon, delay_s=REPORT_S)
        self._published: dict[str, bytes] = {}

    def attach(self, cluster: SimCluster) -> None:
        """Begin to work in a cluster."""
        self._cluster = cluster
        cluster.kubelets.on_silence(self._power_changed)
        cluster.server.store.on_table(self._listen)

    # --- for tests and scenarios --------------------------------------------------------------------------------------

    def box(self, node: str) -> Box:
        """What is on a node. Raises Impossible when there is no such node."""
        kind = self._cluster.kinds.get(node)
        if kind is None:
            raise Impossible(f"there is no node {node} to look into")
        return self._boxes.setdefault(node, Box(kind, dict(kind.sick)))

    def make_sick(self, node: str, faults: Mapping[int, str]) -> None:
        """From now on these chips of a node report faults, by number; the others are well."""
        box = self.box(node)
        for number in faults:
            if box.kind.chip is None or not 0 <= number < box.kind.chips:
                raise Impossible(f"node {node} has no chip {number}: it has {box.kind.chips if box.kind.chip else 0}")
        box.sick = dict(faults)
        self._news(node)

    def allocatable(self, node: str) -> int:
        """How many chips the node offers to pods."""
        box = self.box(node)
        if box.kind.chip is None:
            return 0
        found = self._cluster.find(api.NODES, node)
        return int((at(found, "status", "allocatable") or {}).get(box.kind.resource, "0"))

    # --- hooks of the kubelets ----------------------------------------------------------------------------------------

    def on_pod(self, node: str, pod: Stored) -> PodOutcome:
        """What becomes of a pod: ours need what they need, others just run."""
        workload = workload_of(pod)
        if workload.startswith(names.DRIVER_PREFIX):
            return self._driver_outcome(self.box(node), driver.wanted_of(pod.meta.get("annotations", {})))
        if workload == names.VALIDATOR:
            return PodOutcome(after_s=VALIDATE_S, ready=bool(self.box(node).version))
        return PodOutcome()

    def _driver_outcome(self, box: Box, wanted: WantedDriver) -> PodOutcome:
        """A driver pod is ready when what it brings is loaded; modules that are in stay until the next boot."""
        if box.kind.chip is None or box.kind.host_driver:
            return PodOutcome(ready=False)
        if box.loaded == wanted:
            return PodOutcome()
        if box.loaded is None:
            return PodOutcome(after_s=LOAD_S if wanted.version in box.staged else STAGE_S + LOAD_S)
        return PodOutcome(after_s=STAGE_S, ready=False)

    def on_pod_running(self, node: str, pod: Stored) -> None:
        """One of our pods works now."""
        self._runs(node, pod)

    def on_pod_stopping(self, node: str, pod: Stored) -> float:
        """Ours end at once."""
        return 0.1 if workload_of(pod) else STOP_S

    def on_pod_gone(self, node: str, pod: Stored) -> None:
        """What a pod offered is offered no more."""
        workload = workload_of(pod)
        box = self._boxes.get(node)
        if box is None or not workload or box.running.get(workload, pod).uid != pod.uid:
            return
        box.running.pop(workload, None)
        if workload == names.DEVICE_PLUGIN and node in self._cluster.kinds and self._cluster.kubelets.is_up(node):
            self._offer(node, box)

    # --- what the agents do -------------------------------------------------------------------------------------------

    def _runs(self, node: str, pod: Stored) -> None:
        workload, box = workload_of(pod), self.box(node)
        if not workload or box.kind.chip is None:
            return
        box.running[workload] = pod
        if workload.startswith(names.DRIVER_PREFIX):
            box.loaded = driver.wanted_of(pod.meta.get("annotations", {}))
            box.staged[box.loaded.version] = box.loaded
            self._look_again(node, names.VALIDATOR)
        elif workload == names.VALIDATOR:
            box.validated = box.version
        elif workload == names.DISCOVERY:
            self._spawn(self._discover(node, pod))
        if workload in (names.DEVICE_PLUGIN, names.VALIDATOR):
            self._offer(node, box)
        self._news(node)

    def _look_again(self, node: str, workload: str) -> None:
        """Something that a pod of ours waits for has happened."""
        for pod in self._cluster.pods_on(node):
            if workload_of(pod) == workload and not pod.is_leaving:
                self._cluster.kubelets.look_again(node, pod)

    def _offer(self, node: str, box: Box) -> None:
        """What the device plugin tells the kubelet: the validator's device, and the chips once they are validated."""
        if box.kind.chip is None:
            return
        has_plugin = names.DEVICE_PLUGIN in box.running
        chips = self._offered(node, box) if has_plugin else 0
        amounts = {box.kind.resource: chips, names.VALIDATION_RESOURCE: int(has_plugin)}
        found = self._cluster.find(api.NODES, node)
        before = at(found, "status", "allocatable") or {}
        if found is not None and any(before.get(key, "0") != str(amount) for key, amount in amounts.items()):
            self._cluster.kubelets.set_resources(node, amounts)

    def _offered(self, node: str, box: Box) -> int:
        """Healthy chips of a node whose driver was validated in this boot."""
        if not box.version or box.validated != box.version:
            return 0
        return sum(chip.is_offered for chip in _chips(box))

    def found(self, node: str) -> Found:
        """What the node agent would publish now."""
        box = self.box(node)
        kind = box.kind
        chips = _chips(box)
        boot_id = self._cluster.kubelets.boot_id(node)
        validation = Validation()
        if box.validated:
            validation = Validation(passed=True, boot_id=boot_id, version=box.validated, chips=len(chips))
        return Found(
            boot_id=boot_id,
            architecture={"arm64": "aarch64", "amd64": "x86_64"}.get(kind.architecture, kind.architecture),
            kernel=kind.kernel,
            os_id=kind.os_id,
            os_version=kind.os_version,
            chip=kind.chip,
            super_pod=kind.super_pod,
            summary=npunode.models(chips),
            healthy=npunode.healthy(chips),
            chips=chips,
            in_service=self._offered(node, box) > 0,
            driver=_driver_found(box),
            staged=tuple(
                StagedVersion(version=each.version, digest=each.digest[:12], kernel=kind.kernel)
                for each in box.staged.values()
            ),
            running_firmware=kind.running_firmware,
            runtime=RuntimeFound(
                name=kind.runtime.partition("://")[0],
                version=kind.runtime.partition("://")[2],
                handler="runc",
                configured=True,
            ),
            validation=validation,
        )

    def _news(self, node: str) -> None:
        """The agent looks at the node again and reports what changed."""
        box = self.box(node)
        if self._cluster.kubelets.is_up(node):
            self._offer(node, box)
            if names.NODE_AGENT in box.running:
                self._reports.add(node)

    def _report_soon(self, node: str) -> None:
        self._spawn(self._report(node))

    async def _report(self, node: str) -> None:
        """Publish what is found, if it differs from what was published last."""
        box = self._boxes.get(node)
        agent = box.running.get(names.NODE_AGENT) if box is not None else None
        if agent is None or not self._cluster.kubelets.is_up(node):
            return
        found = self.found(node)
        encoded = msgspec.json.encode(found)
        if self._published.get(node) == encoded:
            return
        patch = {"status": {"found": msgspec.to_builtins(found)}}
        try:
            await self._client_of(agent).patch(NPU_NODES, node, patch, manager=MANAGER, subresource="status")
        except NotFound:
            return  # not made yet; its coming is news
        except ApiError:
            self._reports.add(node, after_s=RETRY_S)
            return
        self._published[node] = encoded

    async def _discover(self, node: str, pod: Stored) -> None:
        """The discovery pod makes the NPUNode of its own node."""
        body = {"apiVersion": names.API_VERSION, "kind": names.NODE_KIND, "metadata": {"name": node}}
        try:
            await self._client_of(pod).create(NPU_NODES, body, manager=names.DISCOVERY)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                self._spawn(self._discover_later(node, pod))

    async def _discover_later(self, node: str, pod: Stored) -> None:
        await self._cluster.clock.sleep(RETRY_S)
        box = self._boxes.get(node)
        if box is not None and names.DISCOVERY in box.running:
            await self._discover(node, pod)

    # --- what the agents hear -----------------------------------------------------------------------------------------

    def _listen(self, table: Table) -> None:
        if table.resource == NPU_NODES:
            table.listeners.append(self._npu_node_changed)
        elif table.resource == api.PODS:
            table.listeners.append(self._pod_changed)
        elif table.resource == api.NODES:
            table.listeners.append(self._node_changed)

    def _npu_node_changed(self, event: Event) -> None:
        node = event.new.name
        if event.type == "DELETED" or node not in self._cluster.kinds:
            self._published.pop(node, None)
            return
        box = self.box(node)
        isolated = tuple(at(event.new.tree, "spec", "isolatedChips") or ())
        if event.type == "ADDED" or isolated != box.isolated:
            box.isolated = isolated
            self._news(node)

    def _pod_changed(self, event: Event) -> None:
        """A driver pod that is not ready has staged what it brings."""
        node = at(event.new.tree, "spec", "nodeName")
        if event.type == "DELETED" or node not in self._cluster.kinds:
            return
        if workload_of(event.new).startswith(names.DRIVER_PREFIX) and _has_started(event):
            wanted = driver.wanted_of(event.new.meta.get("annotations", {}))
            self.box(node).staged[wanted.version] = wanted
            self._news(node)

    def _node_changed(self, event: Event) -> None:
        if event.type == "DELETED":
            self._boxes.pop(event.new.name, None)
            self._published.pop(event.new.name, None)

    def _power_changed(self, node: str, is_off: bool) -> None:
        """What was in memory is gone; the disk stays."""
        box = self._boxes.get(node)
        if box is not None and is_off:
            box.loaded, box.validated = None, ""
            box.running.clear()

    def _client_of(self, pod: Stored) -> SimClient:
        """The pod's own line to the API server."""
        account = at(pod.tree, "spec", "serviceAccountName") or "default"
        key = f"{pod.namespace}/{account}"
        if key not in self._clients:
            self._clients[key] = self._cluster.client(service_account(pod.namespace, account))
        return self._clients[key]

    def _spawn(self, work: "asyncio.Future[None] | object") -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()  # an error of ours ends the run


def workload_of(pod: Stored) -> str:
    """The DaemonSet of ours that made the pod; empty for anybody else's."""
    if pod.labels.get(names.LABEL_MANAGED_BY) != names.OPERATOR_NAME:
        return ""
    owners = pod.meta.get("ownerReferences", ())
    return next((owner["name"] for owner in owners if owner["kind"] == "DaemonSet"), "")


def _has_started(event: Event) -> bool:
    before = at(event.old.tree, "status", "phase") if event.old is not None else None
    return before != "Running" and at(event.new.tree, "status", "phase") == "Running"


def _driver_found(box: Box) -> DriverFound:
    if box.kind.host_driver:
        return DriverFound(
            version=box.kind.host_driver,
            managed_by=ManagedBy.HOST,
            loaded=True,
            autoload=True,
            tree=names.HOST_DRIVER_TREE,
            device_count=box.kind.chips,
        )
    if box.loaded is None:
        return DriverFound()
    return DriverFound(
        version=box.loaded.version,
        digest=box.loaded.digest[:12],
        managed_by=ManagedBy.OPERATOR,
        loaded=True,
        tree=names.DRIVER_TREE,
        device_count=box.kind.chips,
        active_version=box.loaded.version,
        good_version=box.validated,
    )


def _chips(box: Box) -> tuple[Chip, ...]:
    if box.kind.chip is None:
        return ()
    return tuple(_chip(box, number) for number in range(box.kind.chips))


def _chip(box: Box, number: int) -> Chip:
    kind = box.kind
    assert kind.chip is not None, "asked for a chip of a node without chips"
    code = box.sick.get(number)
    id_ = f"{names.DEVICE_ID_PREFIX[kind.chip]}{number}"
    return Chip(
        id=id_,
        model=kind.model,
        physical=number,
        logic=number,
        card=number,
        bus=f"0000:{0xC1 + number:02x}:00.0",
        numa=number // 2,
        memory_mib=kind.memory_mib,
        health=ChipHealth.CRITICAL if code else ChipHealth.OK,
        fault_codes=(code,) if code else (),
        state=ChipState.ISOLATED if id_ in box.isolated else ChipState.FREE,
    )
