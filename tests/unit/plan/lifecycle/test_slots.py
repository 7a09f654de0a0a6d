import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import slots
from npu_operator.plan.lifecycle.record import Phase
from npu_operator.plan.lifecycle.slots import LEASE_S, Budget, Holder, Slots, Standing
from tests.unit.plan.lifecycle.nodes import EARLIER, S, a_holder, policy

HOLDER = a_holder()


def a_standing(name: str = "a7", **changes) -> Standing:
    fields = {"name": name, "uid": f"uid-{name}", "pool": "p", "attempt": "try-1", "state": S.REQUIRED}
    return Standing(**(fields | changes))


def a_budget(**changes) -> Budget:
    written = changes.pop("policy", {})
    fields = {
        "policy": policy(**{"maxParallelUpgrades": 0, "maxUnavailable": "100%"} | written),
        "nodes": 8,
        "serving_by_pool": {"p": 8},
        "size_by_pool": {"p": 8},
    }
    return Budget(**(fields | changes))


# --- the object


def test_holders_come_back_as_they_were_written():
    other = a_holder(node="a8", uid="uid-a8")
    write = slots.write(Slots(resource_version="3"), (other, HOLDER), namespace="npu-operator", why="test")
    assert slots.read(write.body) == Slots(holders=(HOLDER, other), resource_version="3")


def test_the_update_is_guarded_and_the_first_write_is_a_creation():
    guarded = slots.write(Slots(resource_version="3"), (), namespace="n", why="").body["metadata"]
    first = slots.write(Slots(), (), namespace="n", why="").body["metadata"]
    assert guarded["resourceVersion"] == "3"
    assert "resourceVersion" not in first
    assert (guarded["name"], guarded["namespace"]) == (names.LEASE_SLOTS, "n")


def test_no_object_means_no_holders():
    assert slots.read(None) == Slots()
    assert slots.read({"metadata": {"resourceVersion": "4"}}) == Slots(resource_version="4")


@pytest.mark.parametrize("text", ["", "{", "{}", '[{"node": 7}]'])
def test_unreadable_holders_are_a_problem_and_no_crash(text):
    found = slots.read({"metadata": {"resourceVersion": "4", "annotations": {slots.HOLDERS: text}}})
    assert found.holders == ()
    assert found.resource_version == "4"
    assert slots.HOLDERS in found.problem


def test_people_see_who_holds_a_slot():
    body = slots.write(Slots(), (HOLDER,), namespace="n", why="").body
    assert body["spec"]["holderIdentity"] == "a7"


# --- who may be freed


@pytest.mark.parametrize(
    ("standing", "unborne_s", "freed"),
    [
        (None, 0, True),
        (a_standing(), 10**6, False),
        (a_standing(state=S.DRAIN, is_started=True), 10**6, False),
        (a_standing(state=S.DONE), 0, True),
        (a_standing(state=S.REQUIRED, attempt="try-2", left="try-1"), 0, True),
        (a_standing(attempt="try-2"), LEASE_S - 1, False),
        (a_standing(attempt="try-2"), LEASE_S, True),
        (a_standing(attempt=""), LEASE_S, True),
        (a_standing(attempt="try-2", rolls_back="try-1", purpose=Purpose.ROLLBACK), LEASE_S, False),
        (a_standing(uid="uid-other"), 0, False),
    ],
    ids=[
        "its node is gone",
        "its node waits with it",
        "its node is on its way",
        "its node is done",
        "its node has left it",
        "another attempt, just seen",
        "another attempt, for long",
        "no attempt, for long",
        "a rollback keeps it",
        "a node of another uid bears nobody out",
    ],
)
def test_a_slot_is_freed_by_what_its_node_shows(standing, unborne_s, freed):
    """L04"""
    assert slots.is_free(HOLDER, standing, unborne_s=unborne_s) is freed


def test_a_runtime_restart_that_is_done_frees_its_slot_at_once():
    holder = a_holder(purpose=Purpose.RUNTIME)
    done = a_standing(attempt="", runtime_done="try-1", state=None)
    assert slots.is_free(holder, done, unborne_s=0)
    assert not slots.is_free(holder, a_standing(attempt="", state=None), unborne_s=0)
    going = a_standing(runtime_done="try-1", state=None, purpose=Purpose.RUNTIME, phase=Phase.RUNNING)
    assert not slots.is_free(holder, going, unborne_s=0), "its record is taken away first"


def test_a_node_on_its_way_whose_slot_was_deleted_is_counted_again():
    on_its_way = a_standing(state=S.DRAIN, is_started=True)
    assert slots.is_lost(on_its_way, ())
    assert not slots.is_lost(on_its_way, (HOLDER,))
    assert not slots.is_lost(a_standing(), ())
    assert not slots.is_lost(a_standing(state=S.UNCORDON, is_started=True, attempt=""), ())


# --- limits


def test_parallel_upgrades_are_limited():
    """Counted over everything that holds a slot."""
    budget = a_budget(policy={"maxParallelUpgrades": 2}, holders=(HOLDER,))
    assert budget.objection(a_standing("a1"), Purpose.UPGRADE) is None
    no = budget.with_taken(a_standing("a1")).objection(a_standing("a2"), Purpose.UPGRADE)
    assert (no.reason, "maxParallelUpgrades 2" in no.message) == (Reason.WaitsForSlot, True)


def test_zero_parallel_upgrades_mean_no_limit():
    budget = a_budget(holders=tuple(a_holder(uid=str(number)) for number in range(100)))
    assert budget.objection(a_standing("a1"), Purpose.UPGRADE) is None


@pytest.mark.parametrize(
    ("limit", "down", "allowed"), [("25%", 1, True), ("25%", 2, False), (3, 2, True), (3, 3, False)]
)
def test_nodes_that_are_down_for_any_cause_are_counted(limit, down, allowed):
    budget = a_budget(policy={"maxUnavailable": limit}, down=frozenset(f"d{number}" for number in range(down)))
    no = budget.objection(a_standing("a1"), Purpose.UPGRADE)
    assert (no is None) is allowed
    if no is not None:
        assert no.reason == Reason.MaxUnavailable
        assert str(limit) in no.message


def test_a_node_that_is_down_itself_makes_nothing_worse():
    budget = a_budget(policy={"maxUnavailable": 1}, down=frozenset({"a1"}))
    assert budget.objection(a_standing("a1"), Purpose.RECOVERY) is None


def test_nodes_that_got_a_slot_in_the_same_decision_count():
    budget = a_budget(policy={"maxUnavailable": 2}).with_taken(a_standing("a1")).with_taken(a_standing("a2"))
    assert budget.objection(a_standing("a3"), Purpose.UPGRADE).reason == Reason.MaxUnavailable


def test_the_last_serving_node_of_a_pool_is_not_taken():
    """U12"""
    budget = a_budget(serving_by_pool={"p": 1}, size_by_pool={"p": 2}, down=frozenset({"a2"}))
    assert "last node of its pool" in budget.objection(a_standing("a1"), Purpose.UPGRADE).message
    assert budget.objection(a_standing("a2"), Purpose.UPGRADE) is None, "it does not serve"
    assert budget.objection(a_standing("a1"), Purpose.RECOVERY) is None, "its pool gains by it"


def test_the_only_node_of_a_pool_may_be_taken():
    budget = a_budget(serving_by_pool={"p": 1}, size_by_pool={"p": 1})
    assert budget.objection(a_standing("a1"), Purpose.UPGRADE) is None


def test_two_nodes_of_a_pool_of_two_are_not_taken_at_once():
    budget = a_budget(serving_by_pool={"p": 2}, size_by_pool={"p": 2})
    assert budget.objection(a_standing("a1"), Purpose.UPGRADE) is None
    assert budget.with_taken(a_standing("a1")).objection(a_standing("a2"), Purpose.UPGRADE) is not None


@pytest.mark.parametrize(
    ("count", "ready", "allowed"),
    [(1, 1, True), (2, 2, True), (2, 1, False), (3, 3, True), (3, 2, False), (5, 4, True), (5, 3, False)],
)
def test_the_control_plane_keeps_its_quorum(count, ready, allowed):
    """D06: the node itself is among those that are ready."""
    names_ready = frozenset(f"a{number}" for number in range(1, ready + 1))
    budget = a_budget(control_plane=count, control_plane_ready=names_ready)
    no = budget.objection(a_standing("a1", is_control_plane=True), Purpose.RECOVERY)
    assert (no is None) is allowed


def test_workers_are_no_matter_of_quorum():
    budget = a_budget(control_plane=3, control_plane_ready=frozenset())
    assert budget.objection(a_standing("a1"), Purpose.UPGRADE) is None


def test_control_plane_nodes_that_are_about_to_go_count_as_gone():
    ready = frozenset({"a1", "a2", "a3"})
    budget = a_budget(control_plane=3, control_plane_ready=ready)
    first = a_standing("a1", is_control_plane=True)
    assert budget.with_taken(first).objection(a_standing("a2", is_control_plane=True), Purpose.UPGRADE) is not None
    busy = a_budget(control_plane=3, control_plane_ready=ready, down=frozenset({"a3"}))
    assert busy.objection(first, Purpose.UPGRADE) is not None


def test_runtimes_are_restarted_one_at_a_time_and_take_nothing_down():
    other = Holder(node="a1", uid="uid-a1", attempt="r", purpose=Purpose.RUNTIME, since=EARLIER)
    full = a_budget(policy={"maxUnavailable": 1}, down=frozenset({"d1"}))
    assert full.objection(a_standing("a2"), Purpose.RUNTIME) is None
    assert a_budget(holders=(other,)).objection(a_standing("a2"), Purpose.RUNTIME).reason == Reason.WaitsForSlot
    taken = a_budget().with_taken(a_standing("a1", purpose=Purpose.RUNTIME))
    assert taken.objection(a_standing("a2"), Purpose.RUNTIME) is not None
    assert taken.objection(a_standing("a2"), Purpose.UPGRADE) is None


def test_a_rollback_asks_nobody():
    budget = a_budget(policy={"maxParallelUpgrades": 1, "maxUnavailable": 1}, holders=(HOLDER,), down=frozenset("xyz"))
    assert budget.objection(a_standing(), Purpose.ROLLBACK) is None
