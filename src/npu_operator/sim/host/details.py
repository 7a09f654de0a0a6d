"""The sub-commands of npu-smi that the agents use: `-l`, `-m`, and `-t` with its types, one text per card and chip.

Keys and widths are those of the npucli source (hicann/driver) and of public outputs: a TAB, the key padded to 30 (40
for ecc), a colon, the value.
"""

from collections.abc import Callable, Iterator

from npu_operator.model.chips import ChipFamily
from npu_operator.sim.host.machine import FakeChip, Machine

Lines = Iterator[str]


def listed(machine: Machine) -> str:
    """`info -l`."""
    if not machine.shown:
        return "There is no NPU card on this server.\n"
    lines = [_line("Total Count", len(_cards(machine)))]
    for card in _cards(machine):
        count = sum(chip.card == card for chip in machine.shown)
        lines += ["", _line("NPU ID", card), _line("Chip Count", count)]
    return _joined(lines)


def mapping(machine: Machine) -> str:
    """`info -m`: the chips of each card and its MCU. Physical ids only where the tool has that column."""
    has_physical = machine.family is ChipFamily.ASCEND_A3
    columns = ["NPU ID", "Chip ID", "Chip Logic ID", *(["Chip Phy-ID"] if has_physical else []), "Chip Name"]
    if machine.family is ChipFamily.ASCEND_950:
        columns = ["NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name"]
    lines = [_columns(columns)]
    for card in _cards(machine):
        chips = [chip for chip in machine.shown if chip.card == card]
        for chip in chips:
            name = chip.name if chip.name.startswith("Ascend") else f"Ascend {chip.name}"
            if machine.family is ChipFamily.ASCEND_950:
                lines.append(_columns([card, card, chip.chip, chip.physical, name]))
                continue
            numbers = [card, chip.chip, chip.logic, *([chip.physical] if has_physical else [])]
            lines.append(_columns([*numbers, name]))
        if machine.family is not ChipFamily.ASCEND_950:
            dashes = ["-"] * (len(columns) - 3)
            lines.append(_columns([card, len(chips), *dashes, "Mcu"]))
    return _joined(lines)


def topology(machine: Machine) -> str:
    """`-t topo`: the matrix, and which processors are near where the machine tells."""
    chips = machine.shown
    labels = [f"NPU{chip.logic}" for chip in chips]
    has_affinity = all(chip.numa is not None for chip in chips)
    lines = ["\t   " + "".join(label.ljust(11) for label in labels) + ("CPU Affinity" if has_affinity else "")]
    for chip, label in zip(chips, labels, strict=True):
        words = "".join(relation(machine, chip, other).ljust(11) for other in chips)
        affinity = "" if chip.numa is None else f"{24 * chip.numa}-{24 * chip.numa + 23}"
        lines.append(f"{label:<11}{words}{affinity}".rstrip())
    return _joined([*lines, "", "Legend:", "", "  X    = Self", "  HCCS = Connection traversing HCCS."])


def relation(machine: Machine, one: FakeChip, other: FakeChip) -> str:
    """How two chips reach each other."""
    if one is other:
        return "X"
    if one.card == other.card:
        return "SIO" if machine.family is ChipFamily.ASCEND_A3 else "PIX"
    if machine.topology == "rings":
        return "HCCS" if one.logic // 4 == other.logic // 4 else "SYS"
    if machine.topology == "HCCS" and machine.family is ChipFamily.ASCEND_A3:
        return "HCCS_SW"
    if machine.topology in ("PHB", "PIX") and one.numa != other.numa:
        return "SYS"
    return machine.topology


def of_card(machine: Machine, kind: str, card: int) -> str | None:
    """`-t kind -i card` where the text is of the whole card; None when it needs a chip."""
    chips = [chip for chip in machine.shown if chip.card == card]
    if kind == "board" and machine.family is not ChipFamily.ASCEND_950:
        return _joined(_card_board(machine, chips))
    if kind == "common" and machine.family is not ChipFamily.ASCEND_950:
        return _joined(_common(card, chips))
    if kind == "device-share":
        return _joined(_shared(card, chips))
    return None


def of_chip(machine: Machine, kind: str, chip: FakeChip) -> str | None:
    """`-t kind -i card -c chip`; on 950, where a card is a chip, without `-c`. None for a type that is none."""
    maker = _OF_950.get(kind) if machine.family is ChipFamily.ASCEND_950 else _OF_CHIP.get(kind)
    return None if maker is None else _joined(maker(machine, chip))


def is_of_chip(machine: Machine, kind: str) -> bool:
    """Whether the tool of this machine knows the type."""
    return kind in (_OF_950 if machine.family is ChipFamily.ASCEND_950 else _OF_CHIP)


def remap(machine: Machine, chip: FakeChip) -> str:
    """`-t phyid-remap -p physical`: which card and chip has this physical id."""
    lines = [f"{'Chip Phy-ID':<30}:{chip.physical}", f"{'NPU ID':<30}:{chip.card}"]
    if machine.family is ChipFamily.ASCEND_950:
        lines.append(f"{'Slot ID':<30}:{chip.card}")
    return _joined([*lines, f"{'Chip ID':<30}:{chip.chip}"])


def _health(machine: Machine, chip: FakeChip) -> Lines:
    if machine.family is ChipFamily.ASCEND_950:
        yield _line("NPU ID", chip.card)
    yield _line("Health" if machine.family is ChipFamily.ASCEND_950 else "Health Status", chip.health)
    yield _line("Error Code", " ".join(chip.fault_codes) or "NA")
    yield _line("Error Information", "node type=SoC, sensor type=Hardware" if chip.fault_codes else "NA")


def _card_board(machine: Machine, chips: list[FakeChip]) -> Lines:
    first = chips[0]
    yield _line("NPU ID", first.card)
    yield _line("Product Name", "IT21HMDB01-B2")
    yield _line("Model", "NA")
    yield _line("Manufacturer", "Huawei")
    yield _line("Serial Number", first.serial)
    yield _line("Software Version", machine.driver_version)
    yield _line("Firmware Version", machine.firmware)
    yield _line("Compatibility", "OK")
    yield _line("PCIe Bus Info", first.bus.upper())
    yield _line("Slot ID", first.card)
    yield _line("PCI Vendor ID", "0x19E5")
    yield _line("PCI Device ID", f"0x{machine.device_id:04X}")
    yield _line("Subsystem Vendor ID", f"0x{machine.subvendor:04X}")
    yield _line("Subsystem Device ID", f"0x{machine.subdevice:04X}")
    yield _line("Chip Count", len(chips))


def _chip_board(machine: Machine, chip: FakeChip) -> Lines:
    yield _line("NPU ID", chip.card)
    yield _line("Chip ID", chip.chip)
    yield _line("Chip Type", "Ascend")
    yield _line("Chip Name", chip.name)
    yield _line("Chip Version", "V1")
    yield _line("PCB ID", "NA")
    yield _line("VDie ID", chip.vdie or "NA")
    yield _line("PCIe Bus Info", chip.bus.upper())
    yield _line("Firmware Version", machine.firmware)


def _board_950(machine: Machine, chip: FakeChip) -> Lines:
    yield _line("NPU ID", chip.card)
    yield _line("Chip Name", chip.name)
    yield _line("Serial Number", chip.serial)
    yield _line("Software Version", machine.driver_version)
    yield _line("Firmware Version", machine.firmware)
    yield _line("PCIe Bus Info", chip.bus.upper())
    yield _line("Chip Count", 1)


def _usages(machine: Machine, chip: FakeChip) -> Lines:
    yield _line("NPU ID", chip.card)
    yield _line("Chip Count", 1)
    yield ""
    yield _line("DDR Capacity(MB)", chip.memory_total_mib)
    yield _line("DDR Usage Rate(%)", _percent(chip.memory_used_mib, chip.memory_total_mib))
    if chip.hbm_total_mib is not None:
        yield _line("HBM Capacity(MB)", chip.hbm_total_mib)
        yield _line("HBM Usage Rate(%)", _percent(chip.hbm_used_mib or 0, chip.hbm_total_mib))
    yield _line("Aicore Usage Rate(%)", chip.aicore_pct)
    if machine.family in (ChipFamily.ASCEND_910B, ChipFamily.ASCEND_A3):
        yield _line("Aivector Usage Rate(%)", 0)
    if chip.hbm_total_mib is not None:
        yield _line("HBM Bandwidth Usage Rate(%)", 0)
    if machine.family in (ChipFamily.ASCEND_910B, ChipFamily.ASCEND_A3):
        yield _line("NPU Utilization(%)", chip.aicore_pct)
        yield _line("Aicube Usage Rate(%)", 0)
    yield _line("Chip ID", chip.chip)


def _common(card: int, chips: list[FakeChip]) -> Lines:
    yield _line("NPU ID", card)
    yield _line("Chip Count", len(chips))
    for chip in chips:
        yield ""
        yield _line("Chip ID", chip.chip)
        yield from _common_of(chip)
    yield ""
    yield _line("Chip Name", "mcu")
    yield _line("Temperature(C)", 48)


def _common_950(machine: Machine, chip: FakeChip) -> Lines:
    yield _line("NPU ID", chip.card)
    yield from _common_of(chip)


def _common_of(chip: FakeChip) -> Lines:
    yield _line("Memory Usage Rate(%)", _percent(chip.memory_used_mib, chip.memory_total_mib))
    yield _line("Aicore Usage Rate(%)", chip.aicore_pct)
    yield _line("Aicore Freq(MHZ)", chip.frequency_mhz)
    yield _line("Aicore curFreq(MHZ)", chip.frequency_mhz)
    yield _line("Temperature(C)", chip.temperature_c)


def _volt(machine: Machine, chip: FakeChip) -> Lines:
    if machine.family is ChipFamily.ASCEND_950:
        yield _line("NPU ID", chip.card)
    yield _line("Voltage(V)", f"{chip.voltage_v:.2f}")


def _memory(machine: Machine, chip: FakeChip) -> Lines:
    if machine.family is ChipFamily.ASCEND_950:
        yield _line("NPU ID", chip.card)
    yield _line("DDR Capacity(MB)", chip.memory_total_mib)
    if chip.hbm_total_mib is not None:
        yield _line("HBM Capacity(MB)", chip.hbm_total_mib)
        yield _line("HBM Clock Speed(MHz)", 1600)
        yield _line("HBM Temperature(C)", chip.hbm_temperature_c)


def _ecc(machine: Machine, chip: FakeChip) -> Lines:
    kind = "DDR" if chip.hbm_total_mib is None else "HBM"
    yield _line("NPU ID", chip.card, width=40)
    yield _line(f"{kind} Single Bit Error Count", 0, width=40)
    yield _line(f"{kind} Double Bit Error Count", chip.ecc_double, width=40)
    yield _line(f"{kind} Single Bit Aggregate Total Err Cnt", 0, width=40)
    yield _line(f"{kind} Double Bit Aggregate Total Err Cnt", chip.ecc_double, width=40)
    yield _line(f"{kind} Single Bit Isolated Pages Count", 0, width=40)
    yield _line(f"{kind} Double Bit Isolated Pages Count", chip.isolated_pages, width=40)


def _vnpus(machine: Machine, chip: FakeChip) -> Lines:
    rule = f"+{'-' * 79}+"
    yield rule
    yield "| NPU resource static info as follow:".ljust(80) + "|"
    yield rule
    yield f"| Total number of vnpu: {chip.vnpus}".ljust(80) + "|"
    yield rule


def _shared(card: int, chips: list[FakeChip]) -> Lines:
    yield _line("NPU ID", card)
    yield _line("Chip Count", len(chips))
    for chip in chips:
        yield ""
        yield _line("Device-share Status", "True" if chip.is_shared else "False")
        yield _line("Chip ID", chip.chip)


def _super_pod(machine: Machine, chip: FakeChip) -> Lines:
    if machine.super_pod is None:
        yield "This device does not support querying spod-info."
        return
    yield _line("SDID", chip.physical)
    yield _line("Super Pod Size", 384)
    yield _line("Super Pod ID", machine.super_pod)
    yield _line("Server Index", 0)


_Maker = Callable[[Machine, FakeChip], Lines]
_OF_CHIP: dict[str, _Maker] = {
    "health": _health,
    "board": _chip_board,
    "usages": _usages,
    "volt": _volt,
    "memory": _memory,
    "ecc": _ecc,
    "info-vnpu": _vnpus,
    "spod-info": _super_pod,
}
_OF_950: dict[str, _Maker] = {
    "health": _health,
    "board": _board_950,
    "usages": _usages,
    "common": _common_950,
    "volt": _volt,
    "memory": _memory,
    "ecc": _ecc,
    "spod-info": _super_pod,
}


def _cards(machine: Machine) -> list[int]:
    return list(dict.fromkeys(chip.card for chip in machine.shown))


def _line(key: str, value: object, *, width: int = 30) -> str:
    return f"\t{key:<{width}} : {value}"


def _columns(values: list[object] | list[str]) -> str:
    return "\t" + "".join(f"{value!s:<30} " for value in values)


def _joined(lines: Iterator[str] | list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _percent(used: int, total: int) -> int:
    return round(100 * used / total) if total else 0
