"""Which pods a drain takes, which it leaves, and what budgets say."""

import pytest

from npu_operator.kube.budgets import Budget, BudgetSpec, BudgetStatus, Requirement, Selector, matches, obstacle
from npu_operator.kube.objects import Meta, OwnerReference, decoder
from npu_operator.kube.pods import (
    MIRROR_ANNOTATION,
    Answer,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Trait,
    Volume,
    drain_answer,
    traits,
)

READY = (PodCondition("Ready", "True"),)


def a_pod(
    *,
    owner: str | None = "ReplicaSet",
    phase: str = "Running",
    ready: bool = True,
    mirror: bool = False,
    deleted: bool = False,
    empty_dir: bool = False,
    labels: dict[str, str] | None = None,
) -> Pod:
    return Pod(
        Meta(
            name="p",
            namespace="x",
            labels={"app": "a"} if labels is None else labels,
            annotations={MIRROR_ANNOTATION: "hash"} if mirror else {},
            deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None,
            owner_references=(OwnerReference(kind=owner, controller=True),) if owner else (),
        ),
        PodSpec(volumes=(Volume("v", {} if empty_dir else None),)),
        PodStatus(phase, READY if ready else ()),
    )


def a_budget(
    *, allowed: int = 0, healthy: int = 1, desired: int = 1, policy: str = "IfHealthyBudget", namespace: str = "x"
) -> Budget:
    return Budget(
        Meta(name="b", namespace=namespace, generation=1),
        BudgetSpec(Selector({"app": "a"}), policy),
        BudgetStatus(allowed, healthy, desired, observed_generation=1),
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod(), set()),
        (a_pod(mirror=True, owner="Node"), {Trait.MIRROR}),
        (a_pod(owner="DaemonSet"), {Trait.DAEMON}),
        (a_pod(owner=None), {Trait.BARE}),
        (a_pod(phase="Succeeded", ready=False), {Trait.FINISHED}),
        (a_pod(phase="Failed", ready=False), {Trait.FINISHED}),
        (a_pod(deleted=True), {Trait.TERMINATING}),
        (a_pod(empty_dir=True), {Trait.EMPTY_DIR}),
        (a_pod(ready=False), {Trait.UNREADY}),
        (a_pod(phase="Pending", ready=False, owner=None), {Trait.UNREADY, Trait.BARE}),
    ],
)
def test_a_pod_is_known_by_its_traits(pod, expected):
    assert traits(pod) == expected


@pytest.mark.parametrize(
    ("pod", "plain", "forced"),
    [
        (a_pod(), Answer.EVICT, Answer.EVICT),
        (a_pod(mirror=True), Answer.LEAVE, Answer.LEAVE),
        (a_pod(owner="DaemonSet"), Answer.LEAVE, Answer.LEAVE),
        (a_pod(owner="DaemonSet", empty_dir=True), Answer.LEAVE, Answer.LEAVE),
        (a_pod(owner="DaemonSet", phase="Failed"), Answer.LEAVE, Answer.LEAVE),
        (a_pod(owner=None), Answer.REFUSE, Answer.EVICT),
        (a_pod(empty_dir=True), Answer.REFUSE, Answer.EVICT),
        (a_pod(owner=None, phase="Succeeded", empty_dir=True), Answer.EVICT, Answer.EVICT),
        (a_pod(deleted=True, owner=None), Answer.WAIT, Answer.WAIT),
        (a_pod(ready=False), Answer.EVICT, Answer.EVICT),
    ],
)
def test_a_drain_treats_each_pod_as_kubectl_does(pod, plain, forced):
    assert drain_answer(pod, force=False, delete_empty_dir=False)[0] is plain
    assert drain_answer(pod, force=True, delete_empty_dir=True)[0] is forced


def test_a_refusal_of_the_drain_says_why():
    assert drain_answer(a_pod(owner=None), force=False, delete_empty_dir=False)[1] == "without a controller"
    assert drain_answer(a_pod(empty_dir=True), force=True, delete_empty_dir=False)[1] == "with emptyDir data"


def test_a_pod_is_decoded_from_what_the_server_sends():
    pod = decoder(Pod)(
        b'{"metadata":{"name":"p","namespace":"x","ownerReferences":[{"kind":"DaemonSet","controller":true}]},'
        b'"spec":{"nodeName":"a7","volumes":[{"name":"v","emptyDir":{"medium":"Memory"}},{"name":"c","configMap":{}}]},'
        b'"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False","reason":"x"}]}}'
    )
    assert traits(pod) == {Trait.DAEMON, Trait.EMPTY_DIR, Trait.UNREADY}
    assert pod.spec.node_name == "a7"


@pytest.mark.parametrize(
    ("pod", "budgets", "said"),
    [
        (a_pod(), [], None),
        (a_pod(), [a_budget(allowed=1)], None),
        (a_pod(), [a_budget()], "budget b needs 1 healthy pods and has 1"),
        (a_pod(), [a_budget(namespace="y")], None),
        (a_pod(labels={"app": "z"}), [a_budget()], None),
        (a_pod(), [a_budget(), a_budget()], "more than one budget covers it (b, b), which evictions do not support"),
        (a_pod(deleted=True), [a_budget()], None),
        (a_pod(phase="Succeeded"), [a_budget()], None),
        (a_pod(phase="Pending", ready=False), [a_budget()], None),
        (a_pod(ready=False), [a_budget(healthy=1)], None),
        (a_pod(ready=False), [a_budget(healthy=0)], "budget b needs 1 healthy pods and has 0"),
        (a_pod(ready=False), [a_budget(healthy=0, desired=0)], "budget b needs 0 healthy pods and has 0"),
        (a_pod(ready=False), [a_budget(healthy=0, policy="AlwaysAllow")], None),
        (a_pod(), [a_budget(policy="AlwaysAllow")], "budget b needs 1 healthy pods and has 1"),
    ],
)
def test_a_budget_is_foreseen_as_the_server_applies_it(pod, budgets, said):
    assert obstacle(pod, budgets) == said


def test_a_budget_that_the_controller_has_not_seen_yet_refuses():
    fresh = Budget(Meta(name="b", namespace="x", generation=2), BudgetSpec(Selector()), BudgetStatus(1, 1, 1, 1))
    assert obstacle(a_pod(), [fresh]) is not None


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        (Selector(), True),
        (Selector({"app": "a"}), True),
        (Selector({"app": "a", "x": "y"}), False),
        (Selector(match_expressions=(Requirement("app", "In", ("a", "b")),)), True),
        (Selector(match_expressions=(Requirement("app", "In", ("b",)),)), False),
        (Selector(match_expressions=(Requirement("x", "In", ("b",)),)), False),
        (Selector(match_expressions=(Requirement("app", "NotIn", ("a",)),)), False),
        (Selector(match_expressions=(Requirement("x", "NotIn", ("a",)),)), True),
        (Selector(match_expressions=(Requirement("app", "Exists"),)), True),
        (Selector(match_expressions=(Requirement("x", "Exists"),)), False),
        (Selector(match_expressions=(Requirement("x", "DoesNotExist"),)), True),
        (Selector(match_expressions=(Requirement("app", "DoesNotExist"),)), False),
        (Selector(match_expressions=(Requirement("app", "Gt", ("1",)),)), False),
    ],
)
def test_a_selector_selects_as_in_kubernetes(selector, expected):
    assert matches(selector, {"app": "a"}) is expected
