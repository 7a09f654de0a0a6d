"""Which parts that are switched on do not go together, or are beyond this version, in one sentence each.

A part with a conflict gets nothing deployed. What was there before stays until the spec is clear again, so that a wrong
switch takes no chip away from anybody. Source: product.md §2; facts/mindcluster.md §1, §3, §6.4.
"""

from collections.abc import Callable, Iterator

import msgspec

from npu_operator.components.pools import Pool
from npu_operator.model.chips import ChipFamily
from npu_operator.model.ctl import ExporterFlavor, PluginFlavor, Spec
from npu_operator.model.names import MINDCLUSTER_VERSION
from npu_operator.model.parts import Switched
from npu_operator.model.reasons import Reason


class Conflict(msgspec.Struct, frozen=True):
    """Why a component is not deployed."""

    component: str
    """As in the status: `Volcano`."""
    reason: Reason
    """ComponentConflict or UnsupportedByVersion."""
    message: str
    chips: tuple[ChipFamily, ...] = ()
    """Only nodes with these chips are concerned; empty: all."""


class Part(msgspec.Struct, frozen=True):
    """A part of MindCluster."""

    component: str
    field: str
    """As in the spec."""
    of: Callable[[Spec], Switched]
    reads_plugin: bool = False
    """Whether it lives on ConfigMaps and annotations that only MindCluster's device plugin writes."""


MINDCLUSTER_PARTS = (
    Part("AscendOperator", "ascendOperator", lambda spec: spec.ascend_operator, reads_plugin=True),
    Part("NodeD", "nodeD", lambda spec: spec.node_d),
    Part("ClusterD", "clusterD", lambda spec: spec.cluster_d, reads_plugin=True),
    Part("Volcano", "volcano", lambda spec: spec.volcano, reads_plugin=True),
    Part("ResilienceController", "resilienceController", lambda spec: spec.resilience_controller),
    Part("MindIOTFT", "mindIOTFT", lambda spec: spec.mind_io_tft),
    Part("MindIOACP", "mindIOACP", lambda spec: spec.mind_io_acp),
)
"""In the order in which they will be deployed (facts/mindcluster.md §3.11)."""


def conflicts(spec: Spec, pools: tuple[Pool, ...] = ()) -> tuple[Conflict, ...]:
    """Everything that does not go together, in a stable order; empty when all is well."""
    found = [
        *_native_plugin_beside_mindcluster(spec),
        *_cluster_d_without_volcano(spec),
        *_chip_unknown_to_mindcluster(spec, pools),
        *_not_in_this_version(spec),
    ]
    return tuple(found)


def _native_plugin_beside_mindcluster(spec: Spec) -> Iterator[Conflict]:
    readers = [part.field for part in MINDCLUSTER_PARTS if part.reads_plugin and part.of(spec).enabled]
    if spec.device_plugin.enabled and spec.device_plugin.flavor is PluginFlavor.NATIVE and readers:
        yield Conflict(
            "DevicePlugin",
            Reason.ComponentConflict,
            f"devicePlugin.flavor native does not go with {_listed(readers)}, which read what only MindCluster's "
            f"device plugin writes; set devicePlugin.flavor to auto or switch {_listed(readers)} off",
        )


def _cluster_d_without_volcano(spec: Spec) -> Iterator[Conflict]:
    if spec.cluster_d.enabled and not spec.volcano.enabled:
        yield Conflict(
            "ClusterD",
            Reason.ComponentConflict,
            "clusterD needs Volcano; set volcano.enabled, with volcano.mode External where the cluster has one already",
        )


def _chip_unknown_to_mindcluster(spec: Spec, pools: tuple[Pool, ...]) -> Iterator[Conflict]:
    """MindCluster serves the 950 from version 26.0 on."""
    if not any(pool.chip is ChipFamily.ASCEND_950 for pool in pools):
        return
    parts = [(part.component, part.field) for part in MINDCLUSTER_PARTS if part.of(spec).enabled]
    if spec.device_plugin.enabled and spec.device_plugin.flavor is PluginFlavor.MINDCLUSTER:
        parts.insert(0, ("DevicePlugin", "devicePlugin.flavor mindcluster"))
    if spec.exporter.enabled and spec.exporter.flavor is ExporterFlavor.MINDCLUSTER:
        parts.append(("Exporter", "exporter.flavor mindcluster"))
    for component, field in parts:
        message = f"{field}: MindCluster {MINDCLUSTER_VERSION} does not know chip 950; these nodes do without it"
        yield Conflict(component, Reason.UnsupportedByVersion, message, (ChipFamily.ASCEND_950,))


def _not_in_this_version(spec: Spec) -> Iterator[Conflict]:
    """Until MindCluster's parts are deployed by this operator, whoever switches one on is told so."""
    if spec.device_plugin.enabled and spec.device_plugin.flavor is PluginFlavor.MINDCLUSTER:
        yield _missing("DevicePlugin", "devicePlugin.flavor mindcluster", "set devicePlugin.flavor to auto or native")
    if spec.exporter.enabled and spec.exporter.flavor is ExporterFlavor.MINDCLUSTER:
        yield _missing("Exporter", "exporter.flavor mindcluster", "set exporter.flavor to native")
    for part in MINDCLUSTER_PARTS:
        if part.of(spec).enabled:
            yield _missing(part.component, part.field, f"switch {part.field}.enabled off")


def _missing(component: str, what: str, instead: str) -> Conflict:
    return Conflict(
        component, Reason.UnsupportedByVersion, f"{what}: this version of the operator does not deploy it; {instead}"
    )


def _listed(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
