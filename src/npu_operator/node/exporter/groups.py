"""Metric groups: which command of the vendor's tool a number comes from, how often it is run, how long it is believed.

One list for the node agent, which runs the commands and stamps each group in `Readings.read_at_s`, and the exporter,
which shows a number only while its group is young enough: absent rather than old. The table of all chips costs one call
and changes all the time; the other commands cost one call per card, and what they tell changes rarely. Source: issue
text of the node part, point 7; sub-commands as in the vendor's `npu-smi info -t` list.
"""

from enum import StrEnum
from typing import Final

import msgspec

MISSED_READS = 3
"""So many reads in a row may fail before what was read last is no longer shown."""


class Group(StrEnum):
    """Key in `Readings.read_at_s`."""

    TABLE = "table"
    HEALTH = "health"
    USAGES = "usages"
    COMMON = "common"
    VOLTAGE = "volt"
    MEMORY = "memory"
    ECC = "ecc"
    BOARD = "board"
    OPTICS = "optics"
    HCCN = "hccn"


class Reading(msgspec.Struct, frozen=True):
    """How a group is read. `{card}` and `{chip}` are the tool's numbers, `{device}` is the one of `hccn_tool`."""

    group: Group
    command: str
    interval_s: float

    @property
    def believed_s(self) -> float:
        """How old a number of this group may be and still be shown."""
        return MISSED_READS * self.interval_s


# fmt: off
READINGS: Final = (
    Reading(Group.TABLE,   "npu-smi info",                               30),
    Reading(Group.HEALTH,  "npu-smi info -t health -i {card} -c {chip}", 30),
    Reading(Group.USAGES,  "npu-smi info -t usages -i {card} -c {chip}", 60),
    Reading(Group.COMMON,  "npu-smi info -t common -i {card}",           300),
    Reading(Group.VOLTAGE, "npu-smi info -t volt -i {card} -c {chip}",   300),
    Reading(Group.MEMORY,  "npu-smi info -t memory -i {card} -c {chip}", 300),
    Reading(Group.ECC,     "npu-smi info -t ecc -i {card} -c {chip}",    300),
    Reading(Group.BOARD,   "npu-smi info -t board -i {card} -c {chip}",  3600),
    Reading(Group.OPTICS,  "hccn_tool -i {device} -optical -g",          300),
    Reading(Group.HCCN,    "hccn_tool -i {device} -link -g",             300),
)
# fmt: on

BELIEVED_S: Final = {reading.group: reading.believed_s for reading in READINGS}
