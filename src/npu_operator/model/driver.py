"""The driver's part of the spec: which version, from which image, and how it gets into the kernel.

When and how nodes are taken out of service for it is in `policies`.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, field

from . import names
from .chips import ChipFamily
from .fields import Line, Name, Pattern, Rule, Section, Version
from .parts import Placed, PullPolicy, Repository, Tag
from .policies import RecoveryPolicy, UpgradePolicy

KNOWN_CHIPS = "self.all(chip, chip in ['{}'])".format("', '".join(ChipFamily))
CHIP_RULE = Rule(KNOWN_CHIPS, f"the keys are chips: {', '.join(ChipFamily)}")


class RebootMethod(StrEnum):
    """How the rebooter reboots."""

    SYSRQ = "sysrq"
    SYSTEMCTL = "systemctl"
    COMMAND = "command"


class FirmwarePolicy(StrEnum):
    """What happens when the running firmware lies outside the range a driver accepts."""

    REPORT = "Report"
    REQUIRE = "Require"


class PerChip(Section, frozen=True, kw_only=True):
    """What differs for one chip family."""

    version: Annotated[Version, "Driver version for nodes with this chip."]


class DriverImage(Section, frozen=True, kw_only=True):
    """Where driver images come from. The tag is `<version>-<chip>-<kernel>-<os>`."""

    repository: Annotated[
        Repository, "Repository with or without a registry host; without one, `registry` of the spec comes first."
    ] = names.DRIVER_REPOSITORY
    pull_policy: Annotated[PullPolicy, "When the kubelet pulls the image."] = PullPolicy.IF_NOT_PRESENT
    tags: Annotated[
        dict[Annotated[Name, "kernel"], Annotated[dict[ChipFamily, Tag], Meta(max_length=16), CHIP_RULE]],
        Meta(max_length=64),
        "Tags that replace the usual one: by kernel (the node's whole `uname -r`), then by chip.",
    ] = field(default_factory=dict)


class Reboot(Section, frozen=True, kw_only=True):
    """How a node is rebooted."""

    rules = (
        Rule(
            "!has(self.method) || self.method != 'command' || (has(self.command) && size(self.command) > 0)",
            "method command needs the words of the command in reboot.command",
        ),
    )

    method: Annotated[
        RebootMethod,
        "sysrq: sync, remount read-only and reset, which works on every kernel. systemctl: an orderly reboot. "
        "command: what `command` says.",
    ] = RebootMethod.SYSRQ
    command: Annotated[
        tuple[Line, ...], Meta(max_length=32), "Words of the command that is run on the host for method command."
    ] = ()


class Firmware(Section, frozen=True, kw_only=True):
    """The firmware in the flash of the chips, which the operator never writes."""

    policy: Annotated[
        FirmwarePolicy,
        "Report: tell when the running firmware is outside the driver's range. Require: do not start such a node.",
    ] = FirmwarePolicy.REPORT


class Driver(Placed, frozen=True, kw_only=True):
    """The Ascend driver and how it is brought to the nodes."""

    enabled: Annotated[bool, "Whether the operator loads the driver; false: the one that is on the host is used."] = (
        True
    )
    version: Annotated[Version, "Driver version for all chips that `perChip` does not name."] = (
        names.DRIVER_DEFAULT_VERSION
    )
    per_chip: Annotated[
        dict[ChipFamily, PerChip], Meta(max_length=16), CHIP_RULE, "Versions by chip, where they differ."
    ] = field(default_factory=dict)
    image: Annotated[DriverImage, "Where driver images come from."] = DriverImage()
    module_options: Annotated[
        dict[
            Annotated[
                str,
                Meta(min_length=1, max_length=64),
                Pattern("[A-Za-z0-9_-]+", "the keys are names of kernel modules, for example drv_pcie"),
            ],
            Line,
        ],
        Meta(max_length=64),
        "Options for kernel modules, by module name. A change takes effect by an upgrade of the node.",
    ] = field(default_factory=dict)
    reboot: Annotated[Reboot, "How a node is rebooted."] = Reboot()
    firmware: Annotated[Firmware, "The firmware of the chips."] = Firmware()
    upgrade_policy: Annotated[UpgradePolicy, "How the fleet is taken to another version."] = UpgradePolicy()
    recovery_policy: Annotated[RecoveryPolicy, "What happens when chips are sick."] = RecoveryPolicy()
