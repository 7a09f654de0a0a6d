"""The table of `npu-smi info`: rows to chips and processes, for all layouts.

A chip is a pair of rows. Each row is told by what its cells say and not by where it stands: a bus id makes a second
row, a health word or a name a first one, else the count of numbers decides (power and temperature before the pair in a
first row, only the utilisation in a second). Broken, cut, masked or elided rows cost at most their own chip.

Nearly every getter behind this table may fail and only be logged; the row is then printed from a zeroed structure, with
exit status 0. Source: `query_card_chip_total_info` in the npucli source (hicann/driver), public pastes.
"""

import re
from collections.abc import Sequence

import msgspec

from npu_operator.ascend.smi import cells, layouts
from npu_operator.ascend.smi.readings import Chip, InfoTable, Process

HEALTH_WORDS = frozenset({"OK", "WARNING", "ALARM", "CRITICAL", "UNKNOWN"})

_TITLE = re.compile(r"npu-smi\s+([^\s|]+)\s+Version\s*:\s*([^\s|]+)")
_TITLE_WITHOUT_DRIVER = re.compile(r"^\s*\|\s*npu-smi\s+([^\s|]+)\s*\|?\s*$")
_IDLE = re.compile(r"no running process\w* found in NPU\s+(-?[0-9]{1,18})", re.IGNORECASE)
_ZERO_BUS = re.compile(r"0+:0+:0+\.0+")


def read(lines: Sequence[str]) -> InfoTable | None:
    """The table in these lines, or None when no line belongs to one. Never raises."""
    builder = _Builder()
    for line in lines:
        builder.add(line)
    return builder.table(lines)


def answers(chip: Chip) -> bool:
    """False for a row that was printed from a zeroed structure: no name, unknown health, a zero bus id or no memory."""
    if chip.name is None or chip.health is None or chip.health.upper() == "UNKNOWN":
        return False
    if chip.bus_id is not None and _ZERO_BUS.fullmatch(chip.bus_id):
        return False
    totals = [total for total in (chip.hbm_total_mib, chip.mem_total_mib) if total is not None]
    return not totals or any(totals)


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the chip table: what stands in the id columns, the middle cell and the cell with the numbers."""

    ids: list[str]
    middle: str
    words: list[str]
    pairs: list[tuple[str, str]]


class _Builder:
    """Takes the lines of one output in order and keeps what they said so far."""

    def __init__(self) -> None:
        self.tool_version: str | None = None
        self.driver_version: str | None = None
        self.has_header = False
        self.has_npu_id_column = False
        self.second_number: str | None = None
        self.has_hugepages: bool | None = None
        self.has_container_pid = False
        self.in_process_table = False
        self.first_row: _Row | None = None
        self.chips: list[Chip] = []
        self.processes: list[Process] = []
        self.idle_cards: list[int] = []

    def add(self, line: str) -> None:
        """Take one line."""
        if self._is_title(line):
            return
        if "|" not in line or cells.is_rule(line):
            if line.strip() and not cells.is_rule(line):
                self._close_chip()  # a sentence or "..." between rows: what follows is another chip
            return
        if idle := _IDLE.search(line):
            self.idle_cards.append(int(idle[1]))
            return
        row = cells.split_row(line)
        if self._is_header(row):
            return
        if cells.is_elided(row):
            self._close_chip()
        elif self._is_process(row):
            self._add_process(row)
        elif not self.in_process_table:
            self._add_chip_row(row, line)

    def table(self, lines: Sequence[str]) -> InfoTable | None:
        """All that was said, or None when nothing was a table."""
        self._close_chip()
        if not (self.tool_version or self.has_header or self.chips or self.processes or self.idle_cards):
            return None
        marks = layouts.Marks(
            has_npu_id_column=self.has_npu_id_column,
            has_device_column=self.second_number == "logic",
            has_hugepages=self.has_hugepages if self.has_hugepages is not None else True,
            has_container_pid=self.has_container_pid,
            width=layouts.table_width(lines),
        )
        return InfoTable(
            layout=layouts.name_of(marks),
            tool_version=self.tool_version,
            driver_version=self.driver_version,
            chips=tuple(self._with_cards_found()),
            processes=tuple(self.processes),
            idle_cards=tuple(self.idle_cards),
        )

    def _is_title(self, line: str) -> bool:
        if title := _TITLE.search(line):
            self.tool_version, self.driver_version = title[1], title[2]
        elif title := _TITLE_WITHOUT_DRIVER.search(line):
            self.tool_version = title[1]
        return title is not None

    def _is_header(self, row: list[str]) -> bool:
        words = {cell.lower() for cell in row}
        if "health" in words:
            self.has_header = True
            self.in_process_table = False
            self.has_npu_id_column = "npu id" in words
            self.has_hugepages = "huge" in row[-1].lower()
            return True
        if "bus-id" in words:
            self.has_header = True
            beside = row[0].lower()
            self.second_number = "logic" if "device" in beside else "physical" if "phy" in beside else None
            return True
        if "process id" in words:
            self.in_process_table = True
            self.has_container_pid = any("container" in word for word in words)
            self._close_chip()
            return True
        return False

    def _is_process(self, row: list[str]) -> bool:
        ids = row[0].split()
        if len(row) < 4 or not 1 <= len(ids) <= 2 or any(cells.exact_integer(word) is None for word in ids):
            return False
        return self.in_process_table or cells.exact_integer(row[1]) is not None

    def _add_process(self, row: list[str]) -> None:
        """A process row. A name that holds a bar spreads over several cells; what comes last stays last."""
        ids = row[0].split()
        tail = 2 if self.has_container_pid or (len(row) > 4 and cells.integer(row[-2]) is not None) else 1
        tail = min(tail, len(row) - 3)
        self.processes.append(
            Process(
                card=int(ids[0]),
                chip=int(ids[1]) if len(ids) > 1 else None,
                pid=cells.exact_integer(row[1]),
                name=cells.text_or_none("|".join(row[2 : len(row) - tail])),
                memory_mib=cells.integer(row[len(row) - tail]),
                container_pid=cells.exact_integer(row[-1]) if tail == 2 else None,
            )
        )

    def _add_chip_row(self, row: list[str], line: str) -> None:
        parts = self._parts(row)
        if parts is None:
            return
        if not self._is_believable(parts, line):
            return
        if self._is_second(parts, row):
            self._add_second(parts)
        else:
            self._close_chip()
            self.first_row = parts
            if self.has_hugepages is None:
                self.has_hugepages = bool(parts.pairs)

    def _parts(self, row: list[str]) -> _Row | None:
        if not self.has_header and len(row) == 4:
            self.has_npu_id_column = True
        if self.has_npu_id_column:
            name, middle, numbers = [*row[1:4], "", "", ""][:3]
            ids = [*row[0].split(), *name.split()]
        elif len(row) > 1:
            ids, middle, numbers = row[0].split(), row[1], " ".join(row[2:])
        else:
            return None
        if not numbers and " " in middle:
            middle, numbers = middle.split(maxsplit=1)  # the bar between the two is missing
        words, pairs = cells.words_and_pairs(numbers)
        return _Row(ids=ids, middle=middle, words=words, pairs=pairs)

    def _is_believable(self, row: _Row, line: str) -> bool:
        """Whether this is a row at all: it has a bar at an end and begins with a number (on 950 also with nothing).

        Without a header above it something in it must be of a chip: a health word, a bus id, or several numbers.
        """
        line = line.strip()
        if not (line.startswith("|") or line.endswith("|")):
            return False
        if row.ids and cells.exact_integer(row.ids[0]) is None:
            return False
        if not row.ids and not self.has_npu_id_column:
            return False
        is_of_a_chip = ":" in row.middle or row.middle.upper() in HEALTH_WORDS or len(row.words) + len(row.pairs) > 1
        return self.has_header or is_of_a_chip

    def _is_second(self, row: _Row, raw: list[str]) -> bool:
        if self.has_npu_id_column:
            return raw[0] == ""
        if ":" in row.middle:
            return True
        if row.middle.upper() in HEALTH_WORDS or any(cells.exact_integer(word) is None for word in row.ids):
            return False
        if len(row.words) != 1:
            return self.first_row is not None and not row.words
        return bool(row.pairs) or self.first_row is not None

    def _add_second(self, second: _Row) -> None:
        numbers = [cells.exact_integer(word) for word in second.ids]
        chip, beside = [*numbers, None, None][:2]
        meaning = self.second_number or ("physical" if len(second.pairs) > 1 else "logic")
        if self.second_number is None and beside is not None:
            self.second_number = meaning
        memory = second.pairs[0] if second.pairs else ("", "")
        hbm = second.pairs[1] if len(second.pairs) > 1 else ("", "")
        found = msgspec.structs.replace(
            _first_half(self.first_row),
            chip=chip,
            logic=beside if meaning == "logic" else None,
            physical=beside if meaning == "physical" else None,
            bus_id=cells.text_or_none(second.middle),
            aicore_pct=cells.integer(second.words[0]) if second.words else None,
            mem_used_mib=cells.integer(memory[0]),
            mem_total_mib=cells.integer(memory[1]),
            hbm_used_mib=cells.integer(hbm[0]),
            hbm_total_mib=cells.integer(hbm[1]),
        )
        if self.first_row is None:
            found = self._orphan(found)
        else:
            found = msgspec.structs.replace(found, answers=answers(found))
        self.chips.append(found)
        self.first_row = None

    def _orphan(self, chip: Chip) -> Chip:
        """A second row alone: the paste began here, or the tool met a health value it has no word for.

        Only below a header the second is sure: such a chip does not answer. A second die belongs to the card before it.
        """
        before = self.chips[-1] if self.chips else None
        if before is None and not self.has_header:
            return msgspec.structs.replace(chip, answers=not _ZERO_BUS.fullmatch(chip.bus_id or ""))
        same_card = before is not None and None not in (before.chip, chip.chip) and chip.chip == (before.chip or 0) + 1
        card = before.card if before is not None and same_card else None
        return msgspec.structs.replace(chip, card=card, answers=False)

    def _close_chip(self) -> None:
        """A first row without its second is still a chip."""
        if self.first_row is not None:
            found = _first_half(self.first_row)
            self.chips.append(msgspec.structs.replace(found, answers=answers(found)))
            self.first_row = None

    def _with_cards_found(self) -> list[Chip]:
        """The chips; cards missing from the first rows are taken from the process table, which lists all, in order."""
        listed = dict.fromkeys([*(process.card for process in self.processes), *self.idle_cards])
        shown = {chip.card for chip in self.chips}
        missing = sorted(card for card in listed if card is not None and card not in shown)
        lost = [chip for chip in self.chips if chip.card is None]
        if not self.has_header or not lost or len(lost) != len(missing):
            return self.chips
        card_of = {id(chip): card for chip, card in zip(lost, missing, strict=True)}
        return [msgspec.structs.replace(chip, card=card_of.get(id(chip), chip.card)) for chip in self.chips]


def _first_half(row: _Row | None) -> Chip:
    """What the first row of a pair says; nothing without one."""
    if row is None:
        return Chip()
    card = cells.exact_integer(row.ids[0]) if row.ids else None
    name = row.ids if card is None else row.ids[1:]
    power, temperature = [*row.words, "", ""][:2]
    if len(row.words) == 1 and "." not in power:
        power, temperature = "", power
    return Chip(
        card=card,
        name=cells.text_or_none(" ".join(name)),
        health=cells.text_or_none(row.middle),
        power_w=cells.decimal(power),
        temp_c=cells.integer(temperature),
    )
