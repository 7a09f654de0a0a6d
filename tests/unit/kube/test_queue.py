"""The work queue: no key is lost, none is in two hands, failures wait, live changes come first."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_operator.kube.queue import ShutDown, WorkQueue
from npu_operator.sim.clock import VirtualClock
from tests.unit.kube.scripted import run


def a_queue(clock: VirtualClock, **options: float) -> WorkQueue[str]:
    return WorkQueue(clock, random.Random(5), **options)


async def is_empty(queue: WorkQueue[str]) -> bool:
    try:
        async with asyncio.timeout(0.001):
            await queue.take()
    except TimeoutError:
        return True
    return False


def test_a_key_that_is_named_often_is_handed_out_once():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        for _ in range(5):
            queue.add("a")
        assert len(queue) == 1
        assert await queue.take() == "a"
        assert await is_empty(queue)

    run(main)


def test_a_key_that_is_named_during_its_work_is_handed_out_after_it():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        queue.add("a")
        await queue.take()
        queue.add("a")
        queue.add("a")
        assert await is_empty(queue)
        queue.done("a")
        assert await queue.take() == "a"
        queue.done("a")
        assert await is_empty(queue)

    run(main)


def test_keys_come_in_the_order_in_which_they_were_first_named():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        for key in "cabca":
            queue.add(key)
        assert [await queue.take() for _ in range(3)] == ["c", "a", "b"]

    run(main)


def test_live_changes_come_before_the_first_list():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        for key in "abc":
            queue.add(key, low=True)
        queue.add("x")
        queue.add("b")  # it was in the list, and has changed since
        queue.add("x", low=True)
        assert [await queue.take() for _ in range(4)] == ["x", "b", "a", "c"]

    run(main)


def test_the_priority_of_a_key_named_during_its_work_is_kept():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        queue.add("a")
        await queue.take()
        queue.add("a", low=True)
        queue.add("b", low=True)
        queue.done("a")
        assert await queue.take() == "b"
        queue.add("a")
        queue.add("c", low=True)
        assert [await queue.take() for _ in range(2)] == ["a", "c"]

    run(main)


def test_a_burst_is_taken_at_once():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        queue.add("b", low=True)

        async def more() -> None:
            await asyncio.sleep(0.01)
            for key in "cad":
                queue.add(key)

        burst = asyncio.create_task(more())
        assert await queue.take_all(gather_s=0.05) == ("c", "a", "d", "b")
        assert queue.in_work == 4
        await burst

    run(main)


def test_a_key_for_later_comes_when_it_is_due_and_not_before():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        queue.add_after("a", 30)
        queue.add_after("b", 10)
        assert (len(queue), queue.delayed) == (0, 2)
        assert (await queue.take(), clock.monotonic()) == ("b", 10)
        assert (await queue.take(), clock.monotonic()) == ("a", 30)

    run(main)


def test_of_two_times_the_earlier_counts():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        queue.add_after("a", 30)
        queue.add_after("a", 10)
        queue.add_after("a", 20)
        assert (await queue.take(), clock.monotonic()) == ("a", 10)
        queue.done("a")
        await asyncio.sleep(100)
        assert await is_empty(queue)

    run(main)


def test_an_earlier_time_set_while_somebody_waits_wakes_him():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        queue.add_after("a", 30)
        taking = asyncio.create_task(queue.take())
        await asyncio.sleep(1)
        queue.add_after("b", 1)
        assert (await taking, clock.monotonic()) == ("b", 2)

    run(main)


def test_taking_a_key_voids_its_wait():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        queue.add_after("a", 30)
        queue.add("a")
        await queue.take()
        queue.add_after("a", 50)  # whoever works on it says when to look again
        queue.done("a")
        assert (await queue.take(), clock.monotonic()) == ("a", 50)

    run(main)


def test_failures_of_a_key_wait_longer_each_time_and_delay_no_other():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock, first_s=1.0, cap_s=20.0)
        waits = []
        for _ in range(8):
            waits.append(queue.retry("a"))
            queue.add("b")
            assert await queue.take() == "b"
            queue.done("b")
            assert await queue.take() == "a"
            queue.done("a")
        assert all(0.75 * 2**n <= wait <= 1.25 * 2**n for n, wait in enumerate(waits[:5]))
        assert all(wait <= 25 for wait in waits)
        assert queue.failures("a") == 8
        queue.forget("a")
        assert queue.retry("a") <= 1.25
        assert queue.retry("b", at_least_s=60) == 60

    run(main)


def test_two_workers_get_different_keys_and_both_end_at_the_shut_down():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        taking = [asyncio.create_task(queue.take()) for _ in range(3)]
        await asyncio.sleep(1)
        queue.add("a")
        queue.add("b")
        await asyncio.sleep(1)
        assert sorted(task.result() for task in taking if task.done()) == ["a", "b"]
        queue.shut_down()
        found = await asyncio.gather(*taking, queue.take(), queue.take_all(), return_exceptions=True)
        assert sum(isinstance(result, ShutDown) for result in found) == 3

    run(main)


def test_a_cancelled_worker_takes_no_key_with_it():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        taking = asyncio.create_task(queue.take())
        await asyncio.sleep(1)
        queue.add("a")
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        assert taking.cancelled()
        assert await queue.take() == "a"

    run(main)


def test_an_idle_queue_wakes_nobody():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        for n in range(100):
            queue.add(f"k{n}")
            queue.add_after(f"k{n}", 5)
            queue.done(await queue.take())
        assert queue.delayed == 0
        assert len(queue._failures) == 0
        await asyncio.sleep(60)
        assert await is_empty(queue)
        assert queue._heap == []

    run(main)


KEYS = st.sampled_from("abcd")
NAMINGS = st.lists(
    st.tuples(
        st.floats(0, 3, allow_nan=False),
        KEYS,
        st.sampled_from(["add", "low", "after", "retry"]),
        st.floats(0, 5, allow_nan=False),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(NAMINGS, st.integers(1, 3), st.floats(0, 2), st.booleans())
def test_no_key_is_lost_and_none_is_in_two_hands(namings, workers, work_s, in_bursts):
    """Each naming is followed by a hand-out of that key that began after it and not earlier than asked for."""

    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock, first_s=0.5, cap_s=4.0)
        in_hands: set[str] = set()
        taken: list[tuple[float, int, str]] = []
        steps = 0

        async def work() -> None:
            nonlocal steps
            while True:
                keys = await queue.take_all() if in_bursts else (await queue.take(),)
                for key in keys:
                    assert key not in in_hands
                    in_hands.add(key)
                    steps += 1
                    taken.append((clock.monotonic(), steps, key))
                await asyncio.sleep(work_s)
                for key in keys:
                    in_hands.remove(key)
                    queue.done(key)

        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        named: list[tuple[int, str]] = []
        for pause_s, key, how, delay_s in namings:
            await asyncio.sleep(pause_s)
            match how:
                case "add":
                    queue.add(key)
                case "low":
                    queue.add(key, low=True)
                case "after":
                    queue.add_after(key, delay_s)
                case "retry":
                    queue.retry(key)
            named.append((steps, key))
        await asyncio.sleep(1000)
        for before, key in named:
            assert any(step > before for _, step, found in taken if found == key)
        assert (len(queue), queue.delayed, queue.in_work) == (0, 0, 0)
        queue.shut_down()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, ShutDown) for end in ends), ends

    run(main)


def test_a_key_that_was_not_taken_cannot_be_done():
    async def main(clock: VirtualClock) -> None:
        queue = a_queue(clock)
        with pytest.raises(KeyError):
            queue.done("a")

    run(main)
