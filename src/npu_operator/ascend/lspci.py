"""Ascend functions in what `lspci` printed (also with `-nn`, `-D`, `-k`), for texts from a support archive."""

import re
from collections.abc import Iterable

import msgspec

from npu_operator.ascend import pci

_LINE = re.compile(r"^\s*(?P<address>(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s+(?P<rest>.+)$")
_NUMERIC = re.compile(r"\[([0-9A-Fa-f]{4})\]:.*\[([0-9A-Fa-f]{4}):([0-9A-Fa-f]{4})\]")
_NAMED_HUAWEI = re.compile(r"^Processing accelerators: Huawei\b.*?\bDevice (?P<device>[0-9A-Fa-f]{4})\b")
_DRIVER = re.compile(r"^\s+Kernel driver in use:\s*(\S+)")
_SUBSYSTEM = re.compile(r"^\s+Subsystem:.*\[([0-9A-Fa-f]{4}):([0-9A-Fa-f]{4})\]")


def read(lines: Iterable[str]) -> tuple[pci.Function, ...]:
    """The Ascend functions that the lines list, in their order; lines of other devices are passed over."""
    found: list[pci.Function] = []
    is_inside_ours = False
    for line in lines:
        if head := _LINE.match(line):
            function = _function(head["address"], head["rest"])
            is_inside_ours = function is not None
            if function is not None:
                found.append(function)
        elif is_inside_ours and (driver := _DRIVER.match(line)):
            found[-1] = msgspec.structs.replace(found[-1], driver=driver[1])
        elif is_inside_ours and (below := _SUBSYSTEM.match(line)):
            found[-1] = msgspec.structs.replace(found[-1], subvendor=int(below[1], 16), subdevice=int(below[2], 16))
    return tuple(found)


def _function(address: str, rest: str) -> pci.Function | None:
    if numeric := _NUMERIC.search(rest):
        pci_class, vendor, device = (int(number, 16) for number in numeric.groups())
    elif named := _NAMED_HUAWEI.match(rest):
        pci_class, vendor, device = pci.ACCELERATOR_CLASS, pci.VENDOR, int(named["device"], 16)
    else:
        return None
    if not pci.is_npu(vendor, device, pci_class):
        return None
    return pci.Function(
        address=pci.normal_address(address) or address, vendor=vendor, device=device, pci_class=pci_class
    )
