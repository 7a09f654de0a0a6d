"""Stand-ins for our agents on hollow nodes: what they would find and publish, given the chips of the node.

    agents = HollowAgents({"a1": Chips()})
    with in_background(cluster.client, on_pod=agents.on_pod) as hollow: ...

They act only when the operator's own pods run: no node agent, no report; no driver pod, no driver; no validator, no
chips for anybody. What they publish has the types of the product, so a field that does not exist cannot be reported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from npu_operator.components import driver
from npu_operator.model import names, npunode
from npu_operator.model.chips import ChipFamily, ChipHealth
from npu_operator.model.npunode import Chip, DriverFound, Found, ManagedBy, RuntimeFound, Validation
from testbed.client import ApiError, Client, Object
from testbed.pods import PodOutcome

NPU_NODES = f"/apis/{names.API_VERSION}/{names.NODE_PLURAL}"
NOT_FOUND, CONFLICT = 404, 409


@dataclass(frozen=True, kw_only=True)
class Chips:
    """What a hollow node has in its slots."""

    family: ChipFamily = ChipFamily.ASCEND_910B
    model: str = "910B3"
    count: int = 8
    memory_mib: int = 65536
    sick: Mapping[int, str] = field(default_factory=dict)
    """Fault code by number of the chip."""
    host_driver: str = ""
    """Version of a driver that the host loads by itself; empty: none."""

    @property
    def resource(self) -> str:
        """What its chips are asked for by."""
        return names.RESOURCE_OF[self.family]


@dataclass
class _State:
    driver: str = ""
    validated: bool = False
    running: set[str] = field(default_factory=set)


class HollowAgents:
    """The agents of all hollow nodes. Nodes that are not in `chips` have none."""

    def __init__(self, chips: Mapping[str, Chips], *, validates: Callable[[str], bool] = lambda node: True) -> None:
        self.chips = dict(chips)
        self._validates = validates
        self._states: dict[str, _State] = {}

    def on_pod(self, pod: Object) -> PodOutcome:
        """Decide what a pod on a hollow node does."""
        node, workload = pod["spec"]["nodeName"], _workload(pod)
        if node not in self.chips or not workload:
            return PodOutcome()
        resources = {names.VALIDATION_RESOURCE: 1} if workload == names.DEVICE_PLUGIN else {}
        return PodOutcome(then=self._ran(workload), node_resources=resources)

    def found(self, node: Object) -> Found:
        """What the node agent would report now."""
        name, info = node["metadata"]["name"], node["status"]["nodeInfo"]
        has, state = self.chips[name], self._states.setdefault(name, _State())
        loaded = has.host_driver or state.driver
        chips = tuple(_chip(has, number) for number in range(has.count))
        validation = Validation(passed=True, boot_id=info["bootID"], version=loaded, chips=has.count)
        return Found(
            boot_id=info["bootID"],
            kernel=info["kernelVersion"],
            architecture=info["architecture"],
            os_id="openEuler",
            os_version="24.03",
            chip=has.family,
            summary=npunode.models(chips),
            healthy=npunode.healthy(chips),
            chips=chips,
            in_service=state.validated,
            driver=DriverFound(
                version=loaded,
                loaded=bool(loaded),
                autoload=bool(has.host_driver),
                managed_by=ManagedBy.HOST if has.host_driver else (ManagedBy.OPERATOR if loaded else ManagedBy.NOBODY),
                device_count=has.count if loaded else 0,
            ),
            runtime=RuntimeFound(name="containerd", version="2.2.9", handler="runc", configured=True),
            validation=validation if state.validated else Validation(),
        )

    async def report(self, client: Client, name: str) -> None:
        """Publish what is found on a node, and the chips that its device plugin would offer."""
        node = await client.get(f"/api/v1/nodes/{name}")
        found = self.found(node)
        patch = {"status": {"found": msgspec.to_builtins(found)}}
        try:
            await client.merge(f"{NPU_NODES}/{name}/status", patch)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            return  # the operator has not made it yet, or has taken it back
        if names.DEVICE_PLUGIN in self._states[name].running:
            offered = sum(chip.is_offered for chip in found.chips) if found.in_service else 0
            amounts = {self.chips[name].resource: str(offered)}
            await client.merge(
                f"/api/v1/nodes/{name}/status", {"status": {"capacity": amounts, "allocatable": amounts}}
            )

    async def settle(self, client: Client, name: str) -> None:
        """As if driver, device plugin and validator had run: for fleets that are too large to have pods."""
        self._states[name] = _State(driver=names.DRIVER_DEFAULT_VERSION, validated=True, running={names.DEVICE_PLUGIN})
        await self.report(client, name)

    def make_sick(self, name: str, sick: Mapping[int, str]) -> None:
        """From now on these chips of the node report faults; the others are well. `report` tells the cluster."""
        self.chips[name] = dataclasses.replace(self.chips[name], sick=dict(sick))

    def _ran(self, workload: str) -> Callable[[Client, Object], Any]:
        async def then(client: Client, pod: Object) -> None:
            name = pod["spec"]["nodeName"]
            state = self._states.setdefault(name, _State())
            state.running.add(workload)
            if workload == names.DISCOVERY:
                await _discover(client, name)
                return
            if workload.startswith(names.DRIVER_PREFIX):
                state.driver = driver.wanted_of(pod["metadata"].get("annotations", {})).version
            if names.VALIDATOR in state.running and (state.driver or self.chips[name].host_driver):
                state.validated = self._validates(name)
            if names.NODE_AGENT in state.running:
                await self.report(client, name)

        return then


async def _discover(client: Client, name: str) -> None:
    body = {"apiVersion": names.API_VERSION, "kind": names.NODE_KIND, "metadata": {"name": name}}
    try:
        await client.create(NPU_NODES, body)
    except ApiError as error:
        if error.code != CONFLICT:
            raise


def _chip(has: Chips, number: int) -> Chip:
    code = has.sick.get(number)
    return Chip(
        id=f"{names.DEVICE_ID_PREFIX[has.family]}{number}",
        model=has.model,
        physical=number,
        logic=number,
        card=number,
        bus=f"0000:{0xC1 + number:02x}:00.0",
        memory_mib=has.memory_mib,
        health=ChipHealth.CRITICAL if code else ChipHealth.OK,
        fault_codes=(code,) if code else (),
    )


def _workload(pod: Object) -> str:
    """The DaemonSet that made the pod, if it is one of ours."""
    owners = pod["metadata"].get("ownerReferences", [])
    is_ours = pod["metadata"].get("labels", {}).get(names.LABEL_MANAGED_BY) == names.OPERATOR_NAME
    return next((owner["name"] for owner in owners if owner["kind"] == "DaemonSet"), "") if is_ours else ""
