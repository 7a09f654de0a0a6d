"""Which keys need work, each at most once: the heart of a level-triggered loop.

Events only name a key; however often it is named, it is handed out once. A key that is named while somebody works on it
is handed out again when that work is done, so no news is lost and no key is ever in two hands. Failures of a key delay
that key alone, longer each time. What is named at low priority (the list at the start) never delays live changes.
"""

import asyncio
import heapq
import random
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from npu_operator.kube.api import Clock
from npu_operator.kube.backoff import delay_s

FIRST_S, CAP_S = 0.005, 1000.0  # as client-go: 5 ms · 2^n

K = TypeVar("K", bound=Hashable)


class ShutDown(Exception):
    """The queue was shut down. Raised by `take` and `take_all`; a worker ends."""


class WorkQueue(Generic[K]):
    """Keys that wait to be worked on; `len` counts those that could be taken now."""

    def __init__(self, clock: Clock, rng: random.Random, *, first_s: float = FIRST_S, cap_s: float = CAP_S) -> None:
        self._clock = clock
        self._rng = rng
        self._first_s = first_s
        self._cap_s = cap_s
        self._high: OrderedDict[K, None] = OrderedDict()
        self._low: OrderedDict[K, None] = OrderedDict()
        self._in_work: dict[K, bool | None] = {}
        """What is in somebody's hands, and whether it was named meanwhile: None no, False low, True high."""
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = 0
        self._failures: dict[K, int] = {}
        self._is_shut = False
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._high) + len(self._low)

    @property
    def delayed(self) -> int:
        """Keys that wait for their time."""
        return len(self._due)

    @property
    def in_work(self) -> int:
        """Keys in somebody's hands."""
        return len(self._in_work)

    def failures(self, key: K) -> int:
        """How often `key` has failed in a row."""
        return self._failures.get(key, 0)

    def add(self, key: K, *, low: bool = False) -> None:
        """Name a key. Once is as good as often; high priority wins."""
        if key in self._in_work:
            self._in_work[key] = bool(self._in_work[key]) or not low
            return
        if not low:
            self._low.pop(key, None)
            self._high[key] = None
        elif key not in self._high:
            self._low[key] = None
        self._changed.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Name a key in `seconds` from now; an earlier time that is set already stays.

        Taking the key voids the wait: whoever works on it looks at everything and says anew when to look again.
        """
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._order += 1
            heapq.heappush(self._heap, (due, self._order, key))
            self._changed.set()

    def retry(self, key: K, *, at_least_s: float | None = None) -> float:
        """Name a key again after a failure. Returns the seconds until then."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        seconds = max(delay_s(self._rng, failures, first_s=self._first_s, cap_s=self._cap_s), at_least_s or 0.0)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """The key did well: its next failure is a first one."""
        self._failures.pop(key, None)

    async def take(self) -> K:
        """The next key, high priority first; `done` must follow. Raises ShutDown."""
        await self._wait()
        key, _ = (self._high or self._low).popitem(last=False)
        self._hand_out(key)
        return key

    async def take_all(self, *, gather_s: float = 0.0) -> tuple[K, ...]:
        """All keys that can be taken, high priority first; `done` must follow for each. Raises ShutDown.

        With `gather_s` it waits that much longer after the first, so that a burst is one piece of work.
        """
        await self._wait()
        if gather_s > 0:
            await self._clock.sleep(gather_s)
            await self._wait()
        keys = (*self._high, *self._low)
        self._high.clear()
        self._low.clear()
        for key in keys:
            self._hand_out(key)
        return keys

    def done(self, key: K) -> None:
        """The work on `key` is over, well or not; if it was named meanwhile it can be taken again."""
        named = self._in_work.pop(key)
        if named is not None:
            self.add(key, low=not named)

    def shut_down(self) -> None:
        """Hand nothing out any more."""
        self._is_shut = True
        self._changed.set()

    def _hand_out(self, key: K) -> None:
        self._in_work[key] = None
        self._due.pop(key, None)

    async def _wait(self) -> None:
        """Return when something can be taken."""
        while True:
            if self._is_shut:
                self._changed.set()  # the other workers as well
                raise ShutDown
            next_due = self._promote()
            if len(self):
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(None if next_due is None else next_due - self._clock.monotonic()):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _promote(self) -> float | None:
        """Name the keys whose time has come. Returns when the next one is due."""
        now = self._clock.monotonic()
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) != due:  # taken, or set to an earlier time
                heapq.heappop(self._heap)
            elif due <= now:
                heapq.heappop(self._heap)
                del self._due[key]
                self.add(key)
            else:
                return due
        return None
