"""Fault codes: how bad each one is, what has to be done about it, and when a code that comes back counts for more.

A chip reports codes (`80E01801`); the class says what helps. Single chips are never reset (with HCCS that resets the
whole ring), so what a reset would cure is cured by a reboot of the node. An unknown code is kept and treated as the
health word beside it says. Source: fault levels and frequency rules of Ascend/mind-cluster's device plugin
(faultCode.json, faultCustomization.json); severities of the open driver's event list.
"""

import functools
import importlib.resources
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

import msgspec


class FaultClass(IntEnum):
    """The classes in rising order; the names are those that MindCluster users know."""

    NotHandleFault = 0
    SubHealthFault = 1
    RestartRequest = 2
    RestartBusiness = 3
    FreeRestartNPU = 4
    RestartNPU = 5
    PreSeparateNPU = 6
    SeparateNPU = 7
    ManuallySeparateNPU = 8


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """What a fault means for the chip.

    `keeps_work`: running work may go on. `takes_new_work`: the chip stays offered. `reboot_cures`: a reboot of the node
    is known to help; `replace`: nothing but a look at the hardware helps. `text` completes "the chip …".
    """

    keeps_work: bool
    takes_new_work: bool
    reboot_cures: bool = False
    replace: bool = False
    text: str


ACTIONS: dict[FaultClass, Action] = {
    FaultClass.NotHandleFault: Action(keeps_work=True, takes_new_work=True, text="needs nothing; the event is noted"),
    FaultClass.SubHealthFault: Action(keeps_work=True, takes_new_work=True, text="works with less than it should"),
    FaultClass.RestartRequest: Action(
        keeps_work=True, takes_new_work=False, text="failed one request, which has to be made again"
    ),
    FaultClass.RestartBusiness: Action(
        keeps_work=False, takes_new_work=False, text="is fine again after its job has been started anew"
    ),
    FaultClass.FreeRestartNPU: Action(
        keeps_work=True, takes_new_work=False, reboot_cures=True, text="has to be reset once its work has ended"
    ),
    FaultClass.RestartNPU: Action(
        keeps_work=False, takes_new_work=False, reboot_cures=True, text="has to be reset now; its work is lost"
    ),
    FaultClass.PreSeparateNPU: Action(
        keeps_work=True, takes_new_work=False, text="finishes its work and gets no more; have it looked at"
    ),
    FaultClass.SeparateNPU: Action(
        keeps_work=False, takes_new_work=False, replace=True, text="is broken; no reset helps, have it replaced"
    ),
    FaultClass.ManuallySeparateNPU: Action(
        keeps_work=False,
        takes_new_work=False,
        replace=True,
        text="failed too often and stays out until a person decides",
    ),
}

# For codes without a class: what the health word beside them asks for. Source: severity to health in DCMI.
NOTHING_KNOWN = Action(keeps_work=True, takes_new_work=True, text="reports a code that is not in the table")
_SICK = Action(
    keeps_work=True, takes_new_work=False, text="reports a code that is not in the table and calls itself ill"
)
ACTION_OF_HEALTH: dict[str, Action] = {
    "OK": NOTHING_KNOWN,
    "Warning": NOTHING_KNOWN,
    "Alarm": _SICK,
    "Critical": _SICK,
    "UNKNOWN": _SICK,
}

HEALTH_OF_SEVERITY = ("OK", "Warning", "Alarm", "Critical")

# Link faults of a chip's own network ports. They make the network unhealthy and not the chip.
LINK_DOWN = "81078603"
NETWORK_CODES = frozenset({LINK_DOWN, "81078607", "81B18603"})

HEARTBEAT_LOST = "40F84E00"  # also what a chip that vanished is reported as
RESET_FINISHED = "8C2FA009"
HBM_ROWS_USED_UP = "80E18402"  # 64 isolated rows: replace the part


class FaultCode(msgspec.Struct, frozen=True, kw_only=True):
    """One code of the table. Severity 0 note, 1 minor, 2 major, 3 critical; None where the source does not tell."""

    code: str
    fault_class: FaultClass | None = None
    severity_910b: int | None = None
    severity_950: int | None = None
    about: str | None = None

    @property
    def severity(self) -> int | None:
        """The higher of what either driver generation says."""
        told = [severity for severity in (self.severity_910b, self.severity_950) if severity is not None]
        return max(told) if told else None


class FrequencyRule(msgspec.Struct, frozen=True, kw_only=True):
    """`times` of a code within `window_s` seconds give it class `then`, until it was quiet for `release_s` seconds."""

    codes: frozenset[str]
    times: int
    window_s: int
    then: FaultClass
    release_s: int | None = None


class DurationRule(msgspec.Struct, frozen=True, kw_only=True):
    """A code that stays for `after_s` seconds gets class `then`; it is over when it was away for `clear_s` seconds."""

    code: str
    after_s: int
    clear_s: int
    then: FaultClass


DAY_S = 24 * 3600

# fmt: off
_TWICE_A_DAY = frozenset({
    "80A18008", "80A38008", "80A58008", "80B58000", "80B78000", "80B98000", "80B98008", "80BB8000", "80BB8008",
    "80BD8000", "80BD8008", "80C78008", "80C98000", "80C98008", "80CB8008", "80CD8008", "80CF8008", "80D98008",
    "80DE1801", "80DF8008", "80E01801", "80E18008", "80E38008", "80E39200", "80E3A202", "80E3A203", "80E78000",
    "80E78008", "80F18000", "80F18008", "80F38008", "80F78008", "81318008", "81338008", "813B8008", "81478008",
    "81578008", "815F8008", "81938008", "81958008", "81978008",
})
# fmt: on

FREQUENCY_RULES: tuple[FrequencyRule, ...] = (
    FrequencyRule(
        codes=_TWICE_A_DAY,
        times=2,
        window_s=DAY_S,
        then=FaultClass.ManuallySeparateNPU,
    ),
    FrequencyRule(codes=frozenset({"80E18005"}), times=3, window_s=DAY_S, then=FaultClass.ManuallySeparateNPU),
    FrequencyRule(
        codes=frozenset({LINK_DOWN}), times=5, window_s=DAY_S, then=FaultClass.ManuallySeparateNPU, release_s=2 * DAY_S
    ),
)

DURATION_RULES: tuple[DurationRule, ...] = (
    DurationRule(code=LINK_DOWN, after_s=20, clear_s=60, then=FaultClass.PreSeparateNPU),
)

_CODE = re.compile(r"(?:0[xX])?([0-9A-Fa-f]{1,9})")
_SHORTEST = 8


def normal(code: str) -> str:
    """A code in the table's form: no `0x`, capitals, eight digits at least. What is no code is given back unchanged."""
    found = _CODE.fullmatch(code.strip())
    return found[1].upper().zfill(_SHORTEST) if found else code.strip()


def from_decimal(number: int) -> str:
    """The code for the number that exporters publish (2162169857 is 80E01801)."""
    return normal(f"{number:X}")


@functools.cache
def table() -> Mapping[str, FaultCode]:
    """All known codes by their normal form; read once from the package's own data."""
    text = importlib.resources.files(__package__ or "").joinpath("data/fault_codes.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {code.code: code for code in (_row(*row) for row in rows)}


def known(code: str) -> FaultCode | None:
    """The table's entry for a code, or None."""
    return table().get(normal(code))


def fault_class(code: str) -> FaultClass | None:
    """The class of a code; None when the code is unknown or the table gives it none."""
    found = known(code)
    return found.fault_class if found is not None else None


def action(code: str, health: str | None = None) -> Action:
    """What has to be done about a code; for one without a class the health word decides (None counts as UNKNOWN)."""
    of_class = fault_class(code)
    return ACTIONS[of_class] if of_class is not None else ACTION_OF_HEALTH.get(health or "UNKNOWN", _SICK)


def worst(codes: Iterable[str]) -> str | None:
    """The code of the highest class, then of the highest severity; the first of equals. None without codes."""

    def weight(code: str) -> tuple[int, int]:
        found = known(code)
        if found is None:
            return (-1, -1)
        return (
            -1 if found.fault_class is None else found.fault_class,
            -1 if found.severity is None else found.severity,
        )

    return max(codes, key=weight, default=None)


def escalated(code: str, seen_at_s: Sequence[float], now_s: float) -> FaultClass | None:
    """The class that a frequency rule gives a code now, from the times (seconds) at which it came; None without one.

    A rule with a release ends by itself when the code has been away that long; one without lasts until a person ends
    it.
    """
    rule = next((rule for rule in FREQUENCY_RULES if normal(code) in rule.codes), None)
    if rule is None or not seen_at_s:
        return None
    times = sorted(seen_at_s)
    in_a_row = any(
        times[last] - times[last - rule.times + 1] <= rule.window_s for last in range(rule.times - 1, len(times))
    )
    is_released = rule.release_s is not None and now_s - times[-1] >= rule.release_s
    return rule.then if in_a_row and not is_released else None


def outlasted(code: str, for_s: float) -> FaultClass | None:
    """The class that a duration rule gives a code that has stayed for so many seconds; None without one."""
    rule = next((rule for rule in DURATION_RULES if rule.code == normal(code)), None)
    return rule.then if rule is not None and for_s >= rule.after_s else None


def _row(code: str, of_class: str, severity_910b: str, severity_950: str, about: str) -> FaultCode:
    return FaultCode(
        code=code,
        fault_class=None if of_class == "-" else FaultClass[of_class],
        severity_910b=None if severity_910b == "-" else int(severity_910b),
        severity_950=None if severity_950 == "-" else int(severity_950),
        about=None if about == "-" else about,
    )
