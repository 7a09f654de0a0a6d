"""Error texts: what npu-smi, the dynamic loader, the shell and the driver's installer say instead of a table.

All of them reach a caller on stdout or mixed into it, some with exit status 0, so the text decides. The rules are asked
in order and the first one that fits names the error; the line it fits is the error's text. Source: the npucli source
of the open driver (hicann/driver) and public reports.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from npu_operator.ascend.smi.readings import ErrorKind, ToolError

# The user library's constructor prints this before anything else when it cannot use /dev/davinci_manager.
CONSTRUCTOR_LINE = re.compile(r"DrvMngGetConsoleLogLevel failed", re.IGNORECASE)

LONGEST_TEXT = 200  # characters kept of a line that may be anything

NO_CARD_LINE = "There is no NPU card on this server."

_CODE = re.compile(
    r"\b(?:ret(?:urn)?(?:\s*code)?|err(?:or)?(?:\s*code)?|code)\b\s*(?:is|:|=)?\s*(-[0-9]{1,6})\b", re.IGNORECASE
)
_BARE_CODE = re.compile(r"(?<![\w.-])(-[89][0-9]{3})\b")


class Rule(msgspec.Struct, frozen=True):
    """A line that matches `pattern` is an error of this kind."""

    pattern: re.Pattern[str]
    kind: ErrorKind


def _rule(pattern: str, kind: ErrorKind) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE), kind)


# Return codes that say more than the sentence around them.
KIND_OF_CODE: dict[int, ErrorKind] = {
    -8005: ErrorKind.DRIVER_NOT_READY,
    -8012: ErrorKind.DRIVER_NOT_READY,
    -8020: ErrorKind.DEVICE_OCCUPIED,
    -9020: ErrorKind.DEVICE_OCCUPIED,
}

_FROM_CODE = ErrorKind.OTHER  # the code may still say more, see KIND_OF_CODE

RULES: tuple[Rule, ...] = (
    _rule(r"error while loading shared libraries", ErrorKind.MISSING_LIBRARY),
    _rule(r"cannot open shared object file", ErrorKind.MISSING_LIBRARY),
    _rule(r"undefined symbol|symbol lookup error", ErrorKind.MISSING_LIBRARY),
    _rule(r"npu-smi\W*:?.*(command not found|: not found|executable file not found)", ErrorKind.TOOL_MISSING),
    _rule(r"command not found.*npu-smi", ErrorKind.TOOL_MISSING),
    _rule(r"npu-smi\W*:.*(no such file or directory|is a directory|required file not found)", ErrorKind.TOOL_MISSING),
    _rule(r"\[(driver|firmware)\].*\[error\]", ErrorKind.INSTALLER),
    _rule(r"\bERR_NO:", ErrorKind.INSTALLER),
    _rule(r"/var/lib/dkms/|/usr/src/davinci_ascend|\bdkms\b.*(error|fail)", ErrorKind.INSTALLER),
    _rule(r"/lib/modules/\S+/build\b.*no such file", ErrorKind.INSTALLER),
    _rule(r"list of missing tools", ErrorKind.INSTALLER),
    _rule(r"get board type failed", ErrorKind.BOARD_TYPE),
    _rule(r"because the device is used", ErrorKind.DEVICE_OCCUPIED),
    _rule(r"dcmi mod(ule|el) initialized? failed", _FROM_CODE),
    _rule(r"npu_get_\w+ failed", _FROM_CODE),
    _rule(r"failed to (execute|query|get)\b", _FROM_CODE),
    _rule(r"command or option is not found", _FROM_CODE),
    _rule(r"error parameter of|this command must input|cannot be executed on a VM or container", _FROM_CODE),
    _rule(re.escape(NO_CARD_LINE.rstrip(".")), _FROM_CODE),
    _rule(r"dcmi init\w* failed|\bcardnum\s*[=:]\s*-[0-9]", _FROM_CODE),
)


def code_of(text: str) -> int | None:
    """The return code in a text: after `ret is`, `err is`, `error code:`, or a bare -8000 or -9000 number."""
    found = _CODE.search(text) or _BARE_CODE.search(text)
    return int(found[1]) if found else None


def find(lines: Iterable[str]) -> ToolError | None:
    """The error that these lines report, or None when no line is one we know."""
    lines = [line.strip() for line in lines if line.strip()]
    for rule in RULES:
        for line in lines:
            if rule.pattern.search(line):
                return _told(rule, line, lines)
    for line in lines:
        if CONSTRUCTOR_LINE.search(line):
            return ToolError(None, ErrorKind.DRIVER_NOT_READY, line)
    return None


def _told(rule: Rule, line: str, lines: Sequence[str]) -> ToolError:
    if rule.kind in (ErrorKind.INSTALLER, ErrorKind.MISSING_LIBRARY, ErrorKind.TOOL_MISSING):
        return ToolError(None, rule.kind, line)
    code = code_of(line)
    if code is None:
        code = next((found for other in lines if (found := code_of(other)) is not None), None)
    kind = KIND_OF_CODE.get(code, rule.kind) if rule.kind is _FROM_CODE and code is not None else rule.kind
    return ToolError(code, kind, line)


def unknown(lines: Iterable[str]) -> ToolError:
    """The error of a text that is neither a table nor a known message; its first line is kept."""
    first = next((line.strip() for line in lines if line.strip()), "no output")
    return ToolError(None, ErrorKind.OTHER, first[:LONGEST_TEXT])
