"""Time as the API server sees it, and the two spellings of time stamps.

Stamps that we write into objects are compared with stamps of other machines, so they are server time: our own monotonic
clock plus an offset learned from the `Date` header of each answer. A node with a wrong clock then writes right stamps.

`Date` has whole seconds. An answer with date D to a request sent at s and answered at r (monotonic) proves that the
offset lies between D - r and D + 1 - s; the offset is moved only when an answer proves it wrong, and no further than
needed. So it settles within a second of the truth instead of jittering with each answer.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

JUMP_S = 60.0  # a step of the calendar that is worth telling (architecture, decision 10)


class SystemClock:
    """The real `Clock`: waits with asyncio and keeps server time.

    `on_jump` is told by how many seconds the calendar moved when that is more than `JUMP_S`: the machine's clock was
    wrong, it slept, or the server's clock was set.
    """

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        on_jump: Callable[[float], None] | None = None,
    ) -> None:
        self._monotonic = monotonic
        self._offset_s = wall() - monotonic()
        self._on_jump = on_jump
        self._last_header: str | None = None
        self._last_date_s = 0.0

    def now(self) -> float:
        """Server time in seconds since 1970; this machine's calendar until a server has answered."""
        return self._monotonic() + self._offset_s

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return self._monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellable."""
        await asyncio.sleep(seconds)

    def observe_date(self, header: str, *, sent: float, received: float) -> None:
        """Learn from the `Date` header of an answer; `sent` and `received` are monotonic. Nonsense is ignored."""
        if header != self._last_header:
            try:
                date = parsedate_to_datetime(header)
            except ValueError:
                return
            self._last_header, self._last_date_s = header, date.timestamp()
        at_least, at_most = self._last_date_s - received, self._last_date_s + 1 - sent
        moved_s = min(max(self._offset_s, at_least), at_most) - self._offset_s
        self._offset_s += moved_s
        if abs(moved_s) > JUMP_S and self._on_jump is not None:
            self._on_jump(moved_s)


def stamp(seconds: float) -> str:
    """RFC 3339 with whole seconds, as in `metadata.creationTimestamp` and conditions."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(seconds: float) -> str:
    """RFC 3339 with microseconds, as Leases and Events want it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    """Seconds since 1970 of either spelling. Raises ValueError."""
    return datetime.fromisoformat(text).timestamp()
