"""Tables of `npu-smi info` for tests, drawn from the layouts: what the tool would print for these chips."""

from collections.abc import Iterable, Sequence

from npu_operator.ascend.smi.layouts import CHIP_WITH_PHYSICAL_ID, LAYOUTS, Layout, line_of
from npu_operator.ascend.smi.readings import Chip, Process


def layout(name: str, *, ddr: bool = False) -> Layout:
    """The layout of this name; `ddr` is the 310 family's form where a name has two."""
    return next(found for found in LAYOUTS if found.name == name and ("Device" in found.second[0]) == ddr)


def draw(
    form: Layout,
    chips: Sequence[Chip],
    *,
    tool: str = "24.1.0",
    driver: str = "24.1.0",
    processes: Sequence[Process] = (),
    idle: Sequence[int] = (),
) -> str:
    """The whole output for these chips. A3 is told by physical ids."""
    has_physical = any(chip.physical is not None for chip in chips)
    second = (CHIP_WITH_PHYSICAL_ID, *form.second[1:]) if has_physical else form.second
    title = f"| npu-smi {tool:<{form.tool_width}}Version: {driver}".ljust(form.width - 1) + "|"
    lines = [_rule("-", [form.width - 2]), title, _rule("-", form.widths)]
    lines += [line_of(form.first, form.widths), line_of(second, form.widths), _rule("=", form.widths)]
    for chip in chips:
        lines += [*rows(form, chip), _rule("=", form.widths)]
    if form.process and (processes or idle):
        lines += _process_table(form, processes, idle)
    return "\n".join(lines) + "\n"


def rows(form: Layout, chip: Chip) -> list[str]:
    """The two rows of one chip."""
    first_words = [_number(chip.power_w), _number(chip.temp_c)]
    if form.hugepages_width is not None:
        first_words.append(f"{0:<{form.hugepages_width}}/ 0")
    numbers = _below(form.first[-1], first_words)
    memory = [f"{_number(chip.mem_used_mib):<{form.memory_width}}/ {_number(chip.mem_total_mib)}"]
    if "HBM" in form.second[-1]:
        memory.append(f"{_number(chip.hbm_used_mib):<{form.memory_width}}/ {_number(chip.hbm_total_mib)}")
    below = _below(form.second[-1], [_number(chip.aicore_pct), *memory])
    name, health, bus = chip.name or "", chip.health or "", chip.bus_id or "NA"
    if form.name == "L5":
        return [
            line_of((str(chip.card), name, health, numbers), form.widths),
            line_of(("", "", bus, below), form.widths),
        ]
    beside = chip.physical if chip.physical is not None else chip.logic
    id_width = form.first[0].index("Name")
    return [
        line_of((f"{chip.card:<{id_width}}{name}", health, numbers), form.widths),
        line_of((f"{chip.chip:<{id_width}}{'' if beside is None else beside}", bus, below), form.widths),
    ]


def _process_table(form: Layout, processes: Iterable[Process], idle: Iterable[int]) -> list[str]:
    rule = _rule("=", form.widths)
    lines = [_rule("-", form.widths), line_of(form.process, form.process_widths), rule]
    for process in processes:
        ids = str(process.card) if process.chip is None else f"{process.card:<8}{process.chip}"
        cells = [ids, str(process.pid), process.name or "", str(process.memory_mib)]
        if len(form.process) == 5:
            cells.append("NA" if process.container_pid is None else str(process.container_pid))
        lines += [line_of(cells, form.process_widths), rule]
    for card in idle:
        lines += [f"| No running processes found in NPU {card}".ljust(form.width - 1) + "|", rule]
    return lines


def _below(header: str, words: Sequence[str]) -> str:
    """The words, each starting below the header word of its column."""
    starts = [0] + [at for at in range(1, len(header)) if header[at - 1] == " " and header[at] != " "]
    starts = [at for at in starts if not header[at:].startswith("Util")]
    line = ""
    for at, word in zip(starts, words, strict=True):
        line = line.ljust(at) + word
    return line


def _number(value: float | None) -> str:
    return "NA" if value is None else str(value)


def _rule(drawn: str, widths: Sequence[int]) -> str:
    return "+" + "+".join(drawn * width for width in widths) + "+"
