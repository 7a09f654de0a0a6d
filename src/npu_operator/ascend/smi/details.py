"""The sub-commands of npu-smi that print keys and values, lists or small tables.

Key and value stand on one line with a colon between them; a blank line begins another block (a chip, a card, the MCU).
The same key may come back per chip, so a key printed once has its value and a key printed again has the list of its
values. Numbers become numbers; versions, names and serial numbers stay text even when they look like one. Source: the
printf formats of the npucli source (hicann/driver) and public outputs.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from npu_operator.ascend import topology
from npu_operator.ascend.smi import cells, errors
from npu_operator.ascend.smi.readings import Details, ToolError, Value

_KEY_VALUE = re.compile(r"\s*([A-Za-z][^:]{0,80}?)\s*:\s?(.*)")
_CONTINUED = re.compile(r"\s+:\s?(.*)")
_TEXT_KEYS = re.compile(
    r".*\b(name|serial number|model|manufacturer|die id|pcb id|time|information|message)(\(local\))?", re.IGNORECASE
)
_VERSION_KEYS = re.compile(r".*\bversion", re.IGNORECASE)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?[0-9]{1,17}\.[0-9]{1,17}")

_PROCESS = re.compile(
    r"Process id\s*:\s*(?P<pid>[0-9]{1,18})\s+Process name\s*:\s*(?P<name>.*?)\s+"
    r"Process memory\(MB\)\s*:\s*(?P<memory>\S*)"
)

# The columns of `info -m`; older releases have no slot and no physical id, 950 has no logic id.
_MAPPING_COLUMNS = re.compile(r"NPU ID|Slot ID|Chip ID|Chip Logic ID|Chip Phy-?\s?ID|Chip Name", re.IGNORECASE)
_MAPPING_KEYS = {
    "npu id": "npu",
    "slot id": "slot",
    "chip id": "chip",
    "chip logic id": "logic",
    "chip phy-id": "physical",
    "chip phy id": "physical",
    "chip phyid": "physical",
    "chip name": "name",
}

# For texts without their command: the type of which this key is the sign, asked in this order.
_SIGNS: tuple[tuple[str, str], ...] = (
    ("Health Status", "health"),
    ("Health", "health"),
    ("Fault Event Count", "current-fault-event"),
    ("Process id", "proc-mem"),
    ("PCI Device ID", "board"),
    ("PCIe Bus Info", "board"),
    ("Chip Type", "board"),
    ("HBM Single Bit Error Count", "ecc"),
    ("DDR Single Bit Error Count", "ecc"),
    ("HBM ECC-Enable Status", "ecc-enable"),
    ("DDR ECC-Enable Status", "ecc-enable"),
    ("Aicore Freq(MHZ)", "common"),
    ("Memory Usage Rate(%)", "common"),
    ("HBM Clock Speed(MHz)", "memory"),
    ("DDR Clock Speed(MHz)", "memory"),
    ("Aicore Usage Rate(%)", "usages"),
    ("HBM Usage Rate(%)", "usages"),
    ("Voltage(V)", "volt"),
    ("Soc Max Temperature (C)", "sensors"),
    ("TX Error Count", "sio-info"),
    ("VRD Count", "vrd"),
    ("NPU Temperature (C)", "temp"),
    ("Temperature (C)", "temp"),
    ("NPU Real-time Power(W)", "power"),
    ("Chip Phy-ID", "phyid-remap"),
    ("Flash Count", "flash"),
    ("Total Count", "-l"),
    ("Card Count", "-l"),
    ("npu-smi version", "-v"),
    ("Status", "set"),
    ("Message", "set"),
)

_USAGE = re.compile(r"\s*Usage\s*:", re.IGNORECASE)
_WATCH_HEADER = re.compile(r"\s*NpuID\(Idx\)")
_WATCH_COLUMN = re.compile(r"[^\s()][^()]*\([^()]*\)")


def read(lines: Sequence[str], *, command: str, kind: str) -> Details:
    """What the lines below a command say. `kind` is the type asked for, `""` when it is not known. Never raises."""
    kind = kind or sign_of(lines) or ""
    error = errors.find(lines)
    if kind == "topo":
        return Details(type=kind, command=command, values=_topology(lines), error=error, message=_message(lines, error))
    if kind == "-m":
        return Details(type=kind, command=command, values={"rows": _mapping(lines)}, error=error)
    if kind == "watch":
        return Details(type=kind, command=command, values={"rows": _watch(lines)}, error=error)
    if kind == "-h" or any(_USAGE.match(line) for line in lines):
        return Details(type=kind or "-h", command=command, message=_joined(lines), error=error)
    sections, free = _sections(lines, error)
    values = merged(sections)
    if kind == "proc-mem":
        values = {key: value for key, value in values.items() if not key.startswith("Process")}
        values["processes"] = _processes(lines)
    message = _joined(free) or _last_text(values.get("Message"))
    return Details(type=kind, command=command, values=values, sections=sections, message=message, error=error)


def sign_of(lines: Sequence[str]) -> str | None:
    """The type of an output whose command is not known, or None when nothing in it is a sign."""
    if any(_is_mapping_header(line) for line in lines):
        return "-m"
    if any(_WATCH_HEADER.match(line) for line in lines):
        return "watch"
    if topology.read(lines) is not None:
        return "topo"
    keys = {found[1] for line in lines if (found := _KEY_VALUE.match(line))}
    kind = next((kind for key, kind in _SIGNS if key in keys), None)
    return "-l" if kind is None and "NPU ID" in keys else kind


def merged(sections: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    """All keys of all blocks, each once: its value, or the list of its values when it was printed several times."""
    seen: dict[str, list[Value]] = {}
    for section in sections:
        for key, value in section.items():
            seen.setdefault(key, []).extend(value if isinstance(value, _Repeated) else [value])
    return {key: values[0] if len(values) == 1 else values for key, values in seen.items()}


def value_of(key: str, text: str) -> Value:
    """A printed value: None for NA, a list for error codes, a number where the key does not name a text."""
    text = text.strip()
    if key.lower() == "error code":
        return [] if text.upper() in cells.NOTHING else [*re.split(r"[\s,]+", text)]
    if cells.text_or_none(text) is None:
        return None
    if _TEXT_KEYS.fullmatch(key):
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) and not _VERSION_KEYS.fullmatch(key) else text


class _Repeated(list[Value]):
    """The values of a key that stands more than once in one block."""


def _sections(lines: Sequence[str], error: ToolError | None) -> tuple[tuple[dict[str, Value], ...], list[str]]:
    """The blocks of keys and values, and the lines that are neither."""
    sections: list[dict[str, Value]] = [{}]
    free: list[str] = []
    last_key: str | None = None
    for line in lines:
        if not line.strip():
            sections.append({})
            last_key = None
        elif (more := _CONTINUED.match(line)) and last_key is not None:
            _put(sections[-1], last_key, more[1])
        elif error is not None and line.strip() == error.text:
            free.append(line)
        elif (found := _KEY_VALUE.match(line)) and not line.lstrip().startswith("["):
            last_key = found[1]
            _put(sections[-1], last_key, found[2])
        else:
            free.append(line)
    return tuple(section for section in sections if section), free


def _put(section: dict[str, Value], key: str, text: str) -> None:
    value = value_of(key, text)
    if key not in section:
        section[key] = value
        return
    before = section[key]
    section[key] = _Repeated([*before, value]) if isinstance(before, _Repeated) else _Repeated([before, value])


def _processes(lines: Iterable[str]) -> list[Value]:
    return [
        {
            "pid": int(found["pid"]),
            "name": cells.text_or_none(found["name"]),
            "memory_mib": cells.integer(found["memory"]),
        }
        for line in lines
        if (found := _PROCESS.search(line))
    ]


def _is_mapping_header(line: str) -> bool:
    names = {found.lower() for found in _MAPPING_COLUMNS.findall(line)}
    return {"npu id", "chip id", "chip name"} <= names


def _mapping(lines: Sequence[str]) -> list[Value]:
    """One row per chip and per MCU. `logic` and `physical` are always there, `slot` only where its column is."""
    rows: list[Value] = []
    keys: list[str] = []
    for line in lines:
        if _is_mapping_header(line):
            keys = [_MAPPING_KEYS[" ".join(name.lower().split())] for name in _MAPPING_COLUMNS.findall(line)]
            continue
        words = line.split(maxsplit=max(len(keys) - 1, 0))
        if not keys or len(words) < 2 or cells.exact_integer(words[0]) is None:
            continue
        row: dict[str, Value] = {"logic": None, "physical": None, "name": None}
        for key, word in zip(keys, words, strict=False):
            row[key] = cells.text_or_none(word) if key == "name" else cells.exact_integer(word)
        rows.append(row)
    return rows


def _watch(lines: Sequence[str]) -> list[Value]:
    """The samples of `info watch`: one dict per line, by the words of the header."""
    rows: list[Value] = []
    columns: list[str] = []
    for line in lines:
        if _WATCH_HEADER.match(line):
            columns = [" ".join(found.split()) for found in _WATCH_COLUMN.findall(line)]
        elif columns and (words := line.split()) and cells.exact_integer(words[0]) is not None:
            rows.append({column: value_of(column, word) for column, word in zip(columns, words, strict=False)})
    return rows


def _topology(lines: Sequence[str]) -> dict[str, Value]:
    found = topology.read(lines)
    if found is None:
        return {}
    return {
        "NPU": [*found.labels],
        "matrix": [[*row] for row in found.matrix],
        "CPU Affinity": None if found.cpu_affinity is None else [*found.cpu_affinity],
    }


def _message(lines: Sequence[str], error: ToolError | None) -> str | None:
    return _joined(lines) if error is not None else None


def _joined(lines: Iterable[str]) -> str | None:
    return "\n".join(line.strip() for line in lines if line.strip()) or None


def _last_text(value: Value) -> str | None:
    if isinstance(value, list):
        value = value[-1] if value else None
    return value if isinstance(value, str) else None
