"""The eviction of one pod and its answers."""

import asyncio
import random

import pytest

from npu_operator.kube.api import ApiError, Forbidden, TooManyRequests
from npu_operator.kube.eviction import Evictor, Outcome, evict
from npu_operator.kube.objects import Meta
from npu_operator.kube.pods import Pod
from npu_operator.sim.clock import VirtualClock
from tests.unit.kube.scripted import Server, answer, cluster_of, refusal, run

POD = Pod(Meta(name="p", namespace="x", uid="u1"))
NEEDS = "The disruption budget guard needs 2 healthy pods and has 2 currently"


def blocked() -> object:
    return refusal(
        429,
        "Cannot evict pod as it would violate the pod's disruption budget.",
        reason="TooManyRequests",
        details={"causes": [{"reason": "DisruptionBudget", "message": NEEDS}]},
    )


@pytest.mark.parametrize(
    ("step", "outcome", "message", "budget"),
    [
        (answer({}, 201), Outcome.ACCEPTED, "", ""),
        (refusal(404, "pods p not found", reason="NotFound"), Outcome.GONE, "", ""),
        (refusal(409, "UID in precondition", reason="Conflict"), Outcome.GONE, "another pod has its name now", ""),
        (blocked(), Outcome.BLOCKED, NEEDS, "guard"),
        (
            refusal(500, "This pod has more than one PodDisruptionBudget, which the eviction subresource …"),
            Outcome.BLOCKED,
            "more than one budget covers it, which evictions do not support",
            "",
        ),
        (
            refusal(403, "being terminated", details={"causes": [{"reason": "NamespaceTerminating"}]}),
            Outcome.ACCEPTED,
            "its namespace is being deleted",
            "",
        ),
    ],
    ids=["accepted", "gone", "another", "budget", "budgets", "namespace"],
)
def test_each_answer_has_its_outcome(step, outcome, message, budget):
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("POST", step)
        found = await evict(cluster_of(server, clock), POD)
        assert (found.outcome, found.message, found.budget) == (outcome, message, budget)

    run(main)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (refusal(429, "slow down"), TooManyRequests),
        (refusal(403, "no right"), Forbidden),
        (refusal(500, "oh"), ApiError),
    ],
)
def test_what_is_not_about_the_pod_is_an_error(step, expected):
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("POST", step)
        with pytest.raises(expected):
            await evict(cluster_of(server, clock), POD)

    run(main)


def test_a_blocked_pod_is_asked_about_less_and_less_however_often_one_plans():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("POST", *(blocked() for _ in range(50)))
        evictor = Evictor(cluster_of(server, clock), clock=clock, rng=random.Random(1))
        for _ in range(600):
            found = await evictor.evict(POD)
            assert (found.outcome, found.budget) == (Outcome.BLOCKED, "guard")
            await asyncio.sleep(1)
        assert 10 <= len(server.requests) <= 20
        assert server.times[1] <= 8

    run(main)


def test_a_pod_that_is_free_again_is_evicted_at_the_next_try():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("POST", blocked(), answer({}, 201), blocked())
        evictor = Evictor(cluster_of(server, clock), clock=clock, rng=random.Random(1))
        await evictor.evict(POD)
        wait_s = evictor.again_s(POD)
        assert 3 < wait_s < 7
        await asyncio.sleep(wait_s)
        assert (await evictor.evict(POD)).outcome is Outcome.ACCEPTED
        assert evictor.again_s(POD) == 0
        await evictor.evict(POD)  # blocked anew: a first refusal, not a third
        assert evictor.again_s(POD) < 7

    run(main)


def test_pods_that_are_gone_are_forgotten():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("POST", blocked())
        evictor = Evictor(cluster_of(server, clock), clock=clock, rng=random.Random(1))
        await evictor.evict(POD)
        evictor.forget_others(["u1"])
        assert evictor.again_s(POD) > 0
        evictor.forget_others([])
        assert evictor.again_s(POD) == 0

    run(main)
