"""Signs of an Ascend chip in a Node's labels, before anything of ours runs there.

NFD names PCI devices by fields that its configuration chooses: `pci-1200_19e5.present` by default, `pci-19e5.present`
with the vendor alone, `pci-1200_19e5_d802.present` with the device. Fields keep the order class, vendor, device,
sub-vendor, sub-device. Other labels are signs that an admin or MindCluster set. Only a device id tells the chip.
Source: node-feature-discovery's PCI source, MindCluster's and our own labels.
"""

import re
from collections.abc import Mapping

import msgspec

from npu_operator.ascend import pci

NFD = "feature.node.kubernetes.io/"
KERNEL = NFD + "kernel-version.full"
OS_ID = NFD + "system-os_release.ID"
OS_VERSION_ID = NFD + "system-os_release.VERSION_ID"

# Set by people or by MindCluster. A key with several values: any of them is a sign. Labels that we write ourselves are
# none: they would keep a node an NPU node after its card is gone.
SIGNS: dict[str, frozenset[str]] = {
    "npu": frozenset({"true"}),
    "accelerator": frozenset({"huawei-Ascend910", "huawei-Ascend310", "huawei-Ascend310P", "huawei-npu"}),
    "workerselector": frozenset({"dls-worker-node"}),
}

_PCI_LABEL = re.compile(
    re.escape(NFD) + r"pci-([0-9a-f]{4}(?:_[0-9a-f]{4})*)\.(?:present|sriov\.capable)", re.IGNORECASE
)


class Sign(msgspec.Struct, frozen=True):
    """The label that says there is an NPU, and the chip family when the label names the device."""

    label: str
    chip: pci.ChipFamily | None = None


def sign_of_npu(labels: Mapping[str, str]) -> Sign | None:
    """The best sign: a label that names the chip, else a PCI one, else one set by hand; None without any."""
    found = [sign for key, value in sorted(labels.items()) if (sign := _pci_sign(key, value)) is not None]
    with_chip = next((sign for sign in found if sign.chip is not None), None)
    by_hand = (Sign(f"{key}={labels[key]}") for key, values in SIGNS.items() if labels.get(key) in values)
    return with_chip or next(iter(found), None) or next(by_hand, None)


def _pci_sign(key: str, value: str) -> Sign | None:
    label = _PCI_LABEL.fullmatch(key)
    if label is None or value.lower() == "false":
        return None
    numbers = [int(part, 16) for part in label[1].split("_")]
    has_class = numbers[0] == pci.ACCELERATOR_CLASS
    if has_class:
        numbers = numbers[1:]
    if not numbers:
        return None  # some accelerator, of any vendor
    if numbers[0] in pci.DEVICES and has_class:
        return Sign(key, pci.DEVICES[numbers[0]].family)  # class and device, without the vendor
    return _vendor_sign(key, numbers, has_class)


def _vendor_sign(key: str, numbers: list[int], has_class: bool) -> Sign | None:
    vendor, device = numbers[0], numbers[1] if len(numbers) > 1 else None
    if vendor != pci.VENDOR and vendor not in pci.PARTNER_VENDORS:
        return None
    if device is None:
        return Sign(key) if has_class or vendor == pci.VENDOR else None
    if pci.is_npu(vendor, device):
        return Sign(key, pci.chip_family(vendor, device))
    # An unknown device of the accelerator class is an NPU newer than this table, or the next field is a sub-vendor.
    return Sign(key) if has_class else None
