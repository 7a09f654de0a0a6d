"""What one output of `npu-smi` says, as values.

Three numbers of a chip are kept apart because the tool keeps them apart: `card` is the NPU column (a slot number, not
contiguous), `logic` the Device column (how DCMI counts), `physical` the Phy-ID column (the N of `/dev/davinciN`).
None always means: the text has none (absent column, empty cell, `NA` or `-`).
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

Value: TypeAlias = "int | float | str | list[Value] | dict[str, Value] | None"


class Chip(msgspec.Struct, frozen=True, kw_only=True):
    """One chip (one die on A3) of the table: always a pair of rows, or what is left of it."""

    card: int | None = None
    chip: int | None = None
    logic: int | None = None
    physical: int | None = None
    name: str | None = None
    health: str | None = None
    bus_id: str | None = None
    power_w: float | None = None
    temp_c: int | None = None
    aicore_pct: int | None = None
    hbm_used_mib: int | None = None
    hbm_total_mib: int | None = None
    mem_used_mib: int | None = None
    mem_total_mib: int | None = None
    answers: bool = True


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the process table; also for cards that the table of chips does not list.

    `pid` is the Process id column. The id inside the container, which 26.x prints as well, is `container_pid`.
    A name is None when the process lives in another PID namespace.
    """

    card: int | None = None
    chip: int | None = None
    pid: int | None = None
    name: str | None = None
    memory_mib: int | None = None
    container_pid: int | None = None


class ErrorKind(StrEnum):
    """What an error text is about; decides what the reader of a message is told to do."""

    DRIVER_NOT_READY = "driver-not-ready"
    DEVICE_OCCUPIED = "device-occupied"
    BOARD_TYPE = "board-type"
    MISSING_LIBRARY = "missing-library"
    TOOL_MISSING = "tool-missing"
    INSTALLER = "installer"
    OTHER = "other"


class ToolError(msgspec.Struct, frozen=True):
    """An error as printed: the return code (None when the text has none), its kind, and the line that says it."""

    code: int | None
    kind: ErrorKind
    text: str


class InfoTable(msgspec.Struct, frozen=True, kw_only=True):
    """`npu-smi info` without a type, or any text that is only an error.

    `idle_cards` are the cards of which the process table says that nothing runs; `warnings` the lines in brackets
    that the tool adds below the table; `exit_status` the shell's status where the text carries an `rc=` line.
    """

    layout: str | None = None
    tool_version: str | None = None
    driver_version: str | None = None
    error: ToolError | None = None
    chips: tuple[Chip, ...] = ()
    processes: tuple[Process, ...] = ()
    idle_cards: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    exit_status: int | None = None


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """Any other sub-command: `-l`, `-m`, `-t <type>`, `watch`, `set …`, `clear …`, `upgrade …`, `-v`, `-h`.

    `type` is the word after `-t` (or the option itself). `values` holds each key once; a key printed several times
    has the list of its values in the order printed. `sections` keeps the blocks between blank lines apart, so that a
    value can be traced to its chip. `message` is the text that is no key and no table.
    """

    type: str
    command: str = "info"
    values: dict[str, Value] = {}
    sections: tuple[dict[str, Value], ...] = ()
    message: str | None = None
    error: ToolError | None = None
    exit_status: int | None = None


Reading: TypeAlias = InfoTable | Details
