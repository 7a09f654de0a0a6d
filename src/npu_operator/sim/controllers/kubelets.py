"""Hollow kubelets: pods on a node start, get ready and end; a node has power, a boot id and resources.

What a pod does is decided by hooks, so that agents, workloads and faults are somebody else's business. A kubelet
without power does nothing: its pods stay as they were, as on a real cluster. Heartbeats are not written;
`NodeLifecycle` is told about silence instead.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from npu_operator.kube import api
from npu_operator.kube.clock import stamp
from npu_operator.sim.controllers.chores import Chores
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.objects import Key, Stored, Tree, at
from npu_operator.sim.server.store import Event

START_S: Final = 2.0  # pulling is quick here; creating a sandbox and starting takes a second or two
STOP_S: Final = 1.0  # a well-behaved container ends on SIGTERM
BOOT_READY_S: Final = 3.0  # from the kubelet's first word to Ready; measured 2-5 s
MANAGER: Final = "kubelet"


class Impossible(Exception):
    """A test or scenario asks for something that no cluster could do; the message says what and why."""


class PodOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a pod on its node."""

    after_s: float = START_S
    """Seconds until it happens."""
    phase: str = "Running"
    """Running, Pending (it cannot start, `reason` says why), Succeeded or Failed."""
    ready: bool = True
    reason: str = ""
    """Of a container that waits or ended: ImagePullBackOff, CrashLoopBackOff, Error, …"""
    message: str = ""
    restarts: int = 0
    exit_code: int = 0


class PodHooks(Protocol):
    """Who decides about pods and hears about them. All are called on the server's side, in virtual time."""

    def on_pod(self, node: str, pod: Stored) -> PodOutcome:
        """A pod was given to the node: what will become of it."""
        ...

    def on_pod_running(self, node: str, pod: Stored) -> None:
        """A pod runs and is ready."""
        ...

    def on_pod_stopping(self, node: str, pod: Stored) -> float:
        """A pod was told to end: seconds until it does (its grace is the limit)."""
        ...

    def on_pod_gone(self, node: str, pod: Stored) -> None:
        """A pod is gone from the node."""
        ...


class Ordinary:
    """All pods start, run and end without trouble."""

    def on_pod(self, node: str, pod: Stored) -> PodOutcome:
        """Run."""
        return PodOutcome()

    def on_pod_running(self, node: str, pod: Stored) -> None:
        """Nothing."""

    def on_pod_stopping(self, node: str, pod: Stored) -> float:
        """Soon."""
        return STOP_S

    def on_pod_gone(self, node: str, pod: Stored) -> None:
        """Nothing."""


class _Machine:
    """One node's own state."""

    def __init__(self, boot_id: str) -> None:
        self.is_up = True
        self.boot_id = boot_id
        self.running: dict[str, Key] = {}
        """By uid: the pods whose containers run in this boot."""


class Kubelets:
    """The kubelets of all nodes that were added here."""

    def __init__(self, server: ApiServer, hooks: PodHooks) -> None:
        self.hooks = hooks
        self._server = server
        self._pods = server.store.table(api.PODS)
        self._machines: dict[str, _Machine] = {}
        self._starts: Chores[tuple[str, Key]] = Chores(self._start, delay_s=START_S)
        self._stops: Chores[tuple[str, Key]] = Chores(self._stop, delay_s=STOP_S)
        self._outcomes: dict[str, PodOutcome] = {}
        self._on_silence: list[Callable[[str, bool], None]] = []
        self._pods.listeners.append(self._pod_changed)
        server.store.table(api.NODES).listeners.append(self._node_changed)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def add(self, node: Stored) -> None:
        """Run a kubelet for a Node object; it says Ready at once."""
        self._machines[node.name] = _Machine(at(node.tree, "status", "nodeInfo", "bootID") or "")
        self._say_ready(node.name, is_ready=True)
        for pod in self._server.list(api.PODS, fields=f"spec.nodeName={node.name}"):
            self._given(node.name, pod)

    def is_up(self, node: str) -> bool:
        """Whether the node has power."""
        return self._machine(node).is_up

    def boot_id(self, node: str) -> str:
        """The boot id of the running system."""
        return self._machine(node).boot_id

    def running(self, node: str) -> tuple[str, ...]:
        """The uids of pods whose containers run on the node now, whatever the API says."""
        return tuple(self._machine(node).running)

    def power_off(self, node: str) -> None:
        """The node stops: nothing runs, nothing is said."""
        machine = self._machine(node)
        if not machine.is_up:
            raise Impossible(f"node {node} cannot lose power: it has none")
        machine.is_up = False
        machine.running.clear()
        for listener in self._on_silence:
            listener(node, True)

    def power_on(self, node: str, boot_id: str, *, kernel: str | None = None) -> None:
        """The node comes up with a new boot id: first NotReady, then Ready, and its pods start again."""
        machine = self._machine(node)
        if machine.is_up:
            raise Impossible(f"node {node} cannot come up: it is up")
        if boot_id == machine.boot_id:
            raise Impossible(f"node {node} cannot come up with the boot id {boot_id}: it had that before")
        machine.is_up = True
        machine.boot_id = boot_id
        for listener in self._on_silence:
            listener(node, False)
        info = {"bootID": boot_id, **({"kernelVersion": kernel} if kernel else {})}
        if self._server.find(api.NODES, node) is None:
            return
        self._say_ready(node, is_ready=False, info=info)
        Chores[str](lambda name: self._back(name, boot_id), delay_s=BOOT_READY_S).add(node)

    def set_resources(self, node: str, amounts: Mapping[str, int]) -> None:
        """Capacity and allocatable of extended resources, as a device plugin's registration changes them."""
        if not self._machine(node).is_up:
            raise Impossible(f"node {node} cannot report resources: it has no power")
        text = {name: str(amount) for name, amount in amounts.items()}
        self._patch_node(node, {"status": {"capacity": text, "allocatable": text}})

    def on_silence(self, listener: Callable[[str, bool], None]) -> None:
        """Hear when a node falls silent (True) or speaks again (False)."""
        self._on_silence.append(listener)

    def _machine(self, node: str) -> _Machine:
        found = self._machines.get(node)
        if found is None:
            raise Impossible(f"there is no node {node}; there are {len(self._machines)}, made by SimCluster.add_nodes")
        return found

    def _back(self, node: str, boot_id: str) -> None:
        machine = self._machines.get(node)
        if machine is None or not machine.is_up or machine.boot_id != boot_id:
            return
        self._say_ready(node, is_ready=True)
        for pod in self._server.list(api.PODS, fields=f"spec.nodeName={node}"):
            self._given(node, pod)

    def _say_ready(self, node: str, *, is_ready: bool, info: Tree | None = None) -> None:
        live = self._server.find(api.NODES, node)
        if live is None:
            return
        now = stamp(self._server.clock.now())
        others = [each for each in at(live.tree, "status", "conditions") or () if each["type"] != "Ready"]
        ready = {
            "type": "Ready",
            "status": "True" if is_ready else "False",
            "reason": "KubeletReady" if is_ready else "KubeletNotReady",
            "message": "kubelet is posting ready status" if is_ready else "container runtime is starting",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        status: Tree = {"conditions": [*others, ready]}
        if info:
            status["nodeInfo"] = info
        self._patch_node(node, {"status": status})

    def _patch_node(self, node: str, body: Tree) -> None:
        if self._server.find(api.NODES, node) is None:
            raise Impossible(f"there is no Node object {node} to report a status for")
        self._server.patch(api.NODES, node, body, manager=MANAGER, subresource="status")

    def _node_changed(self, event: Event) -> None:
        if event.type == "DELETED":
            self._machines.pop(event.new.name, None)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _pod_changed(self, event: Event) -> None:
        node = at(event.new.tree, "spec", "nodeName")
        machine = self._machines.get(node) if node else None
        if machine is None:
            return
        if event.type == "DELETED":
            self._forget(node, machine, event.new)
        elif machine.is_up and (event.type == "ADDED" or _is_news(event)):
            self._given(node, event.new)

    def _forget(self, node: str, machine: _Machine, pod: Stored) -> None:
        self._starts.drop((node, pod.key))
        self._stops.drop((node, pod.key))
        self._outcomes.pop(pod.uid, None)
        machine.running.pop(pod.uid, None)
        self.hooks.on_pod_gone(node, pod)

    def _given(self, node: str, pod: Stored) -> None:
        """A pod that the node should run, or should end."""
        if pod.is_leaving:
            grace_s = pod.meta.get("deletionGracePeriodSeconds", 0)
            runs = pod.uid in self._machines[node].running
            takes_s = self.hooks.on_pod_stopping(node, pod) if runs else 0.0
            self._starts.drop((node, pod.key))
            self._stops.add((node, pod.key), after_s=min(takes_s, grace_s))
        elif at(pod.tree, "status", "phase") not in ("Succeeded", "Failed"):
            outcome = self._outcomes[pod.uid] = self.hooks.on_pod(node, pod)
            self._starts.add((node, pod.key), after_s=outcome.after_s)

    def look_again(self, node: str, pod: Stored) -> None:
        """Ask the hooks once more what becomes of a pod, because something on the node has changed."""
        if self._machine(node).is_up and not pod.is_leaving:
            self._given(node, pod)

    def _start(self, place: tuple[str, Key]) -> None:
        node, key = place
        pod, machine = self._pods.objects.get(key), self._machines.get(node)
        if pod is None or machine is None or not machine.is_up or pod.is_leaving:
            return
        outcome = self._outcomes.get(pod.uid, PodOutcome())
        if outcome.phase == "Running":
            machine.running[pod.uid] = key
        else:
            machine.running.pop(pod.uid, None)
        self._server.patch(
            api.PODS,
            pod.name,
            {"status": _status(pod, outcome, stamp(self._server.clock.now()))},
            pod.namespace,
            manager=MANAGER,
            subresource="status",
        )
        if outcome.phase == "Running" and outcome.ready:
            self.hooks.on_pod_running(node, self._pods.objects[key])

    def _stop(self, place: tuple[str, Key]) -> None:
        node, key = place
        pod, machine = self._pods.objects.get(key), self._machines.get(node)
        if pod is None or machine is None or not machine.is_up or not pod.is_leaving:
            return
        machine.running.pop(pod.uid, None)
        preconditions = api.Preconditions(uid=pod.uid)
        self._server.delete(api.PODS, pod.name, pod.namespace, preconditions=preconditions, grace_s=0)


def _is_news(event: Event) -> bool:
    """The pod was bound, told to end, or told to end sooner."""
    old = event.old
    if old is None:
        return True
    if at(old.tree, "spec", "nodeName") is None:
        return True
    keys = ("deletionTimestamp", "deletionGracePeriodSeconds")
    return any(old.meta.get(key) != event.new.meta.get(key) for key in keys)


def _status(pod: Stored, outcome: PodOutcome, now: str) -> Tree:
    ready = outcome.phase == "Running" and outcome.ready
    word = "True" if ready else "False"
    before = {each["type"]: each for each in at(pod.tree, "status", "conditions") or ()}
    kept = [each for type_, each in before.items() if type_ not in ("Initialized", "Ready", "ContainersReady")]
    conditions = [
        *kept,
        *(
            {"type": type_, "status": status, "lastTransitionTime": _since(before.get(type_), status, now)}
            for type_, status in (("Initialized", "True"), ("ContainersReady", word), ("Ready", word))
        ),
    ]
    status: dict[str, Any] = {
        "phase": outcome.phase,
        "conditions": conditions,
        "startTime": at(pod.tree, "status", "startTime") or now,
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": ready,
                "restartCount": outcome.restarts,
                "state": _container_state(outcome, now),
            }
            for container in pod.tree["spec"]["containers"]
        ],
    }
    if outcome.message:
        status["message"] = outcome.message
    return status


def _since(condition: Tree | None, status: str, now: str) -> str:
    if condition is not None and condition.get("status") == status:
        return str(condition.get("lastTransitionTime", now))
    return now


def _container_state(outcome: PodOutcome, now: str) -> Tree:
    words = {key: value for key, value in (("reason", outcome.reason), ("message", outcome.message)) if value}
    if outcome.phase == "Running" and not outcome.reason:
        return {"running": {"startedAt": now}}
    if outcome.phase in ("Succeeded", "Failed"):
        return {"terminated": {"exitCode": outcome.exit_code, "finishedAt": now, **words}}
    return {"waiting": words}
