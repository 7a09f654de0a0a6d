"""What becomes of a pod on a hollow node, and the status that a kubelet would write for it.

The phase follows the kubelet's own rules (kubernetes 1.34, pkg/kubelet/kubelet_pods.go, getPhase), so a test says what
the containers do and never what the phase is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from testbed.client import Client, Object

Hook = Callable[[Client, Object], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Container:
    """What one container does. `reason` and `message` belong to the states waiting and terminated."""

    state: Literal["running", "waiting", "terminated"] = "running"
    ready: bool = True
    reason: str = ""
    message: str = ""
    exit_code: int = 0
    restarts: int = 0

    @property
    def is_ready(self) -> bool:
        """Whether it runs and its probe, if any, succeeds."""
        return self.state == "running" and self.ready

    @property
    def has_succeeded(self) -> bool:
        """Whether it has ended well."""
        return self.state == "terminated" and self.exit_code == 0


RUNNING = Container()
UNREADY = Container(ready=False)
COMPLETED = Container(state="terminated", reason="Completed")
FAILED = Container(state="terminated", reason="Error", exit_code=1)
NO_IMAGE = Container(state="waiting", reason="ImagePullBackOff", message="Back-off pulling image")
CRASHING = Container(
    state="waiting", reason="CrashLoopBackOff", message="back-off 5m0s restarting failed container",
    exit_code=1, restarts=5,
)  # fmt: skip
_INITIALIZING = Container(state="waiting", reason="PodInitializing")


@dataclass(frozen=True, kw_only=True)
class PodOutcome:
    """What a pod does once it is on its node.

    `after_s` seconds later all its containers are in the state `every`, except those named in `containers` (by
    container name; init containers have completed unless named). Then `then` is awaited with a client that may do
    everything and the pod as it was: the stand-in for what the pod's program would write. `next` follows.
    `node_resources` are what a device plugin in the pod has its kubelet publish, in capacity and allocatable, when the
    pod is ready; when the pod goes, allocatable falls to 0 and capacity stays, as with a real kubelet.
    A deleted pod needs `stop_after_s` seconds to end, at most its grace period.
    """

    after_s: float = 0.0
    every: Container = RUNNING
    containers: Mapping[str, Container] = field(default_factory=dict)
    node_resources: Mapping[str, int] = field(default_factory=dict)
    then: Hook | None = None
    next: PodOutcome | None = None
    stop_after_s: float = 0.0


@dataclass(frozen=True)
class Place:
    """Where and when a status is written: the node's and the pod's address, the time, restarts by reboots."""

    host_ip: str
    pod_ip: str
    now: str
    restarts: int = 0


def status(pod: Object, outcome: PodOutcome, place: Place) -> Object:
    """The pod's status under the outcome."""
    spec = pod["spec"]
    inits = [(each, outcome.containers.get(each["name"], _usual_init(each))) for each in spec.get("initContainers", ())]
    is_initialized = all(_lets_others_start(each, state) for each, state in inits)
    usual = outcome.every if is_initialized else _INITIALIZING
    mains = [
        (each, outcome.containers.get(each["name"], usual) if is_initialized else usual) for each in spec["containers"]
    ]
    host_ip, pod_ip = place.host_ip, place.host_ip if spec.get("hostNetwork") else place.pod_ip
    return {
        "phase": phase(spec.get("restartPolicy", "Always"), is_initialized, inits, mains),
        "observedGeneration": pod["metadata"].get("generation", 0),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": pod.get("status", {}).get("startTime", place.now),
        "conditions": _conditions(pod, is_initialized, inits, mains, place.now),
        "initContainerStatuses": [_init_status(each, state, place) for each, state in inits],
        "containerStatuses": [_container_status(each, state, place) for each, state in mains],
    }


Named = list[tuple[Object, Container]]


def phase(restart_policy: str, is_initialized: bool, inits: Named, mains: Named) -> str:
    """Pending, Running, Succeeded or Failed: the kubelet's getPhase."""
    if not is_initialized:
        has_failed = any(state.state == "terminated" and state.exit_code for _, state in inits)
        return "Failed" if has_failed and restart_policy == "Never" else "Pending"
    states = [state for _, state in mains]
    if any(state.state == "waiting" and not state.restarts for state in states):
        return "Pending"  # a container has never been started
    if restart_policy == "Always" or any(state.state == "running" for state in states):
        return "Running"
    if all(state.has_succeeded for state in states):
        return "Succeeded"
    return "Failed" if restart_policy == "Never" else "Running"


def is_sidecar(container: Object) -> bool:
    """Whether an init container goes on running beside the others."""
    return container.get("restartPolicy") == "Always"


def is_ready(status_of_pod: Object) -> bool:
    """Whether a pod's status has the condition Ready."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in status_of_pod.get("conditions", ()))


def _usual_init(container: Object) -> Container:
    return RUNNING if is_sidecar(container) else COMPLETED


def _lets_others_start(container: Object, state: Container) -> bool:
    return state.state == "running" if is_sidecar(container) else state.has_succeeded


def _conditions(pod: Object, is_initialized: bool, inits: Named, mains: Named, now: str) -> list[Object]:
    before = {each["type"]: each for each in pod.get("status", {}).get("conditions", ())}
    watched = [*((each, state) for each, state in inits if is_sidecar(each)), *mains]
    unready = [each["name"] for each, state in watched if not state.is_ready]
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates", ())]
    open_gates = [gate for gate in gates if before.get(gate, {}).get("status") != "True"]
    complaint = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{' '.join(unready)}]"}
    if all(state.has_succeeded for _, state in mains):
        complaint = {"reason": "PodCompleted"}
    wanted: dict[str, Object] = {
        "PodReadyToStartContainers": {"status": "True"},
        "Initialized": {"status": "True"},
        "ContainersReady": {"status": "False", **complaint} if unready else {"status": "True"},
        "Ready": {"status": "False", **complaint} if unready else {"status": "True"},
    }
    if not is_initialized:
        wanted["Initialized"] = {"status": "False", "reason": "ContainersNotInitialized"}
    if open_gates and not unready:
        wanted["Ready"] = {"status": "False", "reason": "ReadinessGatesNotReady"}
    for kind, condition in wanted.items():
        is_same = before.get(kind, {}).get("status") == condition["status"]
        since = before[kind].get("lastTransitionTime", now) if is_same else now
        before[kind] = {"type": kind, "lastTransitionTime": since, **condition}
    return list(before.values())


def _init_status(container: Object, state: Container, place: Place) -> Object:
    found = _container_status(container, state, place)
    return {**found, "ready": True} if state.has_succeeded else found


def _container_status(container: Object, state: Container, place: Place) -> Object:
    identity = f"containerd://{container['name']}-{place.pod_ip}-{state.restarts + place.restarts}"
    details: Object = {key: value for key, value in (("reason", state.reason), ("message", state.message)) if value}
    found: Object = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "" if _never_started(state) else container["image"],
        "ready": state.is_ready,
        "started": state.state == "running",
        "restartCount": state.restarts + place.restarts,
        "state": {state.state: details},
        "lastState": {},
    }
    ended = {"exitCode": state.exit_code, "startedAt": place.now, "finishedAt": place.now, "containerID": identity}
    if state.state == "running":
        found["state"] = {"running": {"startedAt": place.now}}
    elif state.state == "terminated":
        found["state"] = {"terminated": {**ended, **details}}
    elif state.restarts:
        found["lastState"] = {"terminated": {**ended, "reason": "Error"}}
    if not _never_started(state):
        found["containerID"] = identity
    return found


def _never_started(state: Container) -> bool:
    return state.state == "waiting" and not state.restarts
