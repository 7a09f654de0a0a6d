"""Small readers for the contents of table cells and values: never raise, None for what is not there."""

import re
from collections.abc import Iterable

NOTHING = frozenset({"", "-", "--", "NA", "N/A"})

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"(-?[0-9]{1,18})(?:\.([0-9]{1,18}))?")
_PAIR_OR_WORD = re.compile(r"(?P<left>[\w.\-]+)\s*/\s*(?P<right>[\w.\-]+)|(?P<word>\S+)")
_RULE = re.compile(r"[+|=\-–—_/\s]*")
_DOTS = re.compile(r"[.…\s]+")


def text_or_none(cell: str) -> str | None:
    """The cell without blanks; None when it says nothing."""
    cell = cell.strip()
    return None if cell.upper() in NOTHING else cell


def integer(cell: str) -> int | None:
    """A whole number, also when it is printed with a fraction or a unit (`45`, `45.0`, `45C`)."""
    found = _NUMBER.match(cell.strip())
    return int(found[1]) if found else None


def exact_integer(cell: str) -> int | None:
    """A whole number and nothing beside it."""
    cell = cell.strip()
    return int(cell) if _INTEGER.fullmatch(cell) else None


def decimal(cell: str) -> float | None:
    """A number with or without a fraction (`97.1`, `103`, `16.3W`)."""
    found = _NUMBER.match(cell.strip())
    return float(found[0]) if found else None


def words_and_pairs(cell: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Single words and `a / b` pairs of a cell, each in order; the numbers of a pair may touch the slash."""
    words: list[str] = []
    pairs: list[tuple[str, str]] = []
    for found in _PAIR_OR_WORD.finditer(cell):
        if found["word"] is None:
            pairs.append((found["left"], found["right"]))
        else:
            words.append(found["word"])
    return words, pairs


def split_row(line: str) -> list[str]:
    """The cells of a table row, without blanks; the outer bars may be missing in a cut paste."""
    line = line.strip()
    cells = line.split("|")
    if line.startswith("|"):
        cells = cells[1:]
    if line.endswith("|"):
        cells = cells[:-1]
    return [cell.strip() for cell in cells]


def is_rule(line: str) -> bool:
    """A line that only draws the table, however it was typed."""
    line = line.strip()
    return line.startswith("+") or _RULE.fullmatch(line) is not None


def is_elided(cells: Iterable[str]) -> bool:
    """A row in which a document left the numbers out (`| ... | ... |`)."""
    return any(cell and _DOTS.fullmatch(cell) for cell in cells)
