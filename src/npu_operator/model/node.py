"""The Kubernetes Node, reduced to what the operator reads.

A real Node is 12 to 16 KiB, of which images, addresses, conditions of others and most labels are nothing to us. What is
left is decoded at once, without the whole object ever being built, and its strings are shared between nodes.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from . import names
from .metadata import Metadata

KEPT_PREFIXES: Final = (
    names.NFD_PCI,
    "npu.",
    "openfuyao.com/",
    "npu.openfuyao.com/",
    f"{names.GROUP}/",
    "accelerator",
    "huawei.com/topotree.",
    "node-role.kubernetes.io/",
)
KEPT_KEYS: Final = frozenset(
    {
        names.NFD_KERNEL,
        names.NFD_OS_ID,
        names.NFD_OS_VERSION,
        names.SIGN_NPU,
        names.SIGN_WORKER,
        names.SIGN_MASTER,
        "servertype",
        "node.kubernetes.io/npu.chip.name",
        names.HOST_ARCH,
        names.HOSTNAME,
    }
)
KEPT_ANNOTATIONS: Final = ("npu.openfuyao.com/", f"{names.GROUP}/", names.SUPER_POD_ANNOTATION)


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of the node."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = msgspec.field(default=None, name="timeAdded")
    """Set by Kubernetes for NoExecute; whoever replaces the list of taints has to hand it on."""


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What we read of a Node. Labels and annotations are only those that matter (`keep_label`)."""

    metadata: Metadata
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    ready: str = "Unknown"
    """Status of the Ready condition: True, False or Unknown."""
    ready_reason: str = ""
    boot_id: str = ""
    kernel: str = ""
    """`uname -r`."""
    os_image: str = ""
    architecture: str = ""
    """As Go spells it: arm64, amd64."""
    runtime: str = ""
    """For example `containerd://2.2.9`."""
    capacity: dict[str, int] = {}
    """Our resources only."""
    allocatable: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The node's name."""
        return self.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that matter."""
        return self.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations that matter."""
        return self.metadata.annotations

    @property
    def is_ready(self) -> bool:
        """Does Kubernetes say that the node is ready?"""
        return self.ready == "True"


def keep_label(key: str) -> bool:
    """Is this a label that some decision of ours reads?"""
    return key in KEPT_KEYS or key.startswith(KEPT_PREFIXES)


def keep_annotation(key: str) -> bool:
    """Is this an annotation that some decision of ours reads?"""
    return key.startswith(KEPT_ANNOTATIONS)


class NodeDecoder:
    """Makes slim Nodes from what the API server sends.

    `labels` are further label keys to keep (those in `upgradePolicy.order` and in node selectors), `resources` further
    resource names (those that the spec renames chips to). Raises `msgspec.DecodeError` for what is no Node.
    """

    def __init__(self, *, labels: Iterable[str] = (), resources: Iterable[str] = ()) -> None:
        self.labels = frozenset(labels)
        self.resources = frozenset(resources) | {names.VALIDATION_RESOURCE}
        self._decoder = msgspec.json.Decoder(_Wire)

    def __call__(self, raw: bytes | msgspec.Raw) -> Node:
        """Decode one Node."""
        wire = self._decoder.decode(raw)
        ready = next((condition for condition in wire.status.conditions if condition.type == "Ready"), _NO_CONDITION)
        info = wire.status.node_info
        return Node(
            metadata=_slim(wire.metadata, self.labels),
            unschedulable=wire.spec.unschedulable,
            taints=wire.spec.taints,
            ready=sys.intern(ready.status),
            ready_reason=sys.intern(ready.reason),
            boot_id=info.boot_id,
            kernel=sys.intern(info.kernel_version),
            os_image=sys.intern(info.os_image),
            architecture=sys.intern(info.architecture),
            runtime=sys.intern(info.container_runtime_version),
            capacity=self._ours(wire.status.capacity),
            allocatable=self._ours(wire.status.allocatable),
        )

    def _ours(self, amounts: Mapping[str, str]) -> dict[str, int]:
        return {
            sys.intern(name): count(amount)
            for name, amount in amounts.items()
            if name.startswith(names.RESOURCE_PREFIX) or name in self.resources
        }


def count(quantity: str) -> int:
    """A quantity of whole things (`8`, `1k`); extended resources have no other kind. Raises ValueError."""
    return int(quantity[:-1]) * 1000 if quantity.endswith("k") else int(quantity)


def _slim(metadata: Metadata, extra: frozenset[str]) -> Metadata:
    return Metadata(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        creation_timestamp=metadata.creation_timestamp,
        deletion_timestamp=metadata.deletion_timestamp,
        labels={
            sys.intern(key): sys.intern(value)
            for key, value in metadata.labels.items()
            if key in extra or keep_label(key)
        },
        annotations={sys.intern(key): value for key, value in metadata.annotations.items() if keep_annotation(key)},
    )


class _Condition(msgspec.Struct, gc=False):
    type: str
    status: str
    reason: str = ""


class _Info(msgspec.Struct, gc=False):
    kernel_version: str = msgspec.field(default="", name="kernelVersion")
    os_image: str = msgspec.field(default="", name="osImage")
    boot_id: str = msgspec.field(default="", name="bootID")
    architecture: str = ""
    container_runtime_version: str = msgspec.field(default="", name="containerRuntimeVersion")


class _Spec(msgspec.Struct, gc=False):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class _Status(msgspec.Struct, gc=False):
    conditions: tuple[_Condition, ...] = ()
    node_info: _Info = msgspec.field(default_factory=_Info, name="nodeInfo")
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}


class _Wire(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_NO_CONDITION: Final = _Condition(type="Ready", status="Unknown")
