"""The chip families we know, as they are written in driver image tags.

The family is decided by the PCI id (`npu_operator.ascend`), never by a product name: names are ambiguous
("910" is part of four families' names).
"""

from enum import StrEnum


class ChipFamily(StrEnum):
    """The chip part of a driver image tag and of a pool."""

    ASCEND_310 = "310"
    ASCEND_310B = "310b"
    ASCEND_310P = "310p"
    ASCEND_910 = "910"
    """First generation (910A)."""
    ASCEND_910B = "910b"
    """A2."""
    ASCEND_A3 = "a3"
    """910C: two dies in one package."""
    ASCEND_950 = "950"


class ChipState(StrEnum):
    """What a chip is doing, as seen on its node."""

    FREE = "Free"
    IN_USE = "InUse"
    PARTITIONED = "Partitioned"
    """Split into vNPUs by somebody; not offered whole."""
    SHARED = "Shared"
    """In device-share mode; not offered."""
    PASSTHROUGH = "Passthrough"
    """Given to a virtual machine (bound to vfio-pci)."""
    ISOLATED = "Isolated"
    """Taken out by a person: `NPUNode.spec.isolatedChips`."""
    LOST = "Lost"
    """Was there before in this boot, or is on the PCI bus, but does not answer."""


class ChipHealth(StrEnum):
    """The health word of the vendor's tool, worst last."""

    OK = "OK"
    WARNING = "Warning"
    ALARM = "Alarm"
    CRITICAL = "Critical"
    UNKNOWN = "Unknown"
    """The tool gave no answer for this chip."""
