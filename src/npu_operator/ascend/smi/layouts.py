"""The table layouts of `npu-smi info` from 21.0 to 26.x: how they look, and how to tell them apart.

A reader never needs the layout to read a row (cells, not columns); it is reported so that a person can see which tool
printed a text. A writer of such tables finds all it needs in `LAYOUTS`: the inner widths, the header cells (values
start below the first letter of their word) and how wide the left number of an `a / b` pair is printed.
Source: tables in public pastes and vendor documents; L0 and L1 have a form for either chip family.
"""

import re
from collections import Counter
from collections.abc import Iterable

import msgspec

_BAR_OR_PLUS = re.compile(r"\s*[|+]")


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """One way to print the table. Widths are in characters, without the `+` or `|` at either side.

    `first` and `second` are the header cells of the two rows of a chip, `process` those of the process table with
    their own widths (empty where the release prints none). `tool_width` is the field that the tool version fills.
    """

    name: str
    releases: str
    widths: tuple[int, ...]
    tool_width: int
    first: tuple[str, ...]
    second: tuple[str, ...]
    hugepages_width: int | None
    memory_width: int
    process: tuple[str, ...] = ()
    process_widths: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """The length of a whole line."""
        return sum(self.widths) + len(self.widths) + 1


def line_of(cells: Iterable[str], widths: Iterable[int]) -> str:
    """A row of a table: each cell after one blank, filled up to its width; a longer one breaks its column."""
    return "|" + "".join(f" {cell}".ljust(width) + "|" for cell, width in zip(cells, widths, strict=True))


_CARD = "NPU   Name"
_CHIP = "Chip"
CHIP_WITH_PHYSICAL_ID = "Chip  Phy-ID"  # what A3 prints instead of "Chip"
_WIDE_CARD = "NPU     Name"
_CHIP_WITH_DEVICE = "Chip    Device"
_PROCESS_4 = ("NPU     Chip", "Process id", "Process name", "Process memory(MB)")
_PROCESS_5 = ("NPU     Chip", "Process id", "Process name", "Process memory(MB)", "Process id in container")

LAYOUTS: tuple[Layout, ...] = (
    Layout(
        name="L0",
        releases="21.0.x, HBM chips",
        widths=(22, 15, 45),
        tool_width=25,
        first=(_CARD, "Health", "Power(W)   Temp(C)"),
        second=(_CHIP, "Bus-Id", "AICore(%)  Memory-Usage(MB)  HBM-Usage(MB)"),
        hugepages_width=None,
        memory_width=5,
    ),
    Layout(
        name="L0",
        releases="21.0.x, 310 family",
        widths=(19, 17, 40),
        tool_width=25,
        first=(_WIDE_CARD, "Health", "Power(W)          Temp(C)"),
        second=(_CHIP_WITH_DEVICE, "Bus-Id", "AICore(%)         Memory-Usage(MB)"),
        hugepages_width=None,
        memory_width=5,
    ),
    Layout(
        name="L1",
        releases="21.0.4 and 22.0.x, HBM chips",
        widths=(22, 15, 52),
        tool_width=25,
        first=(_CARD, "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"),
        second=(_CHIP, "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"),
        hugepages_width=5,
        memory_width=5,
    ),
    Layout(
        name="L1",
        releases="22.0.x, 310 family",
        widths=(19, 17, 54),
        tool_width=29,
        first=(_WIDE_CARD, "Health", "Power(W)     Temp(C)           Hugepages-Usage(page)"),
        second=(_CHIP_WITH_DEVICE, "Bus-Id", "AICore(%)    Memory-Usage(MB)"),
        hugepages_width=5,
        memory_width=5,
    ),
    Layout(
        name="L2",
        releases="23.0 to 25.5, HBM chips",
        widths=(27, 15, 52),
        tool_width=25,
        first=(_CARD, "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"),
        second=(_CHIP, "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"),
        hugepages_width=5,
        memory_width=5,
        process=_PROCESS_4,
        process_widths=(27, 15, 26, 25),
    ),
    Layout(
        name="L3",
        releases="22.0.4 to 25.5, 310 family",
        widths=(31, 17, 54),
        tool_width=41,
        first=(_WIDE_CARD, "Health", "Power(W)     Temp(C)           Hugepages-Usage(page)"),
        second=(_CHIP_WITH_DEVICE, "Bus-Id", "AICore(%)    Memory-Usage(MB)"),
        hugepages_width=6,
        memory_width=5,
        process=_PROCESS_4,
        process_widths=(31, 17, 26, 27),
    ),
    Layout(
        name="L4",
        releases="26.x, HBM chips",
        widths=(27, 15, 70),
        tool_width=36,
        first=(_CARD, "Health", "Power(W)             Temp(C)                 Hugepages-Usage(page)"),
        second=(_CHIP, "Bus-Id", "AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)"),
        hugepages_width=5,
        memory_width=5,
        process=_PROCESS_5,
        process_widths=(27, 15, 20, 23, 25),
    ),
    Layout(
        name="L5",
        releases="25.6 and later, 950",
        widths=(8, 18, 15, 70),
        tool_width=41,
        first=("NPU ID", "Name", "Health", "Power(W)              Temp(C)                  Hugepages-Usage(page)"),
        second=("", "", "Bus-Id", "NPU Util(%)           Memory-Usage(MB)         HBM-Usage(MB)"),
        hugepages_width=6,
        memory_width=6,
        process=("NPU ID", *_PROCESS_5[1:]),
        process_widths=(27, 15, 20, 23, 25),
    ),
    Layout(
        name="L6",
        releases="open-source build, which prints its package version (8.5.x)",
        widths=(27, 15, 53),
        tool_width=25,
        first=(_CARD, "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"),
        second=(_CHIP, "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"),
        hugepages_width=6,
        memory_width=6,
        process=_PROCESS_4,
        process_widths=(27, 15, 26, 26),
    ),
)

NARROW_DDR = 100  # the 310 family before the wide name column (L1) is up to 98 wide, L3 is 106
NARROW_HBM = 95  # L1 is 93 wide, L2 is 98
OPEN_BUILD = 99  # one column wider than L2
WIDE_HBM = 105  # L4 is 116 wide


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a table, from its header or, without one, from its rows."""

    has_npu_id_column: bool
    has_device_column: bool
    has_hugepages: bool
    has_container_pid: bool
    width: int


def table_width(lines: Iterable[str]) -> int:
    """The usual length of the lines that draw or fill a table; 0 without any."""
    lengths = Counter(len(line.rstrip()) for line in lines if _BAR_OR_PLUS.match(line))
    return max(lengths, key=lambda length: (lengths[length], length)) if lengths else 0


def name_of(marks: Marks) -> str:
    """The layout's name. Words decide; the width only tells apart what has the same words."""
    if marks.has_npu_id_column:
        return "L5"
    if not marks.has_hugepages:
        return "L0"
    if marks.has_device_column:
        return "L1" if marks.width < NARROW_DDR else "L3"
    if marks.has_container_pid or marks.width >= WIDE_HBM:
        return "L4"
    if marks.width == OPEN_BUILD:
        return "L6"
    return "L1" if 0 < marks.width < NARROW_HBM else "L2"
