"""Labels of the exporter's series: which chip it is, and who holds it."""

from collections.abc import Callable
from typing import Final

from npu_operator.node.state import ChipUse, NodeChip

CHIP: Final = ("id", "model_name", "vdie_id", "pcie_bus_info", "namespace", "pod_name", "container_name")
"""MindCluster's labels of every chip metric. `id` is the physical id; the last three tell who holds the chip."""
DEVICE: Final = ("device",)
"""Ours: the device id, as in the kubelet and in `NPUNode`."""

Values = tuple[str, ...]
LabelsOf = Callable[[NodeChip], Values]
NOBODY: Final = ChipUse()


def chip(one: NodeChip) -> Values:
    """Values of `CHIP`. The holder is empty when nobody holds the chip, or several containers do."""
    return used_chip(one, one.users[0] if len(one.users) == 1 else NOBODY)


def used_chip(one: NodeChip, use: ChipUse) -> Values:
    """Values of `CHIP` for one of the containers that use the chip."""
    about = one.chip
    physical = about.id.rpartition("-")[2] if about.physical is None else str(about.physical)
    return physical, about.model, vdie(one), about.bus, use.namespace, use.pod, use.container


def device(one: NodeChip) -> Values:
    """Values of `DEVICE`."""
    return (one.chip.id,)


def vdie(one: NodeChip) -> str:
    """The die's number, as MindCluster joins its five words."""
    return "-".join(one.vdie_id.split())


def container(use: ChipUse) -> str:
    """A container in one word, as MindCluster has it; empty for none."""
    return "_".join(part for part in (use.namespace, use.pod, use.container) if part)
