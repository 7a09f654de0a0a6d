"""Whole rollouts in a small fleet: what people were promised, from the first label to the last slot."""

from collections.abc import Callable

import msgspec
import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.reasons import Reason
from npu_operator.model.status import UpgradeStatus
from npu_operator.plan.lifecycle import record as records
from npu_operator.plan.lifecycle import rollout
from npu_operator.plan.lifecycle.planner import Lifecycle
from npu_operator.plan.lifecycle.view import PodView
from tests.unit.plan.lifecycle.nodes import S, policy, recovery_policy
from tests.unit.plan.lifecycle.world import FIRST, Conflict, Operator, World, slots_of

SECOND = "25.5"
OPEN = {"autoUpgrade": True, "maxUnavailable": "100%"}
NEVER = PodView(namespace="ml", name="never-0", uid="never-0", holds_npu=True)


class Run:
    """A world with one operator, stepped in seconds of virtual time."""

    def __init__(self, count: int = 3, *, heal: dict | None = None, **written) -> None:
        self.world = World(count, policy(**OPEN | written), recovery_policy(**heal or {}))
        self.operator = Operator(self.world)
        self.seen: dict[str, list[str]] = {name: [] for name in self.world.nodes}
        self.out_at_once = 0

    def want(self, version: str) -> "Run":
        self.world.wanted = version
        return self

    def round(self, *, without: str = "") -> None:
        """`without`: the node whose rebooter sleeps."""
        self.operator.plan()
        self.operator.write_all()
        self.look()
        for name in self.world.nodes:
            if name != without:
                self.world.run_rebooter(name)
            self.world.run_agents(name)
        self.world.seconds += 2

    def until(self, holds: Callable[[], bool], *, without: str = "", rounds: int = 400) -> "Run":
        for _ in range(rounds):
            if holds():
                return self
            self.round(without=without)
        raise AssertionError(f"never: {self.why()}")

    def settle(self, *, without: str = "", rounds: int = 400) -> "Run":
        quiet = 0
        for _ in range(rounds):
            writes = self.world.writes
            self.round(without=without)
            quiet = quiet + 1 if self.world.writes == writes else 0
            if quiet == 12:
                return self
        raise AssertionError(f"does not settle: {self.why()}")

    def look(self) -> None:
        self.world.check()
        for name in self.world.nodes:
            label = self.label(name)
            if label and (not self.seen[name] or self.seen[name][-1] != label):
                self.seen[name].append(label)
        self.out_at_once = max(self.out_at_once, sum(self.is_out(name) for name in self.world.nodes))

    def label(self, name: str) -> str:
        return self.world.nodes[name].labels.get(names.UPGRADE_STATE, "")

    def record(self, name: str) -> records.Record:
        return records.read(self.world.nodes[name]).record

    def is_out(self, name: str) -> bool:
        return self.world.nodes[name].unschedulable

    def versions(self) -> list[str]:
        return [host.active for host in self.world.hosts.values()]

    def why(self) -> dict[str, str]:
        return {name: found.message for name, found in self.operator.steps.items()}

    def status(self) -> UpgradeStatus:
        return self.operator.lifecycle.status(self.world.wanted, UpgradeStatus(), self.world.now)

    def is_clean(self, *, but: tuple[str, ...] = ()) -> None:
        assert slots_of(self.world).holders == ()
        for name, node in self.world.nodes.items():
            if name not in but:
                assert not node.labels, name
                assert not node.annotations, name
                assert not node.unschedulable, name


def test_a_fleet_goes_to_another_version_one_node_after_the_other():
    run = Run(3).want(SECOND).settle()
    assert run.versions() == [SECOND] * 3
    assert run.out_at_once == 1
    assert len(run.world.executed) == 3
    run.is_clean()


def test_the_labels_come_in_the_order_of_the_reference():
    run = Run(1)
    run.world.hosts["a1"].pods = {
        "train": PodView(namespace="ml", name="train", uid="train", holds_npu=True),
        "web": PodView(namespace="ml", name="web", uid="web"),
    }
    run.want(SECOND).settle()
    assert run.seen["a1"] == [
        "upgrade-required",
        "cordon-required",
        "pod-deletion-required",
        "drain-required",
        "node-reboot-required",
        "uncordon-required",
        "upgrade-done",
    ]


def test_the_calls_for_a_node_stay_within_their_budget():
    """product.md §6: at most 15 writes to Node, Pod and slots for one upgrade."""
    run = Run(1, autoUpgrade=False)
    run.world.hosts["a1"].pods = {
        "train": PodView(namespace="ml", name="train", uid="train", holds_npu=True),
        "web": PodView(namespace="ml", name="web", uid="web"),
    }
    run.want(SECOND).until(lambda: run.record("a1").attempt is not None)
    run.world.edit("a1", annotations={names.APPROVE_REBOOT: "true"})
    run.settle()
    run.is_clean()
    assert run.world.writes <= 15


def test_several_nodes_go_at_once_when_the_policy_lets_them():
    run = Run(6, maxParallelUpgrades=3).want(SECOND).settle()
    assert run.out_at_once == 3
    run.is_clean()


def test_an_idle_fleet_costs_nothing():
    """U25"""
    run = Run(3).want(SECOND).settle()
    plan = run.operator.lifecycle
    assert run.operator.plan() == 0
    assert not run.operator.steps or all(found.patch is None for found in run.operator.steps.values())
    assert plan.objections == {}


def test_a_killed_operator_begins_where_it_was_after_every_single_write():
    """Scenario 2: before and after each write, the same end and no second reboot."""
    whole = Run(2).want(SECOND).settle()
    for crash_at in range(1, whole.world.writes + 8):
        run = Run(2).want(SECOND)
        _die_after(run, crash_at)
        run.settle()
        assert run.versions() == [SECOND] * 2, crash_at
        assert len(run.world.executed) == 2, crash_at
        run.is_clean()


def _die_after(run: Run, count: int) -> None:
    """Carry out so many writes, then forget the rest of the plan and everything else."""
    for _ in range(200):
        run.operator.plan()
        while run.operator.pending:
            if count == 0:
                run.operator.restart()
                return
            run.operator.write()
            count -= 1
        for name in run.world.nodes:
            run.world.run_rebooter(name)
            run.world.run_agents(name)
        run.world.seconds += 2


def test_two_operators_exceed_no_limit():
    """Scenario 4: the old leader goes on with what it saw."""
    run = Run(4, maxParallelUpgrades=1).want(SECOND)
    other = Operator(run.world)
    for _ in range(120):
        other.plan()
        run.operator.plan()
        run.operator.write_all()
        other.write_all()
        run.look()
        for name in run.world.nodes:
            run.world.run_rebooter(name)
            run.world.run_agents(name)
        run.world.seconds += 2
    assert run.versions() == [SECOND] * 4
    assert run.out_at_once == 1
    assert len(run.world.executed) == 4


def test_a_budget_that_never_allows_holds_up_one_node_and_no_other():
    """Scenario 5, D11."""
    run = Run(5).want(SECOND)
    run.world.hosts["a3"].pods = {NEVER.uid: NEVER}
    run.until(lambda: run.versions().count(SECOND) == 4)
    run.until(lambda: "drain" in run.record("a3").tried)
    assert not run.is_out("a3")
    assert run.label("a3") == "upgrade-required"
    assert "never-0" in run.record("a3").tried["drain"].message
    assert run.status().failed == 0
    run.world.hosts["a3"].pods.clear()
    run.world.seconds += 4000
    run.settle()
    run.is_clean()


@pytest.mark.parametrize(("allowed", "done"), [(1, 3), (0, 0)])
def test_a_failed_node_stops_the_others_only_when_the_policy_says_so(allowed, done):
    """U01"""
    run = Run(4, maxFailures=allowed).want(SECOND)
    _fails_to_boot(run, "a1")
    run.settle(without="a1")
    assert run.versions().count(SECOND) == done
    assert run.label("a1") == "upgrade-failed"
    assert slots_of(run.world).holders == ()
    status = run.status()
    assert status.failed == 1
    if allowed == 0:
        assert status.blocked_by[0].startswith("MaxFailures: 3 nodes (first: a2)")


def _fails_to_boot(run: Run, name: str) -> None:
    """Its reboot is authorised, the node goes down and does not come back."""
    run.until(lambda: run.label(name) == "node-reboot-required", without=name)
    run.world.go_down(name)
    run.round(without=name)
    run.world.seconds += 3600
    run.operator = Operator(run.world)
    run.operator.plan()
    run.world.seconds += 3600
    run.until(lambda: run.label(name) == "upgrade-failed", without=name)


def test_while_a_slow_node_boots_no_other_starts():
    """Scenario 12, D10."""
    run = Run(3).want(SECOND)
    run.until(lambda: run.label("a1") == "node-reboot-required", without="a1")
    run.world.go_down("a1")
    for _ in range(50):
        run.round(without="a1")
        run.world.seconds += 45
    assert run.label("a1") == "node-reboot-required"
    assert not run.is_out("a2")
    run.world.hosts["a1"].executed.append(run.record("a1").attempt.id)
    run.world.reboot("a1", attempt=run.record("a1").attempt)
    run.settle()
    assert run.versions() == [SECOND] * 3
    run.is_clean()


def test_a_node_that_is_deleted_frees_its_slot_at_once():
    """L04"""
    run = Run(2).want(SECOND)
    run.until(lambda: run.label("a1") == "node-reboot-required", without="a1")
    del run.world.nodes["a1"], run.world.hosts["a1"]
    run.operator.plan()
    run.operator.write_all()
    assert all(holder.node != "a1" for holder in slots_of(run.world).holders)


def test_a_node_that_is_created_anew_under_its_name_starts_from_nothing():
    run = Run(2).want(SECOND)
    run.until(lambda: run.label("a1") == "node-reboot-required", without="a1")
    run.world.make_anew("a1")
    run.settle()
    assert run.versions() == [SECOND] * 2
    run.is_clean()


@pytest.mark.parametrize("state", ["upgrade-required", "cordon-required", "node-reboot-required", "uncordon-required"])
def test_the_spec_may_change_three_times_in_any_state(state):
    """Scenario 8: A, B, C, A; nodes that never loaded B or C are not rebooted."""
    run = Run(3, maxParallelUpgrades=2).want(SECOND)
    run.until(lambda: run.label("a1") == state)
    loaded = {name for name, host in run.world.hosts.items() if host.active != FIRST}
    run.want("25.7").round(without="a1")
    run.want(FIRST)
    run.settle()
    assert run.versions() == [FIRST] * 3
    assert {name for name, _ in run.world.executed} <= loaded
    run.is_clean()


@pytest.mark.parametrize("state", ["upgrade-required", "cordon-required", "node-reboot-required", "uncordon-required"])
def test_an_admins_uncordon_and_cordon_is_kept_in_any_state(state):
    """Scenario 9, D01."""
    run = Run(2).want(SECOND)
    run.until(lambda: run.label("a1") == state)
    run.world.edit("a1", unschedulable=False)
    run.operator.plan()
    run.operator.write_all()
    run.world.edit("a1", unschedulable=True)
    run.settle()
    assert run.is_out("a1")
    assert names.CORDON_MARK not in run.world.nodes["a1"].annotations


def test_a_foreign_cordon_before_the_start_is_left_alone_and_told():
    """D02"""
    run = Run(3)
    run.world.edit("a1", unschedulable=True)
    run.want(SECOND).settle()
    assert run.versions() == [FIRST, SECOND, SECOND]
    assert run.is_out("a1")
    assert run.status().skipped == 1
    assert run.status().blocked_by[0].startswith("CordonedByOthers: a1")


def test_a_driver_that_does_not_validate_goes_back_and_pauses_the_rollout():
    run = Run(4, maxFailures=0)
    run.world.bad.add(SECOND)
    run.want(SECOND).settle()
    assert run.versions() == [FIRST] * 4
    assert run.record("a1").ended.outcome == Reason.RolledBack
    assert run.out_at_once == 1
    assert [name for name, _ in run.world.executed] == ["a1", "a1"]
    run.is_clean(but=("a1", "a2", "a3", "a4"))
    assert not any(run.is_out(name) for name in run.world.nodes)


def test_approved_nodes_go_first_in_the_order_of_their_approval():
    run = Run(4, autoUpgrade=False).want(SECOND)
    run.until(lambda: all(run.record(name).attempt is not None for name in run.world.nodes))
    assert not any(run.is_out(name) for name in run.world.nodes)
    assert slots_of(run.world).holders == ()
    order = []
    for name in ("a3", "a1", "a4"):
        run.world.edit(name, annotations={names.APPROVE_REBOOT: "true"})
        run.operator.plan()
        run.operator.write_all()
        run.world.seconds += 2
    for _ in range(60):
        run.round()
        order += [name for name in run.world.nodes if run.is_out(name) and name not in order]
    assert order == ["a3", "a1", "a4"]
    assert run.versions() == [SECOND, FIRST, SECOND, SECOND]


def test_waiting_for_approval_costs_no_slot_and_no_capacity():
    run = Run(3, autoUpgrade=False).want(SECOND).settle()
    assert slots_of(run.world).holders == ()
    assert run.status().staged == 3
    assert all(node.labels[names.REBOOT_REQUIRED] == "true" for node in run.world.nodes.values())
    assert {found.reason for found in run.operator.steps.values()} == {Reason.WaitsForApproval}


def test_only_the_next_nodes_are_staged():
    run = Run(12, maxParallelUpgrades=1).want(SECOND)
    for host in run.world.hosts.values():
        host.cannot_stage = True
    for _ in range(3):
        run.operator.plan()
        run.operator.write_all()
    swapped = [name for name, host in run.world.hosts.items() if host.driver_pod is None]
    assert swapped == ["a1", "a10"], "twice the slots, in the order of their names"


def test_a_node_that_cannot_be_staged_gives_its_place_to_the_next():
    run = Run(4).want(SECOND)
    run.world.hosts["a1"].cannot_stage = True
    run.until(lambda: run.versions().count(SECOND) == 3)
    assert run.label("a1") == "upgrade-required"
    assert not run.is_out("a1")
    assert run.status().failed == 0
    assert run.operator.steps["a1"].reason == Reason.StageFailed
    run.world.hosts["a1"].cannot_stage = False
    run.world.seconds += 400
    run.settle()
    run.is_clean()


def test_nodes_approved_in_advance_are_staged_first():
    run = Run(12, autoUpgrade=False)
    for name in ("a7", "a9"):
        run.world.edit(name, annotations={names.APPROVE_REBOOT: "true"})
    run.want(SECOND)
    for _ in range(2):
        run.operator.plan()
        run.operator.write_all()
    assert [name for name, host in run.world.hosts.items() if host.driver_pod is None] == ["a7", "a9"]


def test_canaries_go_first_and_are_soaked():
    run = Run(4, maxParallelUpgrades=4, canary={"nodes": 1, "soakSeconds": 600}).want(SECOND)
    run.until(lambda: run.label("a1") == "upgrade-done")
    since = run.world.seconds
    run.until(lambda: any(run.is_out(name) for name in ("a2", "a3", "a4")))
    assert run.world.seconds - since >= 600
    run.settle()
    run.is_clean()


def test_a_canary_that_fails_keeps_its_pool_from_starting():
    run = Run(3, maxFailures=5, canary={"nodes": 1, "soakSeconds": 0})
    run.world.bad.add(SECOND)
    run.want(SECOND).settle()
    assert [name for name, _ in run.world.executed] == ["a1", "a1"]
    assert run.status().blocked_by == ("WaitsForCanary: 2 nodes (first: a2): canary a1 is not through yet (failed)",)


def test_a_node_that_is_down_for_another_cause_counts():
    run = Run(4, maxUnavailable="25%", maxParallelUpgrades=4)
    run.world.go_down("a4")
    run.want(SECOND).settle(without="a4")
    assert run.versions() == [FIRST] * 4
    assert run.out_at_once == 0
    assert run.operator.steps["a1"].reason == Reason.WaitsForSlot


def test_a_kured_reboot_in_the_middle_costs_one_more_reboot_and_no_approval():
    """Scenario 14"""
    run = Run(1, autoUpgrade=False).want(SECOND)
    run.until(lambda: run.record("a1").attempt is not None)
    run.world.edit("a1", annotations={names.APPROVE_REBOOT: "true"})
    run.until(lambda: run.label("a1") == "node-reboot-required", without="a1")
    run.world.reboot("a1")
    run.settle()
    assert run.versions() == [SECOND]
    assert len(run.world.executed) == 1
    run.is_clean()


# --- recoveries


def test_a_sick_node_is_cured_by_one_reboot():
    run = Run(3, heal={"autoRecover": True, "minUptimeSecond": 0})
    run.world.hosts["a2"].is_sick = True
    run.settle()
    assert [name for name, _ in run.world.executed] == ["a2"]
    assert slots_of(run.world).holders == ()
    assert not run.is_out("a2")
    assert run.record("a2").recoveries, "it is remembered as long as it counts"
    run.world.seconds += 90_000
    run.settle()
    run.is_clean()


def test_a_node_that_reboots_do_not_cure_is_left_after_its_attempts():
    """Scenario 20"""
    run = Run(3, heal={"autoRecover": True, "minUptimeSecond": 0})
    run.world.hosts["a2"].is_sick = run.world.hosts["a2"].is_incurable = True
    run.settle()
    assert [name for name, _ in run.world.executed] == ["a2", "a2"]
    assert run.is_out("a2")
    assert run.record("a2").ended.outcome == Reason.ColdRebootNeeded
    assert slots_of(run.world).holders == ()


def test_a_storm_of_false_alarms_reboots_nobody():
    """Scenario 19"""
    run = Run(5, heal={"autoRecover": True, "minUptimeSecond": 0, "maxUnhealthy": "40%"})
    for name in ("a1", "a2", "a3"):
        run.world.hosts[name].is_sick = True
    run.settle()
    assert run.world.executed == []
    assert not any(run.is_out(name) for name in run.world.nodes)


def test_one_reboot_serves_upgrade_and_recovery():
    """Scenario 18, U30: and the approval is still used for what it was given."""
    run = Run(1, autoUpgrade=False, heal={"autoRecover": True, "minUptimeSecond": 0}).want(SECOND)
    run.until(lambda: run.record("a1").attempt is not None)
    run.world.edit("a1", annotations={names.APPROVE_REBOOT: "true"})
    run.until(lambda: run.label("a1") == "cordon-required")
    run.world.hosts["a1"].is_sick = True
    run.settle()
    assert len(run.world.executed) == 1
    assert run.versions() == [SECOND]


# --- modes


def _facts(run: Run, **changes):
    return msgspec.structs.replace(run.operator.facts(), **changes)


def test_mode_plan_writes_nothing_and_tells_what_it_would_do():
    run = Run(3).want(SECOND)
    halted = rollout.halted(is_paused=False, is_plan_only=True, is_rejected=False)
    life = Lifecycle()
    plan = life.plan(run.operator.views(), (), _facts(run, halted=halted, is_plan_only=True))
    assert all(found.patch is None and not found.pods for found in plan.steps.values())
    assert (plan.swaps, plan.slots) == ((), None)
    assert plan.paused == halted
    assert life.status(SECOND, UpgradeStatus(), run.world.now).waiting == 3


@pytest.mark.parametrize("plan_only", [True, False], ids=["Plan", "Paused"])
def test_in_every_mode_what_is_on_its_way_is_finished(plan_only):
    run = Run(3).want(SECOND)
    run.until(lambda: run.label("a1") == "cordon-required")
    halted = rollout.halted(is_paused=not plan_only, is_plan_only=plan_only, is_rejected=False)
    run.operator.halt(halted, is_plan_only=plan_only)
    run.settle()
    assert run.versions() == [SECOND, FIRST, FIRST]
    assert run.label("a1") == ""
    assert not any(run.is_out(name) for name in run.world.nodes)


def test_a_plan_from_nothing_is_the_plan_of_one_that_saw_everything():
    run = Run(4, maxParallelUpgrades=2).want(SECOND)
    for _ in range(25):
        run.round()
        facts = run.operator.facts()
        views = run.operator.views()
        known = run.operator.lifecycle.plan(views, (), facts)
        fresh = Lifecycle().plan(views, (), facts)
        assert known.slots == fresh.slots
        assert known.swaps == fresh.swaps
        assert {name: found for name, found in known.steps.items() if name in views} == fresh.steps


def test_a_slots_object_that_cannot_be_read_is_written_anew_from_the_nodes():
    run = Run(2).want(SECOND)
    run.until(lambda: run.label("a1") == "node-reboot-required", without="a1")
    run.world.lease["metadata"]["annotations"] = {"npu-operator.alauda.io/slot-holders": "{"}
    run.round(without="a1")
    (holder,) = slots_of(run.world).holders
    assert (holder.node, holder.purpose, holder.attempt) == ("a1", Purpose.UPGRADE, run.record("a1").attempt.id)


def test_no_second_write_of_the_slots_before_the_first_came_back():
    run = Run(2).want(SECOND)
    run.until(lambda: run.record("a1").attempt is not None, without="a1")
    views = run.operator.views()
    ready = Lifecycle()
    ready.plan(views, (), run.operator.facts())
    assert Lifecycle().plan(views, (), run.operator.facts()).slots is not None
    pending = _facts(run, is_slots_write_pending=True)
    assert Lifecycle().plan(views, (), pending).slots is None


def test_runtimes_are_restarted_one_after_the_other():
    run = Run(4, maxParallelUpgrades=4)
    for host in run.world.hosts.values():
        host.wants_runtime = True
    run.settle()
    assert all(host.runtime_done for host in run.world.hosts.values())
    assert run.world.executed == []
    run.is_clean()


def test_a_world_refuses_writes_from_an_old_picture():
    run = Run(1).want(SECOND)
    run.operator.plan()
    run.world.edit("a1", labels={"x": "y"})
    with pytest.raises(Conflict):
        run.operator.pending[0]()
    assert run.record("a1").state is not S.REQUIRED
