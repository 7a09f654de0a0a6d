"""Maintenance windows: is one open, and when does the next one open?

Zones come in as values: reading the time-zone database is I/O, which the observer does once per name. Times of day are
local: a window that lies in the hour that a clock change leaves out does not open that day, one in the hour that comes
twice is open from its first time to its second. Source: product.md §2 (`upgradePolicy.window`).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from npu_operator.model.policies import Day, Window
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import stamps
from npu_operator.plan.lifecycle.effects import No

DAYS = tuple(Day)
"""Monday first, as `date.weekday` counts."""
HORIZON_DAYS = 8
"""A window that opens at all opens within a week."""


def objection(windows: Sequence[Window], now: datetime, zones: Mapping[str, tzinfo]) -> No | None:
    """None while some window is open, or there are none at all; else when the next one opens.

    `now` is aware; `zones` has a zone for each name that exists. A window in an unknown zone never opens, and the
    message says so.
    """
    spans = [span for window in windows for span in _spans(window, now, zones)]
    if not windows or any(begin <= now < end for begin, end in spans):
        return None
    unknown = sorted({window.time_zone for window in windows} - zones.keys())
    hint = f"; time zone {', '.join(unknown)} is not known" if unknown else ""
    coming = [begin for begin, _ in spans if begin > now]
    if not coming:
        return No(Reason.WaitsForWindow, f"no maintenance window ever opens{hint}")
    until = min(coming).astimezone(UTC).strftime(stamps.FORMAT)
    return No(
        Reason.WaitsForWindow,
        f"the maintenance window opens at {until}{hint}",
        until,
        (min(coming) - now).total_seconds(),
    )


def closes_in_s(windows: Sequence[Window], now: datetime, zones: Mapping[str, tzinfo]) -> float | None:
    """Seconds until the last of the open windows closes; None when none is open."""
    ends = [end for window in windows for begin, end in _spans(window, now, zones) if begin <= now < end]
    return (max(ends) - now).total_seconds() if ends else None


def _spans(window: Window, now: datetime, zones: Mapping[str, tzinfo]) -> Iterator[tuple[datetime, datetime]]:
    """When the window is open, from yesterday on, as moments in UTC."""
    zone = zones.get(window.time_zone)
    if zone is None:
        return
    begin, end = time.fromisoformat(window.start), time.fromisoformat(window.end)
    today = now.astimezone(zone).date()
    for offset in range(-1, HORIZON_DAYS):
        day = today + timedelta(days=offset)
        if window.days and DAYS[day.weekday()] not in window.days:
            continue
        last = day + timedelta(days=1) if end <= begin else day
        opens, closes = _moment(day, begin, zone, fold=0), _moment(last, end, zone, fold=1)
        if opens < closes:
            yield opens, closes


def _moment(day: date, clock: time, zone: tzinfo, *, fold: int) -> datetime:
    """The moment of a local time. An hour that comes twice counts from its first time to its second."""
    local = datetime.combine(day, clock, tzinfo=zone).replace(fold=fold)
    return local.astimezone(UTC)
