"""The network side of a chip: `/etc/hccn.conf` and what `hccn_tool` prints.

`hccn_tool` has two forms: `-i N -ip -g` before 950 and `-g -link -i N -u U -p P` on 950. Both print keys and values
with a colon, some print tables with bars. Addresses are saved before a planned reboot and compared after it, so a value
is kept exactly as printed. Source: outputs in the MindCluster fault-diagnosis guide (910A) and the HCCN tool manual of
the open driver (950).
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from npu_operator.ascend.install import key_values

LONGEST_LINE = 2048  # the widest table of 950 has 150 characters

_CONF_KEY = re.compile(r"(?P<name>[A-Za-z_]+?)_(?P<device>[0-9]{1,6})")
_COMMAND = re.compile(r"^\s*\S*\s*[$#]\s+(?P<command>.*\bhccn_tool\b.*)$")
_DEVICE_PREFIX = re.compile(r"^\s*\[device [0-9]+\]")
_KEY_VALUE = re.compile(r"\s*([A-Za-z][\w ()./-]*?)\s*:(?!:)\s*(.*)")
_TABLE_RULE = re.compile(r"\s*\+[+=\-]{2,}")
_RULE = re.compile(r"\s*[=\-*]{3,}|\s*\.{3}\s*$")
_CHANGE = re.compile(
    r"\s*(?P<when>[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8} [0-9]{4})\s+LINK[ _](?P<state>UP|DOWN)"
)
_SWITCH = re.compile(r"tls switch\[([0-9])\]")
_MODES = frozenset({"-g", "-s", "-t"})
_DONE = "Cmd executed successfully!"


class Conf(msgspec.Struct, frozen=True, kw_only=True):
    """`/etc/hccn.conf`: the settings of each device by their names without the number (`address`, `netmask`, …)."""

    by_device: Mapping[int, Mapping[str, str]] = {}
    others: Mapping[str, str] = {}

    @property
    def addresses(self) -> dict[int, str]:
        """The address of each device that has one."""
        return {device: told["address"] for device, told in self.by_device.items() if told.get("address")}


def read_conf(text: str) -> Conf:
    """Read `/etc/hccn.conf`; a line of another form is kept under `others` when it has a key."""
    by_device: dict[int, dict[str, str]] = {}
    others: dict[str, str] = {}
    for key, value in key_values(text).items():
        if found := _CONF_KEY.fullmatch(key):
            by_device.setdefault(int(found["device"]), {})[found["name"]] = value
        else:
            others[key] = value
    return Conf(by_device=dict(sorted(by_device.items())), others=others)


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What one `hccn_tool` command printed.

    `option` is what was asked for without its dash (`ip`, `link`, `optical`, …; None without a command line); `values`
    the keys, the first value of each; `rows` the rows of tables by their header; `records` the lines that are neither.
    """

    option: str | None = None
    values: Mapping[str, str] = {}
    rows: tuple[Mapping[str, str], ...] = ()
    records: tuple[str, ...] = ()
    is_done: bool = False

    @property
    def address(self) -> str | None:
        """The IP address, of `-ip` or `-vnic`."""
        return self.values.get("ipaddr") or self.values.get("vnic ipaddr")

    @property
    def netmask(self) -> str | None:
        """The netmask, of `-ip` or `-vnic`."""
        return self.values.get("netmask") or self.values.get("vnic netmask")

    @property
    def is_link_up(self) -> bool | None:
        """Whether the link is up; None when the output does not say. `PARTIAL LINK` (950) is not up."""
        status = self.values.get("link status") or self.values.get("vnic link status")
        return None if status is None else status.upper() == "UP"

    @property
    def net_health(self) -> str | None:
        """The word of `-net_health`; `Success` and `Init` are the healthy ones."""
        return self.values.get("net health status")

    @property
    def link_changes(self) -> tuple[tuple[str, str], ...]:
        """When the link went UP or DOWN, newest first as printed, of `-link_stat`."""
        from_table = (
            (row.get("Time_Stamp", ""), row["Link_Status"].upper()) for row in self.rows if "Link_Status" in row
        )
        from_lines = ((found["when"], found["state"]) for record in self.records if (found := _CHANGE.match(record)))
        return (*((when, state.removeprefix("LINK_")) for when, state in from_table), *from_lines)

    @property
    def is_tls_on(self) -> bool | None:
        """The TLS switch of `-tls`, which must be the same on all chips of a job; None when not printed."""
        found = next((switch for record in self.records if (switch := _SWITCH.search(record))), None)
        return None if found is None else found[1] == "1"


def read(text: str) -> Output:
    """Read an output, with or without the command line before it. Never raises."""
    option: str | None = None
    values: dict[str, str] = {}
    records: list[str] = []
    lines = [_DEVICE_PREFIX.sub("", line[:LONGEST_LINE]) for line in text.splitlines()]
    for line in lines:
        if command := _COMMAND.match(line):
            option = option_of(command["command"])
        elif line.lstrip().startswith("|") or _TABLE_RULE.match(line) or _RULE.match(line) or not line.strip():
            continue
        elif _SWITCH.search(line) or _CHANGE.match(line) or (found := _KEY_VALUE.match(line)) is None:
            records.append(line.strip())
        else:
            values.setdefault(found[1], found[2].strip())
    done = any(line.strip() == _DONE for line in lines)
    return Output(option=option, values=values, rows=_rows(lines), records=tuple(records), is_done=done)


def _rows(lines: Iterable[str]) -> tuple[Mapping[str, str], ...]:
    """The rows of all tables by the words of their header, which is the first row after text or after two rules."""
    rows: list[dict[str, str]] = []
    columns: list[str] = []
    was_rule = False
    for line in lines:
        is_rule = _TABLE_RULE.match(line) is not None
        if line.lstrip().startswith("|"):
            # A cell that holds bars itself keeps them in the last column.
            cells = [cell.strip() for cell in line.strip().strip("|").split("|", max(len(columns) - 1, 0) or -1)]
            if columns:
                rows.append(dict(zip(columns, cells, strict=False)))
            else:
                columns = cells
        elif not is_rule or was_rule:
            columns = []
        was_rule = is_rule
    return tuple(rows)


def option_of(command: str) -> str | None:
    """What a command line asks for: the first option that is neither a mode nor takes a number."""
    words = command.split("hccn_tool", 1)[-1].split("|", 1)[0].split()
    asked = (word for word in words if re.fullmatch(r"-[a-z][a-z_]+", word) and word not in _MODES)
    return next((word[1:] for word in asked), None)


def addresses_lost(before: Mapping[int, str], now: Mapping[int, str]) -> tuple[int, ...]:
    """The devices that had an address before and have none, or another one, now."""
    return tuple(sorted(device for device, address in before.items() if now.get(device) != address))
