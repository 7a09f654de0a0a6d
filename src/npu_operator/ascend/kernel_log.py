"""Lines of the kernel log that tell something about Ascend chips.

The driver logs its errors at KERN_NOTICE on purpose, so a filter by level hides them: whoever collects the log takes
all levels. Two forms of the prefix are in use, `[ascend] [ERROR] [module] [function line] <comm:pid> text` and the
older one with the level after the module or without any. Source: the open driver (hicann/driver) and public reports.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """What a line says. `is_harmless` tells which of them nobody needs to look at."""

    HEARTBEAT_LOST = "heartbeat-lost"
    NO_DEVICE_FOUND = "no-device-found"
    DEVICE_TABLE_ROW = "device-table-row"
    LOAD_TIMEOUT = "load-timeout"
    LOAD_FAILED = "load-failed"
    LOAD_DONE = "load-done"
    FIRMWARE_FILE = "firmware-file"
    CONFLICT_OPEN = "conflict-open"
    PREEMPT = "preempt"
    SUBVENDOR_REFUSED = "subvendor-refused"
    FAULT_EVENT = "fault-event"
    TASK_SCHEDULER = "task-scheduler"
    WRONG_KERNEL = "wrong-kernel"
    UNKNOWN_SYMBOL = "unknown-symbol"
    UNSIGNED_MODULE = "unsigned-module"
    HUNG_TASK = "hung-task"
    CARD_REMOVED = "card-removed"
    OTHER = "other"

    @property
    def is_harmless(self) -> bool:
        """True for what a healthy node logs as well.

        Older drivers print a table row with `dev_num=0` for every id they know, also of absent cards.
        """
        return self in (Kind.DEVICE_TABLE_ROW, Kind.LOAD_DONE, Kind.PREEMPT, Kind.UNSIGNED_MODULE, Kind.OTHER)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `device` is the number it names, `fields` are its `key=value` texts, `at_s` is seconds since boot."""

    kind: Kind
    text: str
    at_s: float | None = None
    level: str | None = None
    module: str | None = None
    function: str | None = None
    device: int | None = None
    fields: dict[str, str] = {}


LONGEST_LINE = 2048  # printk cuts its records at 1,024 characters; a longer line is no record

_STAMP = re.compile(r"^\s*(?:<[0-9]+>)?\[\s*([0-9]{1,12}\.[0-9]{1,9})\]\s*")
_ASCEND = re.compile(r"\[ascend\]\s*(?P<rest>.*)$")
_BRACKETS = re.compile(r"\[([^\]]*)\]\s*")
_CALLER = re.compile(r"<[^>]*>\s*")
_FIELD = re.compile(r"(\w+(?: \w+)?)\s*=\s*(\"[^\"]*\"|[^;,)\s]+)")
_LEVELS = frozenset({"ERROR", "WARN", "WARNING", "INFO", "NOTICE", "DEBUG", "EVENT"})

# Asked in order; the first that fits names the line. Each text is as the driver prints it.
_OURS: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"Heartbeat lost!"), Kind.HEARTBEAT_LOST),
    (re.compile(r"No device found\.?\s*\(dev_num=0\)"), Kind.NO_DEVICE_FOUND),
    (re.compile(r"Findout device\."), Kind.DEVICE_TABLE_ROW),
    (re.compile(r"Load timeout\."), Kind.LOAD_TIMEOUT),
    (re.compile(r"Device os load failed|Load file check \w+ failed"), Kind.LOAD_FAILED),
    (re.compile(r"Device os load success"), Kind.LOAD_DONE),
    (re.compile(r"Get file size error|File read error|File copy error"), Kind.FIRMWARE_FILE),
    (re.compile(r"Conflict open udevid"), Kind.CONFLICT_OPEN),
    (re.compile(r"Preempt udevid"), Kind.PREEMPT),
    (re.compile(r"subsystem_vendor is invalid"), Kind.SUBVENDOR_REFUSED),
    (re.compile(r"Event Process Success"), Kind.FAULT_EVENT),
    (re.compile(r"receive ts exception msg"), Kind.TASK_SCHEDULER),
)

# Lines of the kernel itself. Module names of both generations: drv_*, ascend_*, asdrv_*, dbl_*, ts_agent, npu_peermem.
_MODULE = r"(?P<module>(?:drv|ascend|asdrv|dbl)_\w+|ts_agent|ts_debug|npu_peermem|tc_pcidev)"
_KERNELS: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(_MODULE + r": version magic '(?P<built>[^']*)' should be '(?P<running>[^']*)'"), Kind.WRONG_KERNEL),
    (
        re.compile(_MODULE + r": (?:disagrees about version of symbol|Unknown symbol) (?P<symbol>\w+)"),
        Kind.UNKNOWN_SYMBOL,
    ),
    (re.compile(_MODULE + r": module verification failed"), Kind.UNSIGNED_MODULE),
    (re.compile(_MODULE + r": loading out-of-tree module"), Kind.UNSIGNED_MODULE),
    (
        re.compile(r"task (?P<task>\S+):(?P<pid>[0-9]+) blocked for more than (?P<seconds>[0-9]+) seconds"),
        Kind.HUNG_TASK,
    ),
    (re.compile(r"pciehp: Slot\((?P<slot>[^)]*)\): (?:Card not present|Link Down)"), Kind.CARD_REMOVED),
)

_DEVICE_FIELDS = ("device", "dev_id", "devid", "udevid")


def read(text: str) -> Iterator[Line]:
    """All lines that come from the Ascend driver or tell about it, in order."""
    return (line for raw in text.splitlines() if (line := read_line(raw)) is not None)


def read_line(raw: str) -> Line | None:
    """One line, or None when it has nothing to do with Ascend chips. Never raises."""
    raw = raw[:LONGEST_LINE]
    stamp = _STAMP.match(raw)
    at_s = float(stamp[1]) if stamp else None
    rest = raw[stamp.end() :] if stamp else raw
    if ours := _ASCEND.search(rest):
        return _from_driver(ours["rest"].strip(), at_s)
    for pattern, kind in _KERNELS:
        if found := pattern.search(rest):
            fields = {key: value for key, value in found.groupdict().items() if value is not None}
            return Line(kind=kind, text=rest.strip(), at_s=at_s, module=fields.pop("module", None), fields=fields)
    return None


def worth_telling(lines: Iterable[Line]) -> tuple[Line, ...]:
    """The lines that a person should see, in order."""
    return tuple(line for line in lines if not line.kind.is_harmless)


def _from_driver(rest: str, at_s: float | None) -> Line:
    marks: list[str] = []
    while bracket := _BRACKETS.match(rest):
        marks.append(bracket[1].strip())
        rest = rest[bracket.end() :]
    caller = _CALLER.match(rest)
    text = rest[caller.end() :] if caller else rest
    level = next((mark for mark in marks if mark in _LEVELS), None)
    names = [mark for mark in marks if mark not in _LEVELS]
    fields = {found[1]: found[2].strip('"') for found in _FIELD.finditer(text)}
    return Line(
        kind=next((kind for pattern, kind in _OURS if pattern.search(text)), Kind.OTHER),
        text=text.strip(),
        at_s=at_s,
        level=level,
        module=names[0] if names else None,
        function=names[1].split()[0] if len(names) > 1 and names[1].split() else None,
        device=_device(fields),
        fields=fields,
    )


def _device(fields: dict[str, str]) -> int | None:
    told = (fields[name] for name in _DEVICE_FIELDS if name in fields)
    return next((int(value) for value in told if re.fullmatch(r"[0-9]{1,9}", value)), None)
