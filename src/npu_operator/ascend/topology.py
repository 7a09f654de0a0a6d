"""How the chips of a node are wired to each other: the matrix of `npu-smi info -t topo`.

Relations, from near to far: SIO (two dies of one package), HCCS (direct), HCCS_SW (through an HCCS switch), UB, PIX
(one PCIe switch), PXB (several), PHB (host bridge), SYS (across NUMA nodes); NA is unknown. A3 on arm prints no CPU
affinity. Source: the legends in the outputs themselves.
"""

import re
from collections.abc import Sequence

import msgspec

SELF = "X"

# Nearer is smaller. HCCS and UB are the links made for chip-to-chip traffic; an unknown word is further than all.
DISTANCE: dict[str, int] = {
    SELF: 0,
    "SIO": 1,
    "HCCS": 2,
    "UB": 2,
    "HCCS_SW": 3,
    "PIX": 4,
    "PXB": 5,
    "PHB": 6,
    "SYS": 7,
    "NA": 8,
}
FARTHEST = 9

_LABEL = re.compile(r"(?:NPU|PHY-?ID|CHIP|DEVICE)[0-9]{1,6}", re.IGNORECASE)
_RELATION = re.compile(r"[A-Z][A-Z0-9_]*")
_CPUS = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """Row i, column j: how `labels[i]` reaches `labels[j]`; None where the text was cut.

    `cpu_affinity` has one entry per label (None where a row has none), or is None when there is no such column.
    """

    labels: tuple[str, ...]
    matrix: tuple[tuple[str | None, ...], ...]
    cpu_affinity: tuple[str | None, ...] | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The numbers in the labels (`NPU3` is 3)."""
        return tuple(int(re.sub(r"\D", "", label)) for label in self.labels)

    def relation(self, one: int, other: int) -> str | None:
        """How chip `one` reaches chip `other`, by the numbers in the labels; None when the matrix does not say."""
        ids = self.ids
        if one not in ids or other not in ids:
            return None
        return self.matrix[ids.index(one)][ids.index(other)]

    def distance(self, one: int, other: int) -> int:
        """How far two chips are apart, 0 (the same) to 9 (unknown)."""
        return DISTANCE.get(self.relation(one, other) or "", FARTHEST)


def read(lines: Sequence[str]) -> Topology | None:
    """The matrix in these lines; None when there is no header with chip labels. Rows may be cut or missing."""
    header = next((index for index, line in enumerate(lines) if _labels(line)), None)
    if header is None:
        return None
    labels = _labels(lines[header])
    has_affinity = "affinity" in lines[header].lower()
    rows: dict[str, list[str]] = {}
    for line in lines[header + 1 :]:
        words = line.split()
        if words and words[0] in labels:
            rows.setdefault(words[0], words[1:])
    empty = [None] * len(labels)
    return Topology(
        labels=tuple(labels),
        matrix=tuple(
            tuple(
                [*(word if _RELATION.fullmatch(word) else None for word in rows.get(label, [])), *empty][: len(labels)]
            )
            for label in labels
        ),
        cpu_affinity=tuple(" ".join(rows.get(label, [])[len(labels) :]) or None for label in labels)
        if has_affinity
        else None,
    )


def cpus(affinity: str) -> frozenset[int]:
    """The processors that a text such as `0-63,128-191` names; what is not a range is left out."""
    found: set[int] = set()
    for part in affinity.split(","):
        if span := _CPUS.fullmatch(part.strip()):
            first, last = int(span[1]), int(span[2] or span[1])
            found.update(range(first, last + 1))
    return frozenset(found)


def _labels(line: str) -> list[str]:
    """The chip labels of a header line; none when the line is anything else (a row has relations in it)."""
    words = line.split()
    labels = [word for word in words if _LABEL.fullmatch(word)]
    others = {word.lower() for word in words} - {label.lower() for label in labels}
    return (
        labels if labels and len(set(labels)) == len(labels) and others <= {"cpu", "affinity", "numa", "node"} else []
    )
