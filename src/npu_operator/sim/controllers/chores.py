"""Work that waits for its turn: keys with a delay, each at most once in the queue."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Chores(Generic[K]):
    """Calls `work(key)` some time after `add(key)`; keys that are added again in between are done once."""

    def __init__(self, work: Callable[[K], None], *, delay_s: float) -> None:
        self._work = work
        self._delay_s = delay_s
        self._waiting: dict[K, asyncio.TimerHandle] = {}

    def add(self, key: K, *, after_s: float | None = None) -> None:
        """Do `key` after `after_s` seconds (None: the usual delay), or earlier if it waits already."""
        loop = asyncio.get_running_loop()
        at_s = loop.time() + (self._delay_s if after_s is None else after_s)
        waiting = self._waiting.get(key)
        if waiting is not None:
            if waiting.when() <= at_s:
                return
            waiting.cancel()
        self._waiting[key] = loop.call_at(at_s, self._run, key)

    def drop(self, key: K) -> None:
        """Forget `key`."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.cancel()

    def _run(self, key: K) -> None:
        del self._waiting[key]
        self._work(key)
