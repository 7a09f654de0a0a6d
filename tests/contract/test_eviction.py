"""Evictions and disruption budgets."""

from typing import Any

from npu_operator.kube import answers, api
from npu_operator.kube.api import ApiError, NotFound, TooManyRequests
from tests.contract.backends import Line, in_both, refused
from tests.contract.bodies import a_pod, running


async def pods(c: Line, *names: str, ready: bool = True) -> None:
    for name in names:
        await c.create(api.PODS, a_pod(name, labels={"app": "work"}))
        await c.patch(api.PODS, name, running(ready=ready), subresource="status")


async def budget(c: Line, *, healthy: int, name: str = "budget", **spec: Any) -> None:
    """A budget whose status has been counted and sees `healthy` pods."""
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "work"}}, **spec}}
    await c.create(api.POD_DISRUPTION_BUDGETS, body)

    async def is_counted() -> bool:
        found = await c.get(api.POD_DISRUPTION_BUDGETS, name)
        status = found["status"]
        return status.get("observedGeneration") == 1 and status["currentHealthy"] == healthy

    await c.eventually(is_counted)


async def clean(c: Line, *names: str) -> None:
    for name in names:
        await c.delete(api.PODS, name, grace_s=0)


def cause(error: ApiError) -> str:
    (found,) = answers.causes_of(error)
    assert found.reason == "DisruptionBudget"
    return found.message


@in_both
async def test_without_a_budget_an_eviction_deletes_with_grace_and_says_why(c: Line) -> None:
    await pods(c, "one")
    await c.cluster.evict("one", c.namespace, grace_s=7)
    found = await c.get(api.PODS, "one")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 7
    (why,) = [each for each in found["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (why["status"], why["reason"]) == ("True", "EvictionByEvictionAPI")
    await clean(c, "one")


@in_both
async def test_a_budget_that_needs_all_its_pods_refuses(c: Line) -> None:
    await pods(c, "one", "two")
    await budget(c, minAvailable=2, healthy=2)
    error = await refused(c.cluster.evict("one", c.namespace))
    assert isinstance(error, TooManyRequests)
    assert error.reason == "TooManyRequests"
    assert "Cannot evict pod as it would violate the pod's disruption budget." in str(error)
    assert cause(error) == "The disruption budget budget needs 2 healthy pods and has 2 currently"
    assert error.retry_after_s is None
    assert "deletionTimestamp" not in (await c.get(api.PODS, "one"))["metadata"]
    await clean(c, "one", "two")


@in_both
async def test_a_budget_allows_what_it_can_spare_and_counts_it_at_once(c: Line) -> None:
    await pods(c, "one", "two", "three")
    await budget(c, minAvailable=2, healthy=3)
    await c.cluster.evict("one", c.namespace)
    error = await refused(c.cluster.evict("two", c.namespace))
    assert isinstance(error, TooManyRequests)
    found = await c.get(api.POD_DISRUPTION_BUDGETS, "budget")
    assert found["status"]["disruptionsAllowed"] == 0
    await clean(c, "one", "two", "three")


@in_both
async def test_a_fresh_budget_refuses_until_it_is_counted(c: Line) -> None:
    await pods(c, "one", "two")
    body = {"metadata": {"name": "budget"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "work"}}}}
    await c.create(api.POD_DISRUPTION_BUDGETS, body)

    async def is_evicted() -> bool:
        try:
            await c.cluster.evict("one", c.namespace)
        except TooManyRequests:
            return False
        return True

    await c.eventually(is_evicted)
    await clean(c, "one", "two")


@in_both
async def test_pods_that_do_not_run_need_no_budget(c: Line) -> None:
    await pods(c, "one", "over", "failed")
    await c.create(api.PODS, a_pod("pending", labels={"app": "work"}))
    for name, phase in (("over", "Succeeded"), ("failed", "Failed")):
        status = {**running(ready=False)["status"], "phase": phase}
        await c.patch(api.PODS, name, {"status": status}, subresource="status")
    await budget(c, minAvailable=3, healthy=1)
    for name in ("over", "failed", "pending"):
        await c.cluster.evict(name, c.namespace, grace_s=0)
        assert isinstance(await refused(c.get(api.PODS, name)), NotFound)
    assert isinstance(await refused(c.cluster.evict("one", c.namespace)), TooManyRequests)
    await clean(c, "one")


@in_both
async def test_a_pod_on_its_way_out_can_be_evicted_again(c: Line) -> None:
    await pods(c, "one")
    await budget(c, minAvailable=1, healthy=1)
    await c.delete(api.PODS, "one")
    await c.cluster.evict("one", c.namespace)
    await clean(c, "one")


@in_both
async def test_a_sick_pod_is_held_when_the_others_are_too_few(c: Line) -> None:
    await pods(c, "one")
    await pods(c, "sick", ready=False)
    await budget(c, minAvailable=2, healthy=1)
    assert isinstance(await refused(c.cluster.evict("sick", c.namespace)), TooManyRequests)
    await clean(c, "one", "sick")


@in_both
async def test_a_sick_pod_may_go_when_the_others_suffice(c: Line) -> None:
    await pods(c, "one")
    await pods(c, "sick", ready=False)
    await budget(c, minAvailable=1, healthy=1)
    await c.cluster.evict("sick", c.namespace)
    await clean(c, "one", "sick")


@in_both
async def test_a_sick_pod_may_always_go_when_its_budget_says_so(c: Line) -> None:
    await pods(c, "sick", ready=False)
    await budget(c, minAvailable=2, healthy=0, unhealthyPodEvictionPolicy="AlwaysAllow")
    await c.cluster.evict("sick", c.namespace)
    await clean(c, "sick")


@in_both
async def test_two_budgets_for_one_pod_are_an_internal_error(c: Line) -> None:
    await pods(c, "one", "two")
    await budget(c, minAvailable=1, healthy=2)
    await budget(c, minAvailable=1, healthy=2, name="second")
    error = await refused(c.cluster.evict("one", c.namespace))
    assert error.status == 500
    assert "more than one PodDisruptionBudget" in str(error)
    await clean(c, "one", "two")


@in_both
async def test_a_share_of_unknown_many_allows_nothing(c: Line) -> None:
    await pods(c, "one", "two")
    await budget(c, maxUnavailable=1, healthy=2)
    found = await c.get(api.POD_DISRUPTION_BUDGETS, "budget")
    assert (found["status"]["expectedPods"], found["status"]["disruptionsAllowed"]) == (0, 0)
    assert isinstance(await refused(c.cluster.evict("one", c.namespace)), TooManyRequests)
    await clean(c, "one", "two")


@in_both
async def test_an_eviction_of_another_uid_is_refused(c: Line) -> None:
    await pods(c, "one")
    error = await refused(c.cluster.evict("one", c.namespace, uid="other"))
    assert (error.status, error.reason) == (409, "Conflict")
    assert "deletionTimestamp" not in (await c.get(api.PODS, "one"))["metadata"]
    await clean(c, "one")


@in_both
async def test_a_missing_pod_cannot_be_evicted(c: Line) -> None:
    error = await refused(c.cluster.evict("nobody", c.namespace))
    assert isinstance(error, NotFound)
    assert 'pods "nobody" not found' in str(error)
