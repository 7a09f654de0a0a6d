"""Virtual time: an event loop whose clock jumps to the next timer as soon as nobody has anything to do.

A rollout of hours takes seconds, and takes them the same way each time: there are no threads, no sockets and no
waiting for the machine. What cannot be repeated (threads, executors) is refused instead of tolerated.
"""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Never, TypeVar

T = TypeVar("T")

START_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z; any fixed date does, a whole hour makes traces readable
LIMIT_S = 30 * 86_400.0  # a month; the longest rollout that a scenario describes is a week
SPINS = 1_000_000  # turns of the loop without time moving; a burst of 5,000 nodes needs about 100,000


class Stuck(RuntimeError):
    """Everyone waits and nothing is due: a deadlock. The message names the tasks and where they wait."""


class Spinning(RuntimeError):
    """Somebody goes round without ever waiting, so virtual time stands still."""


class OutOfTime(RuntimeError):
    """The limit of virtual time was reached before the main task was done."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An asyncio loop that is its own selector: waiting is a jump."""

    def __init__(self, *, limit_s: float = LIMIT_S) -> None:
        super().__init__()
        self._now = 0.0
        self._limit_s = limit_s
        self._spins = 0
        self._clock_resolution = 1e-9
        self._scheduled: list[asyncio.TimerHandle]  # BaseEventLoop's heap of timers
        self._failure: BaseException | None = None
        self._selector = self  # BaseEventLoop asks `_selector.select(timeout)` once per turn

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def select(self, timeout: float | None) -> list[Never]:
        """Jump to the next timer; never returns events, for nothing comes from outside.

        Raises Stuck, Spinning, OutOfTime or what a callback raised; they leave `run_until_complete`.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if timeout is None:
            raise Stuck(f"everyone waits and nothing is due at {self._now:.3f} s\n{self.waiting()}")
        if timeout <= 0:
            self._spins += 1
            if self._spins > SPINS:
                self._spins = 0
                raise Spinning(f"time has stood still for {SPINS} turns at {self._now:.3f} s\n{self.waiting()}")
            return []
        self._spins = 0
        due = self._scheduled[0].when()
        if due > self._limit_s:
            limit_s, self._limit_s = self._limit_s, float("inf")  # raised once: cleaning up may take time as well
            raise OutOfTime(f"not done after {limit_s:g} s of virtual time\n{self.waiting()}")
        self._now = due
        return []

    def waiting(self) -> str:
        """The unfinished tasks and the line at which each waits, one per line, in a stable order."""
        return "\n".join(sorted(f"  {task.get_name()}: {_where(task)}" for task in asyncio.all_tasks(self)))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error in a callback ends the run; elsewhere it would only be logged."""
        if "handle" in context and "exception" in context:
            self._failure = context["exception"]
        else:
            super().call_exception_handler(context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> Never:
        """Refuse: a thread would make runs differ."""
        raise RuntimeError(f"no threads in virtual time, but {func!r} wants one")

    def _process_events(self, event_list: list[Never]) -> None:
        assert not event_list, "nothing comes from outside in virtual time"

    def _write_to_self(self) -> None:
        """Nothing to wake up: the loop never sleeps."""


def _where(task: "asyncio.Task[Any]") -> str:
    """The innermost line of the awaiting chain that is not asyncio's own."""
    awaited: Any = task.get_coro()
    place = "not started"
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is None:
            break
        path = Path(frame.f_code.co_filename)
        if path.parent.name != "asyncio":
            place = f"{frame.f_code.co_qualname} ({path.name}:{frame.f_lineno})"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return place


class VirtualClock:
    """A process's clock: the loop's time plus a calendar that can be wrong and can jump."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_s: float = START_S) -> None:
        self._loop = loop
        self._start_s = start_s
        self.offset_s = 0.0
        """How far this clock is ahead of the true time."""

    def now(self) -> float:
        """Seconds since 1970 as this clock believes."""
        return self._start_s + self._loop.time() + self.offset_s

    def monotonic(self) -> float:
        """Virtual seconds since the run began."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        await asyncio.sleep(seconds)

    def jump(self, seconds: float) -> None:
        """Move the calendar (forward or back) without moving time, as a step of NTP does."""
        self.offset_s += seconds

    def another(self, *, offset_s: float = 0.0) -> "VirtualClock":
        """A clock for another machine: same time, its own mistakes."""
        clock = VirtualClock(self._loop, self._start_s)
        clock.offset_s = offset_s
        return clock


def run_virtual(
    main: Callable[[VirtualClock], Coroutine[Any, Any, T]], *, start_s: float = START_S, limit_s: float = LIMIT_S
) -> T:
    """Run `main(clock)` in a loop of its own until it returns; tasks left behind are cancelled.

    `limit_s` is virtual time. Raises Stuck, Spinning, OutOfTime, or what `main` raises.
    """
    with _rare_collections(), asyncio.Runner(loop_factory=lambda: VirtualLoop(limit_s=limit_s)) as runner:
        return runner.run(main(VirtualClock(runner.get_loop(), start_s)))


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python's garbage collector look less often.

    A simulated cluster is millions of long-lived dictionaries and hardly a cycle; at the usual thresholds the collector
    takes 40 % of a run with 5,000 nodes.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
