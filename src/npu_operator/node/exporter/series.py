"""The numbers of a chip: `series.tsv` says for each metric its group, its source in the state file, and its help.

`npu_chip_…` and `container_npu_…` are MindCluster's, with its units (MB, percent, W), so that dashboards made for its
exporter work as they are; numbers that no tool prints have no row. `ascend_npu_…` has Prometheus' base units. All are
gauges, as in MindCluster. A source is a field of `Readings`, the n-th of a list (`name.n`), or one of the few that are
worked out here; `scale` leads from its unit to the metric's. Source: MindCluster's metrics reference, v7.3.0.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from npu_operator.node.exporter.groups import Group
from npu_operator.node.state import Readings

TABLE: Final = Path(__file__).with_name("series.tsv")

Take = Callable[[Readings], float | None]


class Row(msgspec.Struct, frozen=True):
    """One metric of each chip."""

    name: str
    group: Group
    source: str
    scale: float
    help: str

    def value(self, readings: Readings) -> float | None:
        """The number, however old; None when the tool gave none."""
        found = take(self.source)(readings)
        return None if found is None else float(found) * self.scale


def take(source: str) -> Take:
    """How a source is taken from the readings."""
    name, _, place = source.partition(".")
    if place:
        return lambda readings: dict(enumerate(getattr(readings, name))).get(int(place))
    if name in WORKED_OUT:
        return WORKED_OUT[name]
    return lambda readings: getattr(readings, name)


def _best(what: str) -> Take:
    """HBM where a chip has it, else DDR. The tool prints 0 of 0 for the kind that a chip lacks."""
    hbm, ddr = f"hbm_{what}_mib", f"ddr_{what}_mib"
    return lambda readings: getattr(readings, hbm) if readings.hbm_total_mib else WORKED_OUT[ddr](readings)


WORKED_OUT: Final[dict[str, Take]] = {
    "ddr_total_mib": lambda readings: readings.memory_total_mib or None,
    "ddr_used_mib": lambda readings: readings.memory_used_mib if readings.memory_total_mib else None,
    "hbm_total_mib": lambda readings: readings.hbm_total_mib or None,
    "hbm_used_mib": lambda readings: readings.hbm_used_mib if readings.hbm_total_mib else None,
    "hbm_used_pct": lambda readings: (
        100 * readings.hbm_used_mib / readings.hbm_total_mib
        if readings.hbm_used_mib is not None and readings.hbm_total_mib
        else None
    ),
    "best_total_mib": _best("total"),
    "best_used_mib": _best("used"),
}


def rows(text: str) -> tuple[Row, ...]:
    """The rows of a table. Raises ValueError that names the line with an unknown group or a missing cell."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            continue
        try:
            name, group, source, scale, told = line.split("\t")
            found.append(Row(name, Group(group), source, float(scale), told))
        except ValueError as error:
            raise ValueError(f"{TABLE.name}, line {number}: {error}") from error
    return tuple(found)


ROWS: Final = rows(TABLE.read_text())
