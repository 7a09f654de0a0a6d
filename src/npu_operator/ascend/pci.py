"""Ascend chips on the PCI bus: which ids are ours, which chip family they are, how many NPUs a function carries.

The family comes from the device id and never from a name: "910B" is printed for a first-generation chip (d801, 32 GB)
as well as for an A2 (d802). "PCI functions" is not "NPUs": a 300I Duo has one function for two chips, and virtual
functions do not count. Source: id tables of ascend-deployer 26.0.0 and of the open driver (hicann/driver).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, get_args

import msgspec

ChipFamily: TypeAlias = Literal["310", "310b", "310p", "910", "910b", "a3", "950"]
CHIP_FAMILIES: tuple[ChipFamily, ...] = get_args(ChipFamily)

VENDOR = 0x19E5
PARTNER_VENDORS = frozenset({0x20C6, 0x203F, 0x20E9})  # sell cards with the same device ids
UNSET_VENDOR = 0xFFFF  # seen as the vendor of d500 only
ACCELERATOR_CLASS = 0x1200

# The driver refuses a function with another sub-vendor: "subsystem_vendor is invalid", -EPERM.
ACCEPTED_SUBVENDORS = frozenset({0x0200, 0x19E5, 0x2092, 0x20C6, 0x203F, 0x20E9})

DRIVER_NAME = "devdrv_device_driver"  # below /sys/bus/pci/drivers
PASSTHROUGH_DRIVERS = frozenset({"vfio-pci", "pci-stub", "xen-pciback"})


class DeviceId(msgspec.Struct, frozen=True):
    """What a device id stands for; `family` is None for a chip that no driver image is made for."""

    family: ChipFamily | None
    product: str
    is_virtual_function: bool = False


DEVICES: dict[int, DeviceId] = {
    0xD100: DeviceId("310", "Ascend 310"),
    0xD105: DeviceId("310b", "Ascend 310B (Atlas 200I A2)"),
    0xD107: DeviceId("310b", "Ascend 310B (Atlas 200I DK A2)"),
    0xD500: DeviceId("310p", "Ascend 310P"),
    0xD501: DeviceId("310p", "Ascend 310P, two chips"),
    0xD801: DeviceId("910", "Ascend 910, first generation"),
    0xD802: DeviceId("910b", "Ascend 910B (A2)"),
    0xD803: DeviceId("a3", "Ascend 910C (A3)"),
    0xD804: DeviceId("910b", "Ascend 910B, two chips"),
    0xD805: DeviceId("910b", "Ascend 910B virtual function", is_virtual_function=True),
    0xD806: DeviceId("950", "Ascend 950 (A5)"),
    0xD807: DeviceId("950", "Ascend 950 class"),
    0xD808: DeviceId(None, "Ascend mini v4"),
}

# The finer name where a sub-device tells it, by (device, sub-vendor, sub-device).
PRODUCTS: dict[tuple[int, int, int], str] = {
    (0xD100, 0x0200, 0x0100): "Atlas 300I 3010/3000",
    (0xD500, 0x0200, 0x0100): "Atlas 300I/300V Pro",
    (0xD500, 0x0200, 0x0110): "Atlas 300I Duo",
    (0xD801, 0x0200, 0x0100): "Atlas 300T / 800-9000",
    (0xD802, 0x19E5, 0x3002): "Atlas 800I A2",
    (0xD802, 0x19E5, 0x3004): "Atlas 800I A2",
    (0xD802, 0x19E5, 0x3005): "Atlas 800I A2",
    (0xD802, 0x19E5, 0x4000): "Atlas 300I A2",
    (0xD802, 0x19E5, 0x6000): "Atlas 300T A2",
    **{
        (0xD802, 0x19E5, subdevice): "Atlas 900T/800T A2"
        for subdevice in (0x3000, 0x3001, 0x3003, 0x3400, 0x3401, 0x3402, 0x3403)
    },
    (0xD802, 0x0200, 0x0100): "Atlas 900T/800T A2",
    **{(0xD803, 0x19E5, subdevice): "Atlas 900 A3 pod" for subdevice in (0x3000, 0x3001, 0x3002)},
    (0xD803, 0x19E5, 0x3003): "Atlas 800I A3",
    (0xD803, 0x19E5, 0x0100): "Atlas 800I A3",
    (0xD806, 0x19E5, 0x4004): "Atlas 350",
}

_TWO_CHIP_DEVICES = frozenset({0xD500, 0xD501})
_HEX = re.compile(r"(?:0[xX])?([0-9A-Fa-f]{1,8})")
_ADDRESS = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """One PCI function as sysfs shows it. Ids are numbers; None where the source does not tell.

    `is_virtual_function` says that it has a `physfn` link; `driver` is the last part of the `driver` link;
    `davinci_dev_num` is the attribute that the Ascend driver adds after a good probe.
    """

    address: str
    vendor: int
    device: int
    subvendor: int | None = None
    subdevice: int | None = None
    pci_class: int | None = None
    driver: str | None = None
    is_virtual_function: bool = False
    numa_node: int | None = None
    davinci_dev_num: int | None = None

    @property
    def family(self) -> ChipFamily | None:
        """The chip family, None when this is no Ascend chip or one without driver images."""
        return chip_family(self.vendor, self.device)

    @property
    def npus(self) -> int:
        """How many NPUs this function carries; 0 for a virtual function or a foreign device."""
        known = is_npu(self.vendor, self.device, self.pci_class)
        if not known or self.is_virtual_function or DEVICES[self.device].is_virtual_function:
            return 0
        return npus_per_function(self.device, self.subdevice)

    @property
    def is_passthrough(self) -> bool:
        """Whether the function is bound for a virtual machine."""
        return self.driver in PASSTHROUGH_DRIVERS

    @property
    def product(self) -> str:
        """A name for people, as fine as the ids allow."""
        by_sub = PRODUCTS.get((self.device, self.subvendor or -1, self.subdevice or -1))
        known = DEVICES.get(self.device)
        return by_sub or (known.product if known else f"unknown device {self.device:04x}")


def is_npu(vendor: int, device: int, pci_class: int | None = None) -> bool:
    """Whether these ids are an Ascend chip: a device id of ours under our vendor id or a partner's."""
    if device not in DEVICES or (pci_class is not None and pci_class != ACCELERATOR_CLASS):
        return False
    return vendor == VENDOR or vendor in PARTNER_VENDORS or (vendor == UNSET_VENDOR and device == 0xD500)


def chip_family(vendor: int, device: int) -> ChipFamily | None:
    """The family that driver images are named by, or None."""
    return DEVICES[device].family if is_npu(vendor, device) else None


def npus_per_function(device: int, subdevice: int | None) -> int:
    """2 for a 300I Duo (sub-device 0x011x below d500 or d501), else 1."""
    return 2 if device in _TWO_CHIP_DEVICES and subdevice is not None and subdevice & 0xFFF0 == 0x0110 else 1


def count_npus(functions: Iterable[Function]) -> int:
    """How many NPUs the node has: what `/dev/davinciN` must show when all of them are up."""
    return sum(function.npus for function in functions if not function.is_passthrough)


def families(functions: Iterable[Function]) -> tuple[ChipFamily, ...]:
    """The chip families present, in the order of `CHIP_FAMILIES`; more than one is a node nobody sells."""
    present = {function.family for function in functions}
    return tuple(family for family in CHIP_FAMILIES if family in present)


def hex_number(text: str) -> int | None:
    """An id as sysfs, lspci or npu-smi prints it (`0x19e5`, `d802`, `0xD802`); None when it is none."""
    found = _HEX.fullmatch(text.strip())
    return int(found[1], 16) if found else None


def normal_address(text: str) -> str | None:
    """A PCI address in one form, `0000:c1:00.0` (npu-smi prints capitals, lspci leaves out the domain), or None."""
    found = _ADDRESS.fullmatch(text.strip())
    return f"{found[1] or '0000'}:{found[2]}:{found[3]}.{found[4]}".lower() if found else None


def from_sysfs(address: str, attributes: Mapping[str, str]) -> Function | None:
    """A function from the texts below `/sys/bus/pci/devices/<address>`; None without vendor and device.

    `attributes` holds file contents by name (`vendor`, `device`, `subsystem_vendor`, `subsystem_device`, `class`,
    `numa_node`, `davinci_dev_num`), the name of the `driver` link, and `physfn` when that link exists.
    """

    def number(name: str) -> int | None:
        return hex_number(attributes.get(name, ""))

    def decimal(name: str) -> int | None:
        text = attributes.get(name, "").strip()
        return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None

    vendor, device, pci_class, node = number("vendor"), number("device"), number("class"), decimal("numa_node")
    if vendor is None or device is None:
        return None
    return Function(
        address=normal_address(address) or address,
        vendor=vendor,
        device=device,
        subvendor=number("subsystem_vendor"),
        subdevice=number("subsystem_device"),
        pci_class=None if pci_class is None else pci_class >> 8,  # sysfs appends the programming interface
        driver=attributes.get("driver", "").strip() or None,
        is_virtual_function="physfn" in attributes,
        numa_node=node if node is not None and node >= 0 else None,
        davinci_dev_num=decimal("davinci_dev_num"),
    )
