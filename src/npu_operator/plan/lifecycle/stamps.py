"""Stamps that are kept: server time as RFC 3339 in UTC, whole seconds.

Waiting is measured by the observer with a monotonic clock; these stamps order approvals, count attempts per window and
tell a restarted operator how long something has been so.
"""

from datetime import UTC, datetime, timedelta

from npu_operator.model.fields import Stamp

FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def parse(stamp: str) -> datetime | None:
    """The moment, or None for text that is no stamp: somebody may have edited it."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def between(earlier: str, later: str) -> float:
    """Seconds from one stamp to another; never negative, and 0 when either is no stamp."""
    begin, end = parse(earlier), parse(later)
    return max(0.0, (end - begin).total_seconds()) if begin is not None and end is not None else 0.0


def after(stamp: str, seconds: float) -> Stamp:
    """The stamp so many seconds later; empty when `stamp` is none."""
    begin = parse(stamp)
    return "" if begin is None else (begin + timedelta(seconds=seconds)).astimezone(UTC).strftime(FORMAT)
