"""The table of `npu-smi info` for a machine, in the layout of its release, cut into the parts that depend on one chip.

A chip that does not answer is printed from a zeroed structure, as the real tool does; one whose health has no word
loses its first row.
"""

from collections.abc import Iterable, Sequence

from npu_operator.ascend.smi.layouts import CHIP_WITH_PHYSICAL_ID, LAYOUTS, Layout, line_of
from npu_operator.model.chips import ChipFamily
from npu_operator.sim.host.machine import FakeChip, Machine

WORDS = ("OK", "Warning", "Alarm", "Critical", "UNKNOWN")
"""What the tool has words for; another health value makes the first row vanish."""
INCOMPLETE = (
    "[WARNING]The driver package may not be completely installed, which may cause function abnormal. "
    "Please reinstall it."
)
_DDR_ONLY = (ChipFamily.ASCEND_310, ChipFamily.ASCEND_310B, ChipFamily.ASCEND_310P)


def layout_of(machine: Machine) -> Layout:
    """The layout by name and family; some names have a form for either kind of memory."""
    is_ddr = machine.family in _DDR_ONLY
    found = [one for one in LAYOUTS if one.name == machine.layout and ("Device" in one.second[0]) == is_ddr]
    if not found:
        raise ValueError(f"no release printed layout {machine.layout} for chips of family {machine.family.value}")
    return found[0]


def text(machine: Machine) -> str:
    """The whole output."""
    lines = [*head(machine)]
    chips = machine.shown
    for number, chip in enumerate(chips):
        lines += rows(machine, chip, is_last_of_card=number + 1 == len(chips) or chips[number + 1].card != chip.card)
    if layout_of(machine).process:
        lines += process_head(machine)
        for card in dict.fromkeys(chip.card for chip in chips):
            lines += process_rows(machine, [chip for chip in chips if chip.card == card])
    if not machine.is_installed_completely:
        lines.append(INCOMPLETE)
    return "".join(f"{line}\n" for line in lines)


def head(machine: Machine) -> list[str]:
    """Title and header."""
    form = layout_of(machine)
    second = form.second
    if machine.family is ChipFamily.ASCEND_A3:
        second = (CHIP_WITH_PHYSICAL_ID, *second[1:])
    title = f"| npu-smi {machine.tool_version:<{form.tool_width}}Version: {machine.driver_version}"
    return [
        _rule("-", [form.width - 2]),
        title.ljust(form.width - 1) + "|",
        _rule("-", form.widths),
        line_of(form.first, form.widths),
        line_of(second, form.widths),
        _rule("=", form.widths),
    ]


def rows(machine: Machine, chip: FakeChip, *, is_last_of_card: bool = True) -> list[str]:
    """The two rows of a chip and the rule below them: whole below a card, dashed between its dies."""
    form = layout_of(machine)
    first, second = _first_numbers(form, chip), _second_numbers(form, chip)
    name, health, bus = (chip.name, chip.health, _bus(machine, chip)) if chip.answers else ("", "UNKNOWN", _ZERO_BUS)
    if form.name == "L5":
        upper: Sequence[str] = (str(chip.card), name, health, first)
        lower: Sequence[str] = ("", "", bus, second)
    else:
        width = form.first[0].index("Name")
        upper = (f"{chip.card:<{width}}{name}", health, first)
        lower = (f"{chip.chip:<{width}}{_second_id(machine, chip)}", bus, second)
    rule = _rule("=", form.widths) if is_last_of_card else _rule("-", [form.width - 2])
    drawn = [line_of(upper, form.widths)] if health in WORDS else []
    return [*drawn, line_of(lower, form.widths), rule]


def process_head(machine: Machine) -> list[str]:
    """Header of the process table."""
    form = layout_of(machine)
    return [_rule("-", form.widths), line_of(form.process, form.process_widths), _rule("=", form.widths)]


def process_rows(machine: Machine, chips: Sequence[FakeChip]) -> list[str]:
    """The processes of one card's chips, or that there are none."""
    form = layout_of(machine)
    rule = _rule("=", form.widths)
    lines = []
    for chip in chips:
        for process in chip.processes:
            ids = str(chip.card) if form.name == "L5" else f"{chip.card:<8}{chip.chip}"
            cells = [ids, str(process.pid), process.name, str(process.memory_mib)]
            if len(form.process) > len(cells):
                cells.append("NA" if process.container_pid is None else str(process.container_pid))
            lines.append(line_of(cells, form.process_widths))
    if not lines:
        lines.append(f"| No running processes found in NPU {chips[0].card}".ljust(form.width - 1) + "|")
    return [*lines, rule]


_ZERO_BUS = "0000:00:00.0"


def _bus(machine: Machine, chip: FakeChip) -> str:
    return "NA" if machine.family is ChipFamily.ASCEND_310B else chip.bus.upper()


def _second_id(machine: Machine, chip: FakeChip) -> str:
    if machine.family is ChipFamily.ASCEND_A3:
        return str(chip.physical)
    return str(chip.logic) if machine.family in _DDR_ONLY else ""


def _first_numbers(form: Layout, chip: FakeChip) -> str:
    power = "NA" if chip.power_w is None and "Device" in form.second[0] else _or_dash(chip.power_w)
    words = [power, str(chip.temperature_c)] if chip.answers else ["0.0", "0"]
    if form.hugepages_width is not None:
        words.append(f"{0:<{form.hugepages_width}}/ 0")
    return _below(form.first[-1], words)


def _second_numbers(form: Layout, chip: FakeChip) -> str:
    pairs = [(chip.memory_used_mib, chip.memory_total_mib)]
    if "HBM" in form.second[-1]:
        pairs.append((chip.hbm_used_mib or 0, chip.hbm_total_mib or 0))
    if not chip.answers:
        pairs = [(0, 0)] * len(pairs)
    words = [f"{used:<{form.memory_width}}/ {total}" for used, total in pairs]
    return _below(form.second[-1], [str(chip.aicore_pct if chip.answers else 0), *words])


def _below(header: str, words: Sequence[str]) -> str:
    """The words, each below the header word of its column; one that is too long touches the next."""
    starts = [0] + [at for at in range(1, len(header)) if header[at - 1] == " " and header[at] != " "]
    starts = [at for at in starts if not header[at:].startswith("Util")]  # "NPU Util(%)" is one column
    line = ""
    for at, word in zip(starts, words, strict=True):
        line = line.ljust(at) + word
    return line


def _or_dash(value: float | None) -> str:
    return "-" if value is None else str(value)


def _rule(drawn: str, widths: Iterable[int]) -> str:
    return "+" + "+".join(drawn * width for width in widths) + "+"
