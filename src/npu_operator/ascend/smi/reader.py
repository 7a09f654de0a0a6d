"""The way in: a text that npu-smi printed, with or without the command before it, to a reading.

A saved text may begin with its command (`$ npu-smi info -t health -i 0`) and end with `rc=<status>`; several commands
may follow one another in one file. What the command was decides how the rest is read; without one the content does.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from npu_operator.ascend.smi import details, errors, table
from npu_operator.ascend.smi.readings import Chip, Details, ErrorKind, InfoTable, Reading, ToolError, Value

# A shell prompt ($ or #, after nothing, `[user@host dir]` or `user@host:dir`), then a command that names the tool.
_COMMAND = re.compile(r"^\s*(?:\(\S+\)\s*)?(?:\[[^\]]*\]|[^\s@]+@\S*?)?\s*[$#]\s+(?P<command>.*\bnpu-smi\b.*)$")
_STATUS = re.compile(r"^\s*rc=([0-9]{1,3})\s*$")
# What surrounds a text without being of it: colours, marks of an encoding, the `>` of a quoting mail or issue.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x00|\ufeff|^[ \t]*(?:>[ \t]?)+(?=[|+$#\t ])", re.MULTILINE)
_TIMED_OUT = 124  # what timeout(1) exits with

# 128 fault codes in one line, the most a chip reports, are 1,200 characters. Beyond that only rubbish is longer, and
# matching takes time with the square of a line's length.
LONGEST_LINE = 2048

_WORD = re.compile(r"[^\s;|&]+")
_OWN_FORMS = ("-l", "-m", "-h", "--help", "watch", "proc")  # sub-commands of `info` that take no -t


class Section(msgspec.Struct, frozen=True):
    """One command of a text with the lines that followed it; the command is None when the text has none."""

    command: str | None
    lines: tuple[str, ...]


def read(text: str) -> Reading:
    """The reading of a text with one output; of several, the first that says anything. Never raises."""
    found = [(section, _read(section)) for section in sections(text)]
    by_worth = sorted(found, key=lambda pair: (not _says_something(pair[1]), pair[0].command is None))
    return by_worth[0][1]


def read_all(text: str) -> tuple[Reading, ...]:
    """One reading per command in the text; at least one. Never raises."""
    return tuple(_read(section) for section in sections(text))


def sections(text: str) -> tuple[Section, ...]:
    """The text cut at its command lines."""
    return tuple(_cut([line[:LONGEST_LINE] for line in _ESCAPES.sub("", text).splitlines()]))


def type_of(command: str) -> tuple[str, str]:
    """The verb and the type of a command line: `("info", "health")`, `("info", "-l")`, `("info", "")` for the table."""
    words = _WORD.findall(command.split("npu-smi", 1)[-1].split(";", 1)[0].split("|", 1)[0])
    verb = words[0] if words else ""
    if verb in ("", "-v", "-h", "--help"):
        return "", "-h" if verb == "--help" else verb
    rest = words[1:]
    for option in ("-t", "-b"):
        if option in rest[:-1]:
            return verb, rest[rest.index(option) + 1]
    return verb, next(("-h" if word == "--help" else word for word in rest if word in _OWN_FORMS), "")


def as_document(reading: Reading) -> dict[str, object]:
    """The reading as `npu-operator parse npu-smi` prints it."""
    error = None if reading.error is None else msgspec.to_builtins(reading.error)
    if isinstance(reading, Details):
        document: dict[str, object] = {"type": reading.type, "command": reading.command, "values": reading.values}
        if reading.message is not None:
            document["message"] = reading.message
        return document if error is None else {**document, "error": error}
    return {
        "layout": reading.layout,
        "tool_version": reading.tool_version,
        "driver_version": reading.driver_version,
        "error": error,
        "chips": [_fields(chip) for chip in reading.chips],
        "processes": [
            {name: getattr(process, name) for name in ("card", "chip", "pid", "name", "memory_mib")}
            for process in reading.processes
        ],
    }


def _fields(chip: Chip) -> dict[str, Value]:
    return {name: getattr(chip, name) for name in Chip.__struct_fields__}


def _cut(lines: Sequence[str]) -> Iterator[Section]:
    command: str | None = None
    body: list[str] = []
    for line in lines:
        if "npu-smi" in line and (found := _COMMAND.match(line)):
            if command is not None or any(part.strip() for part in body):
                yield Section(command, tuple(body))
            command, body = found["command"], []
        else:
            body.append(line)
    yield Section(command, tuple(body))


def _read(section: Section) -> Reading:
    status = next((int(found[1]) for line in section.lines if (found := _STATUS.match(line))), None)
    lines = [line for line in section.lines if not _STATUS.match(line)]
    verb, kind = type_of(section.command) if section.command is not None else ("info", "")
    info = None if kind else table.read(lines)
    if info is not None:
        outside = [line for line in lines if "|" not in line]
        warnings = tuple(line.strip() for line in lines if line.strip().startswith("[WARNING]"))
        beside = _unmistakable(outside) if info.chips else errors.find(outside)
        return msgspec.structs.replace(info, error=beside, warnings=warnings, exit_status=status)
    error = errors.find(lines)
    is_details = (verb, kind) != ("info", "")
    if section.command is None and error is None:
        is_details = details.sign_of(lines) is not None
    if is_details:
        return msgspec.structs.replace(details.read(lines, command=verb, kind=kind), exit_status=status)
    return InfoTable(error=error or _unknown(lines, status), exit_status=status)


def _unmistakable(lines: Sequence[str]) -> ToolError | None:
    """An error printed beside chips: only with a return code, so that no remark around a good table becomes one."""
    error = errors.find(lines)
    return error if error is not None and error.code is not None else None


def _unknown(lines: Sequence[str], status: int | None) -> ToolError:
    if status == _TIMED_OUT and not any(line.strip() for line in lines):
        return ToolError(None, ErrorKind.OTHER, "npu-smi did not answer before its time-out (exit status 124)")
    return errors.unknown(lines)


def _says_something(reading: Reading) -> bool:
    if isinstance(reading, Details):
        return bool(reading.values or reading.message)
    return bool(reading.chips or reading.processes or reading.tool_version)
