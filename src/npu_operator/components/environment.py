"""The settings that a component's pods get by environment: one list of names for those who set and those who read.

All values are text; lists and maps are JSON with sorted keys. An admin may override or add any by the component's
`env`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from npu_operator.components.labels import Object
from npu_operator.model.parts import EnvVar

# --- every agent
NODE_NAME = "NPU_NODE_NAME"
NAMESPACE = "NPU_NAMESPACE"
HOST_ROOT = "NPU_HOST_ROOT"
"""Where the host's root file system is seen; only for agents that get it."""
HEALTH_SOCKET = "NPU_HEALTH_SOCKET"
"""Unix socket on which the agent's loop answers `npu-operator agent-probe`."""

# --- loader and payload
DRIVER_VERSION = "NPU_DRIVER_VERSION"
DRIVER_IMAGE_DIGEST = "NPU_DRIVER_IMAGE_DIGEST"
"""The pinned digest (`sha256:…`) of the payload's image; absent when none is pinned."""
DRIVER_CHIP = "NPU_DRIVER_CHIP"
DRIVER_KERNEL = "NPU_DRIVER_KERNEL"
"""The whole `uname -r` of the pool."""
MODULE_OPTIONS = "NPU_MODULE_OPTIONS"
"""JSON: module name → options; absent when there are none."""
FIRMWARE_POLICY = "NPU_FIRMWARE_POLICY"
PAYLOAD_TARGET = "NPU_PAYLOAD_TARGET"
"""The directory into which the payload copies itself, as `<version>-<digest>`."""

# --- node agent
DRIVER_MANAGED = "NPU_DRIVER_MANAGED"
"""`true` when the driver is ours to load, `false` in passthrough."""
RUNTIME_MANAGED = "NPU_RUNTIME_MANAGED"
"""Whether CDI file and containerd settings are to be kept."""
LIBRARY_PATH = "NPU_LIBRARY_PATH"
PROBE_SECOND = "NPU_PROBE_SECOND"
PROBE_FAILURES = "NPU_PROBE_FAILURES"
HEALER = "NPU_HEALER"

# --- device plugin, and the node agent, which has to know the plugin's resources
RESOURCE_NAMES = "NPU_RESOURCE_NAMES"
"""JSON: chip family → resource name, only those that differ from the usual ones; absent when none does."""
INJECTION = "NPU_INJECTION"

# --- others
METRICS_PORT = "NPU_METRICS_PORT"
REPORT_DIR = "NPU_REPORT_DIR"
"""Where the validator may write its verdict."""
REBOOT_METHOD = "NPU_REBOOT_METHOD"
REBOOT_COMMAND = "NPU_REBOOT_COMMAND"
"""JSON list of words; only for method `command`."""

Variable = Mapping[str, Any]

OF_EVERY_POD: dict[str, str] = {NODE_NAME: "spec.nodeName", NAMESPACE: "metadata.namespace"}
"""Variables that come from the pod itself, by field path."""


def as_json(value: object) -> str:
    """Lists and maps as one line that is the same every time."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def as_flag(value: bool) -> str:
    """`true` or `false`."""
    return "true" if value else "false"


def variables(values: Mapping[str, str], overrides: Iterable[EnvVar] = ()) -> list[Object]:
    """The `env` list of a container: `values` and the pod's own, then what an admin adds; no name appears twice."""
    by_name: dict[str, Object] = {name: _from_field(name, path) for name, path in OF_EVERY_POD.items()}
    by_name |= {name: _plain(name, value) for name, value in sorted(values.items())}
    by_name |= {
        one.name: {"name": one.name, "valueFrom": one.value_from} if one.value_from else _plain(one.name, one.value)
        for one in overrides
    }
    return list(by_name.values())


def _plain(name: str, value: str) -> Object:
    """The API server keeps no empty value."""
    return {"name": name, "value": value} if value else {"name": name}


def _from_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
