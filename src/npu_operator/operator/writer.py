"""Act: carry out what plans want written, several writes at a time, never two for the same key at once.

A newer wish for a key replaces one that has not begun. A write that fails does no harm: its key is handed to `on_done`
with the error, and the loop plans it again from a fresh picture, after a back-off that the queue keeps per key. Every
answer goes into the store at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import IntEnum

import structlog

from npu_operator.kube.api import ApiError, Conflict, NotFound

LOG = structlog.get_logger()


class Urgency(IntEnum):
    """What goes first when there is much to write."""

    OBJECT = 0
    STATUS = 1
    NODE = 2
    NPU_NODE = 3
    REPORT = 4


Write = Callable[[], Awaitable[None]]
Done = Callable[[str, ApiError | None, bool], None]
"""Key, error, and whether the same was wished again meanwhile: from a picture without the answer, so it is dropped."""


class Writer:
    """A bounded number of workers over wishes by key."""

    def __init__(self, *, workers: int, on_done: Done) -> None:
        self._workers = workers
        self._on_done = on_done
        self._wishes: dict[Urgency, dict[str, tuple[Write, str]]] = {urgency: {} for urgency in Urgency}
        self._running: set[str] = set()
        self._wake = asyncio.Event()
        self.errors: dict[str, ApiError] = {}
        """The last error by key, until a write for the key succeeds."""

    @property
    def pending(self) -> int:
        """Writes that have not begun or are under way."""
        return sum(len(wishes) for wishes in self._wishes.values()) + len(self._running)

    def wish(self, urgency: Urgency, key: str, write: Write, why: str) -> None:
        """Have `write` carried out, instead of an earlier wish for the key that has not begun."""
        self._wishes[urgency][key] = (write, why)
        self._wake.set()

    def withdraw(self, urgency: Urgency, key: str) -> bool:
        """Nothing is to be written for the key; what was wished is dropped if it has not begun.

        True when an error stood for it: the write had arrived although its answer was lost, or somebody else did it.
        """
        self._wishes[urgency].pop(key, None)
        return self.errors.pop(key, None) is not None

    def forget_wishes(self) -> None:
        """Whoever begins to lead plans from what is there now, not from what an earlier term wished."""
        for wishes in self._wishes.values():
            wishes.clear()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            taken = self._take()
            if taken is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            urgency, key, write, why = taken
            await self._carry_out(urgency, key, write, why)

    def _take(self) -> tuple[Urgency, str, Write, str] | None:
        for urgency, wishes in self._wishes.items():
            for key in wishes:
                if key not in self._running:
                    write, why = wishes.pop(key)
                    self._running.add(key)
                    return urgency, key, write, why
        return None

    async def _carry_out(self, urgency: Urgency, key: str, write: Write, why: str) -> None:
        error: ApiError | None = None
        try:
            await write()
            self.errors.pop(key, None)
            if urgency is not Urgency.REPORT:
                LOG.info("written", key=key, why=why)
        except ApiError as failure:
            error = failure
            is_race = isinstance(failure, Conflict | NotFound)
            if is_race:
                LOG.info("write lost a race and is planned again", key=key, why=why, error=str(failure))
            else:
                self.errors[key] = failure
                LOG.warning("write refused", key=key, why=why, error=str(failure))
        finally:
            self._running.discard(key)
            self._wake.set()
        was_wished_again = self._wishes[urgency].pop(key, None) is not None
        self._on_done(key, error, was_wished_again)
