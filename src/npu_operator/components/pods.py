"""What a component says about its pods: containers, host paths, rights. `placement` makes the DaemonSet of it.

Values only. Every right a container has is written down in its component's module, with the reason.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from npu_operator.components.labels import Object
from npu_operator.model import names
from npu_operator.model.parts import PullPolicy

HOST_ROOT: Final = "/host"
"""Where privileged agents see the root of the host."""
RUN_DIR: Final = "/run/agent"
"""The one writable directory of an agent's own, in memory; its health socket lies there."""
HEALTH_SOCKET: Final = f"{RUN_DIR}/health.sock"
NOBODY: Final = 65534
PROGRAM: Final = "npu-operator"

_CONFINED: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}

AS_NOBODY: Final[Mapping[str, Any]] = {
    **_CONFINED,
    "runAsGroup": NOBODY,
    "runAsNonRoot": True,
    "runAsUser": NOBODY,
}
"""No rights at all."""

AS_ROOT: Final[Mapping[str, Any]] = {**_CONFINED, "runAsGroup": 0, "runAsUser": 0}
"""The owner of root's files and sockets, without any capability."""

PRIVILEGED: Final[Mapping[str, Any]] = {
    "privileged": True,
    "readOnlyRootFilesystem": True,
    "runAsGroup": 0,
    "runAsUser": 0,
}
"""Everything. Only loader, node agent and rebooter have it; each module says what for and which host paths it touches.
"""


class Mount(msgspec.Struct, frozen=True):
    """A directory of the host inside a container, at the same path unless `at` says otherwise."""

    path: str
    at: str = ""
    read_only: bool = True
    must_exist: bool = False
    """False: the kubelet makes the directory, root's with mode 0755, when it is missing."""
    follows_host: bool = False
    """Whether what the host mounts later below it is seen as well."""


HOST: Final = Mount("/", HOST_ROOT, read_only=False, must_exist=True, follows_host=True)
"""The whole host, for the privileged agents."""
STATE: Final = Mount(names.STATE_DIR)
"""The state directory, to read."""


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """One container."""

    name: str
    image: str
    pull_policy: PullPolicy
    command: tuple[str, ...] = ()
    """Empty: the image's own."""
    env: Mapping[str, str] = {}
    security: Mapping[str, Any]
    """`AS_NOBODY`, `AS_ROOT` or `PRIVILEGED`; there is no default, so that each right is written down."""
    mounts: tuple[Mount, ...] = ()
    requests: Mapping[str, str] = {}
    limits: Mapping[str, str] = {}
    port: int | None = None
    """A port that speaks HTTP, named `http`, with `/healthz` and `/readyz`."""
    has_health_socket: bool = False
    """Whether the agent's loop answers the probes on `HEALTH_SOCKET`."""
    may_be_restarted: bool = True
    """False: no liveness probe, because a kill at the wrong moment does more harm than a hang."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet, before placement."""

    name: str
    component: str
    """As in the status: `DevicePlugin`."""
    selector: Mapping[str, str]
    containers: tuple[Container, ...]
    """The first one is the main container: it gets the component's `resources` and `env`."""
    service_account: str
    needs_token: bool = False
    """Whether the pods talk to the API server."""
    labels: Mapping[str, str] = {}
    """Labels of the pods besides the selector's."""
    annotations: Mapping[str, str] = {}
    node_labels: Mapping[str, str] = MappingProxyType({names.NPU_PRESENT: names.TRUE})
    """Where it runs; only labels that we write ourselves."""
    never_on: str = ""
    """A node label whose presence keeps the pods away; empty: none."""
    host_pid: bool = False
    host_network: bool = False
    runtime_class: str = ""
    grace_s: int = 30
    replaced_on_delete: bool = False
    """Whether a pod stays as it is until somebody deletes it (`OnDelete`)."""


def agent_command(name: str) -> tuple[str, ...]:
    """How an agent is started."""
    return (PROGRAM, "agent", name)


def probes(container: Container) -> Object:
    """Readiness and liveness: both are answered by the agent's own loop, so a hanging one fails.

    Not ready means that the agent cannot do its work; its answer, one sentence, appears in the pod's events. By the
    health socket, a probe is a Python start of about 20 ms, every 15 s: a thousandth of a core. No probe uses a port
    of the host, so agents with the host's network collide with nothing.
    """
    if container.port is None and not container.has_health_socket:
        return {}
    ready = _probe(container, "ready", "/readyz") | {"failureThreshold": 2, "periodSeconds": 15, "timeoutSeconds": 10}
    if not container.may_be_restarted:
        return {"readinessProbe": ready}
    # Ten minutes of silence: longer than any hang of a tool that the agent survives by itself.
    alive = _probe(container, "alive", "/healthz") | {"failureThreshold": 10, "periodSeconds": 60, "timeoutSeconds": 10}
    return {"livenessProbe": alive, "readinessProbe": ready}


def _probe(container: Container, question: str, path: str) -> Object:
    if container.port is not None:
        return {"httpGet": {"path": path, "port": "http", "scheme": "HTTP"}}
    return {"exec": {"command": [PROGRAM, "agent-probe", question]}}
