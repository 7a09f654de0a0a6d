"""Virtual time."""

import asyncio
import itertools
import time

import pytest

from npu_operator.sim.clock import START_S, OutOfTime, Spinning, Stuck, VirtualClock, run_virtual


def test_waiting_takes_virtual_time_and_no_real_time() -> None:
    async def main(clock: VirtualClock) -> float:
        await clock.sleep(86_400)
        return clock.monotonic()

    before = time.monotonic()
    assert run_virtual(main) == 86_400
    assert time.monotonic() - before < 5


def test_timers_fire_in_the_order_of_their_times() -> None:
    order: list[str] = []

    async def later(clock: VirtualClock, seconds: float, name: str) -> None:
        await clock.sleep(seconds)
        order.append(f"{name} at {clock.monotonic():g}")

    async def main(clock: VirtualClock) -> None:
        await asyncio.gather(later(clock, 3, "b"), later(clock, 0.1, "a"), later(clock, 3.5, "c"))

    run_virtual(main)
    assert order == ["a at 0.1", "b at 3", "c at 3.5"]


def test_the_calendar_starts_where_it_is_told() -> None:
    async def main(clock: VirtualClock) -> float:
        await clock.sleep(90)
        return clock.now()

    assert run_virtual(main) == START_S + 90
    assert run_virtual(main, start_s=1000) == 1090


def test_a_jump_moves_the_calendar_of_one_process_and_no_time() -> None:
    async def main(clock: VirtualClock) -> tuple[float, float, float]:
        other = clock.another(offset_s=7)
        clock.jump(-3600)
        return clock.now() - START_S, clock.monotonic(), other.now() - START_S

    assert run_virtual(main) == (-3600, 0, 7)


def test_a_deadlock_names_the_tasks_and_where_they_wait() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def main(clock: VirtualClock) -> None:
        await asyncio.gather(asyncio.create_task(forever(), name="the waiter"))

    with pytest.raises(Stuck, match=r"(?s)nothing is due at 0\.000 s.*the waiter: .*forever \(test_clock\.py:\d+\)"):
        run_virtual(main)


def test_going_round_without_waiting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npu_operator.sim.clock.SPINS", 1000)

    async def main(clock: VirtualClock) -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(Spinning, match="time has stood still"):
        run_virtual(main)


def test_the_limit_of_virtual_time_is_kept() -> None:
    async def main(clock: VirtualClock) -> None:
        for _ in itertools.count():
            await clock.sleep(60)

    with pytest.raises(OutOfTime, match="not done after 3600 s"):
        run_virtual(main, limit_s=3600)


def test_what_is_left_behind_is_cancelled() -> None:
    ended: list[str] = []

    async def background(clock: VirtualClock) -> None:
        try:
            await clock.sleep(1e6)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main(clock: VirtualClock) -> None:
        task = asyncio.create_task(background(clock))
        await clock.sleep(1)
        assert not task.done()

    run_virtual(main)
    assert ended == ["cancelled"]


def test_threads_are_refused() -> None:
    async def main(clock: VirtualClock) -> None:
        await asyncio.to_thread(time.monotonic)

    with pytest.raises(RuntimeError, match="no threads in virtual time"):
        run_virtual(main)


def test_an_error_in_a_callback_ends_the_run() -> None:
    def broken() -> None:
        raise ValueError("broken callback")

    async def main(clock: VirtualClock) -> None:
        asyncio.get_running_loop().call_later(1, broken)
        await clock.sleep(10)

    with pytest.raises(ValueError, match="broken callback"):
        run_virtual(main)


def test_a_time_out_counts_virtual_seconds() -> None:
    async def main(clock: VirtualClock) -> float:
        try:
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        except TimeoutError:
            return clock.monotonic()
        raise AssertionError("the time-out did not come")

    assert run_virtual(main) == 30
