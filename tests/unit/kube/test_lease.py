"""Elections: one leader at a time, a quick hand-over, patience with a silent API server, an end when it lasts."""

import asyncio
import random

import pytest

from npu_operator.kube.api import Unreachable
from npu_operator.kube.lease import Elector, LeaseLost, Timings, identity_of
from npu_operator.sim.clock import VirtualClock
from tests.unit.kube.leases import LeaseServer
from tests.unit.kube.scripted import run

AWAY = Unreachable("patch leases: connection refused")


def an_elector(server: LeaseServer, clock: VirtualClock, identity: str, **options) -> Elector:
    return Elector(
        server,
        "npu-operator",
        "npu-operator",
        identity=identity,
        manager="me",
        clock=clock,
        rng=random.Random(identity),
        **options,
    )


async def lost(holding: "asyncio.Task[None]") -> str:
    with pytest.raises(LeaseLost) as caught:
        await holding
    return str(caught.value)


def test_the_first_one_makes_the_lease():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        leaders: list[str] = []
        elector = an_elector(server, clock, "one", on_leader=leaders.append)
        assert not elector.is_leading
        await elector.acquire()
        assert elector.is_leading
        assert leaders == ["one"]
        assert server.lease["spec"] == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.010000Z",
            "renewTime": "2026-01-01T00:00:00.010000Z",
            "leaseTransitions": 0,
        }

    run(main)


def test_of_two_that_begin_together_one_leads():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        electors = [an_elector(server, clock, name) for name in ("one", "two")]
        acquiring = [asyncio.create_task(elector.acquire()) for elector in electors]
        await asyncio.sleep(1)
        assert sum(elector.is_leading for elector in electors) == 1
        for task in acquiring:
            task.cancel()

    run(main)


def test_a_renewal_is_one_request():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        elector = an_elector(server, clock, "one")
        await elector.acquire()
        server.requests.clear()
        holding = asyncio.create_task(elector.hold())
        await asyncio.sleep(60)
        assert set(server.requests) == {"patch"}
        assert 25 <= len(server.requests) <= 30
        assert elector.is_leading
        holding.cancel()

    run(main)


def test_a_follower_waits_while_the_leader_renews_and_takes_over_when_it_stops():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        one, two = (an_elector(server, clock, name) for name in ("one", "two"))
        await one.acquire()
        holding = asyncio.create_task(one.hold())
        taking = asyncio.create_task(two.acquire())
        await asyncio.sleep(300)
        assert not taking.done()
        holding.cancel()  # crashed, without a release
        died_at = clock.monotonic()
        await taking
        assert 13 <= clock.monotonic() - died_at <= 20
        assert server.lease["spec"]["leaseTransitions"] == 1
        assert not one.is_leading

    run(main)


def test_a_released_lease_is_taken_over_at_the_next_look():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        one, two = (an_elector(server, clock, name) for name in ("one", "two"))
        await one.acquire()
        taking = asyncio.create_task(two.acquire())
        await asyncio.sleep(10)
        released_at = clock.monotonic()
        await one.release()
        assert server.holder is None
        assert not one.is_leading
        await taking
        assert clock.monotonic() - released_at < 2.5

    run(main)


def test_a_clock_that_is_off_changes_nothing():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        one = an_elector(server, clock.another(offset_s=-86_400), "one")
        two = an_elector(server, clock.another(offset_s=86_400), "two")
        await one.acquire()
        holding = asyncio.create_task(one.hold())
        taking = asyncio.create_task(two.acquire())
        await asyncio.sleep(120)
        assert not taking.done()
        for task in (holding, taking):
            task.cancel()

    run(main)


def test_a_silent_api_server_is_borne_for_the_renew_deadline_and_no_longer():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        troubles = []
        elector = an_elector(server, clock, "one", on_trouble=troubles.append)
        await elector.acquire()
        holding = asyncio.create_task(elector.hold())
        await asyncio.sleep(20)
        server.fault = AWAY
        await asyncio.sleep(9)
        server.fault = None
        await asyncio.sleep(20)
        assert elector.is_leading
        assert troubles
        server.fault = AWAY
        began = clock.monotonic()
        said = await lost(holding)
        assert 10 <= clock.monotonic() - began <= 12.1
        assert said == "lease npu-operator/npu-operator was not renewed for 10 s: patch leases: connection refused"
        assert not elector.is_leading

    run(main)


def test_an_api_server_that_hangs_does_not_hold_the_leader_beyond_its_deadline():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        elector = an_elector(server, clock, "one")
        await elector.acquire()
        holding = asyncio.create_task(elector.hold())
        await asyncio.sleep(20)
        server.hangs = True
        began = clock.monotonic()
        await lost(holding)
        assert clock.monotonic() - began <= 12.1
        assert not elector.is_leading

    run(main)


def test_the_old_leader_has_stopped_before_a_new_one_begins():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        one, two = (an_elector(server, clock, name) for name in ("one", "two"))
        await one.acquire()
        holding = asyncio.create_task(one.hold())
        taking = asyncio.create_task(two.acquire())
        await asyncio.sleep(20)
        cut_off, one._cluster = one._cluster, LeaseServer()  # one is cut off, two is not
        one._cluster.hangs = True
        await lost(holding)
        stopped_at = clock.monotonic()
        await taking
        assert clock.monotonic() > stopped_at
        assert cut_off.holder == "two"

    run(main)


def test_somebodys_label_on_the_lease_does_not_cost_it():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        elector = an_elector(server, clock, "one")
        await elector.acquire()
        holding = asyncio.create_task(elector.hold())
        for _ in range(10):
            await asyncio.sleep(3)
            server.touch(curious="yes")
        assert elector.is_leading
        holding.cancel()

    run(main)


def test_a_lease_that_another_one_holds_is_lost_at_once():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        elector = an_elector(server, clock, "one")
        await elector.acquire()
        holding = asyncio.create_task(elector.hold())
        await asyncio.sleep(10)
        server.lease["spec"]["holderIdentity"] = "two"
        server.touch()
        assert await lost(holding) == "lease npu-operator/npu-operator is held by two"
        assert not elector.is_leading

    run(main)


def test_a_lease_that_is_deleted_is_lost():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        elector = an_elector(server, clock, "one")
        await elector.acquire()
        holding = asyncio.create_task(elector.hold())
        server.lease = None
        assert await lost(holding) == "lease npu-operator/npu-operator was deleted"

    run(main)


def test_a_renewal_whose_answer_was_lost_is_recognised_as_our_own():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        elector = an_elector(server, clock, "one", timings=Timings(duration_s=60, renew_s=40, retry_s=2))
        await elector.acquire()
        holding = asyncio.create_task(elector.hold())
        await asyncio.sleep(1)
        server.loses_answers = True
        await asyncio.sleep(3)
        holding.cancel()  # while a renewal is under way
        await asyncio.gather(holding, return_exceptions=True)
        server.loses_answers = False
        await elector.release()
        assert server.holder is None

    run(main)


def test_the_api_may_be_away_at_the_start():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        server.fault = AWAY
        elector = an_elector(server, clock, "one")
        acquiring = asyncio.create_task(elector.acquire())
        await asyncio.sleep(600)
        assert not acquiring.done()
        server.fault = None
        await asyncio.sleep(3)
        assert elector.is_leading

    run(main)


def test_an_api_that_hangs_at_the_start_is_asked_again():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        server.hangs = True
        elector = an_elector(server, clock, "one")
        acquiring = asyncio.create_task(elector.acquire())
        await asyncio.sleep(5)
        server.hangs = False
        await acquiring
        assert clock.monotonic() < 15

    run(main)


def test_a_release_that_fails_does_not_hold_up_the_end():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        elector = an_elector(server, clock, "one")
        await elector.acquire()
        server.hangs = True
        began = clock.monotonic()
        await elector.release()
        assert clock.monotonic() - began <= 2
        assert not elector.is_leading
        server.hangs, server.fault = False, AWAY
        await elector.release()

    run(main)


def test_the_lease_is_released_only_when_the_work_has_stopped():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        elector = an_elector(server, clock, "one")
        story: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(25)  # finishing takes longer than the lease lasts
                story.append(f"stopped while held by {server.holder}")

        leading = asyncio.create_task(elector.lead(work))
        await asyncio.sleep(50)
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        assert leading.cancelled()
        assert story == ["stopped while held by one"]
        assert server.holder is None

    run(main)


def test_work_is_stopped_when_the_lease_is_lost():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        elector = an_elector(server, clock, "one")
        stopped: list[float] = []

        async def work() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                stopped.append(clock.monotonic())

        leading = asyncio.create_task(elector.lead(work))
        await asyncio.sleep(50)
        server.fault = AWAY
        assert "was not renewed" in await lost(leading)
        assert 60 <= stopped[0] <= 62.1

    run(main)


def test_work_that_fails_takes_its_error_out_and_frees_the_lease():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()
        elector = an_elector(server, clock, "one")

        async def work() -> None:
            await asyncio.sleep(5)
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            await elector.lead(work)
        assert server.holder is None

    run(main)


def test_work_that_ends_ends_the_leadership():
    async def main(clock: VirtualClock) -> None:
        server = LeaseServer()

        async def work() -> None:
            await asyncio.sleep(5)

        await an_elector(server, clock, "one").lead(work)
        assert server.holder is None

    run(main)


def test_timings_that_make_two_leaders_are_refused():
    with pytest.raises(ValueError, match="retry 2 s and renew 13 s must together be less than duration 15 s"):
        Timings(duration_s=15, renew_s=13)


def test_no_two_processes_have_one_identity():
    assert identity_of("pod-1") != identity_of("pod-1")
    assert identity_of("pod-1").startswith("pod-1_")
