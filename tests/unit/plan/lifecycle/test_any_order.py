"""Whatever happens in whatever order, with two operators that see the world late and die at any moment: what was
promised holds at every step, and when the troubles end, the fleet settles and nothing of ours is left.
"""

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from npu_operator.model import names
from npu_operator.model.names import UpgradeState
from npu_operator.model.policies import Canary
from npu_operator.plan.lifecycle import record as records
from npu_operator.plan.lifecycle.view import PodView
from tests.unit.plan.lifecycle.nodes import policy, recovery_policy
from tests.unit.plan.lifecycle.world import FIRST, Operator, World, slots_of

S = UpgradeState
NODES = [f"a{number}" for number in range(1, 5)]
a_node = st.sampled_from(NODES)
operators = st.sampled_from([0, 1])
versions = st.sampled_from([FIRST, "25.5", "25.7"])
WRONG_LABELS = [S.DRAIN.value, S.DONE.value, "paused-for-driver-upgrade", S.FAILED.value, S.REQUIRED.value]


class Fleet(RuleBasedStateMachine):
    """Four nodes, two operators, one admin with many ideas."""

    @initialize(
        parallel=st.sampled_from([1, 2, 0]),
        unavailable=st.sampled_from(["25%", "50%"]),
        auto=st.booleans(),
        heal=st.booleans(),
        force=st.booleans(),
        rollback=st.booleans(),
        canaries=st.sampled_from([0, 1]),
    )
    def begin(
        self, parallel: int, unavailable: str, auto: bool, heal: bool, force: bool, rollback: bool, canaries: int
    ) -> None:
        upgrades = policy(
            autoUpgrade=auto,
            maxParallelUpgrades=parallel,
            maxUnavailable=unavailable,
            rollback=rollback,
            podDeletion={"force": force},
            canary={"nodes": canaries, "soakSeconds": 60 * canaries},
        )
        self.world = World(len(NODES), upgrades, recovery_policy(autoRecover=heal, maxUnhealthy="50%"))
        self.operators = [Operator(self.world), Operator(self.world)]
        self.serial = 0

    # --- operators

    @rule(which=operators)
    def an_operator_looks_and_plans(self, which: int) -> None:
        self.operators[which].plan()

    @rule(which=operators, count=st.integers(1, 3))
    def an_operator_writes(self, which: int, count: int) -> None:
        for _ in range(count):
            self.operators[which].write()

    @rule(which=operators, rounds=st.integers(1, 4))
    def an_operator_works_in_peace(self, which: int, rounds: int) -> None:
        for _ in range(rounds):
            self.operators[which].plan()
            self.operators[which].write_all()

    @rule(which=operators, rounds=st.integers(1, 8))
    def things_move_on(self, which: int, rounds: int) -> None:
        for _ in range(rounds):
            self.operators[which].plan()
            self.operators[which].write_all()
            self.everything_on_the_nodes_works()
            self.world.seconds += 2

    @rule(which=operators)
    def an_operator_dies(self, which: int) -> None:
        self.operators[which].restart()

    # --- nodes

    @rule(name=a_node)
    def a_rebooter_looks(self, name: str) -> None:
        self.world.run_rebooter(name)

    @rule(name=a_node)
    def agents_work(self, name: str) -> None:
        self.world.run_agents(name)

    @rule()
    def nodes_work(self) -> None:
        self.everything_on_the_nodes_works()

    @rule(name=a_node)
    def somebody_else_reboots_it(self, name: str) -> None:
        self.world.reboot(name)

    @rule(name=a_node)
    def a_node_goes_down(self, name: str) -> None:
        self.world.go_down(name)

    @rule(name=a_node)
    def a_node_is_made_anew(self, name: str) -> None:
        self.world.make_anew(name)

    @rule(name=a_node, fails=st.booleans())
    def a_disk_is_full_or_not(self, name: str, fails: bool) -> None:
        self.world.hosts[name].cannot_stage = fails

    @rule(name=a_node)
    def a_runtime_wants_a_restart(self, name: str) -> None:
        self.world.hosts[name].wants_runtime = True

    @rule(name=a_node, incurable=st.booleans())
    def a_chip_gets_sick(self, name: str, incurable: bool) -> None:
        self.world.hosts[name].is_sick = True
        self.world.hosts[name].is_incurable = incurable

    @rule(name=a_node)
    def a_chip_heals(self, name: str) -> None:
        self.world.hosts[name].is_sick = False

    @rule(name=a_node, holds_npu=st.booleans(), never=st.booleans(), bare=st.booleans())
    def a_pod_starts(self, name: str, holds_npu: bool, never: bool, bare: bool) -> None:
        self.serial += 1
        title = f"{'never' if never else 'pod'}-{self.serial}"
        pod = PodView(namespace="ml", name=title, uid=title, holds_npu=holds_npu, is_bare=bare)
        self.world.add_pod(name, pod)

    @rule(name=a_node)
    def the_pods_end(self, name: str) -> None:
        self.world.hosts[name].pods.clear()

    @rule(seconds=st.sampled_from([1, 5, 12, 60, 400, 4000]))
    def time_passes(self, seconds: int) -> None:
        self.world.seconds += seconds

    # --- the admin

    @rule(version=versions)
    def another_version_is_wanted(self, version: str) -> None:
        self.world.wanted = version
        for name, text in list(self.world.approved.items()):
            if text == "true" and self._has_waiting_attempt(name):
                del self.world.approved[name]

    @rule(version=versions, is_bad=st.booleans())
    def a_version_does_not_validate(self, version: str, is_bad: bool) -> None:
        if version != FIRST:
            (self.world.bad.add if is_bad else self.world.bad.discard)(version)

    @rule(name=a_node)
    def an_admin_cordons(self, name: str) -> None:
        node = self.world.nodes[name]
        if not node.unschedulable and names.CORDON_MARK not in node.annotations:
            self.world.edit(name, unschedulable=True)
            self.world.hosts[name].admin_cordon = True

    @rule(name=a_node)
    def an_admin_uncordons(self, name: str) -> None:
        if self.world.nodes[name].unschedulable:
            self.world.edit(name, unschedulable=False)
            self.world.hosts[name].admin_cordon = False

    @rule(name=a_node, text=st.sampled_from(["true", "recovery", "25.5", "25.7", "attempt", "nonsense"]))
    def somebody_approves(self, name: str, text: str) -> None:
        attempt = records.read(self.world.nodes[name]).record.attempt
        if text == "attempt":
            text = attempt.id if attempt is not None else "none"
        self.world.edit(name, annotations={names.APPROVE_REBOOT: text})
        self.world.approved[name] = text

    @rule(name=a_node)
    def somebody_removes_the_label(self, name: str) -> None:
        self.world.edit(name, labels={names.UPGRADE_STATE: None})

    @rule(name=a_node, label=st.sampled_from(WRONG_LABELS))
    def somebody_edits_the_label(self, name: str, label: str) -> None:
        self.world.edit(name, labels={names.UPGRADE_STATE: label})

    @rule(name=a_node)
    def somebody_breaks_the_record(self, name: str) -> None:
        if names.ATTEMPT in self.world.nodes[name].annotations:
            self.world.edit(name, annotations={names.ATTEMPT: '{"attempt": 7'})
            self.world.approved.pop(name, None)

    def everything_on_the_nodes_works(self) -> None:
        for name in NODES:
            self.world.run_rebooter(name)
            self.world.run_agents(name)

    # --- what holds

    @invariant()
    @precondition(lambda self: hasattr(self, "world"))
    def promises_hold(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.settle()

    def settle(self) -> None:
        """No more troubles: one operator, patient hosts, no limits that need a person."""
        world = self.world
        world.policy = msgspec.structs.replace(
            world.policy, auto_upgrade=True, max_failures=100, max_unavailable="100%", canary=Canary()
        )
        for name, host in world.hosts.items():
            host.pods.clear()
            host.is_sick = host.cannot_stage = False
            if not host.is_up:
                world.reboot(name)
        self.operators[1].restart()
        last = self.operators[0]
        quiet = 0
        for _ in range(400):
            last.plan()
            wrote = world.writes
            last.write_all()
            for name in NODES:
                world.run_rebooter(name)
                world.run_agents(name)
            world.check()
            quiet = quiet + 1 if world.writes == wrote else 0
            world.seconds += 5 if quiet < 4 else 90_000
            if quiet == 7:
                break
        else:
            raise AssertionError(f"the fleet does not settle: { ({n: s.message for n, s in last.steps.items()}) }")
        self.nothing_is_left()

    def nothing_is_left(self) -> None:
        world = self.world
        assert not self.operators[0].plan(), "an idle fleet is written to"
        assert not slots_of(world).holders, "a slot is still held"
        for name, node in world.nodes.items():
            record = records.read(node).record
            waits_for_people = record.state is S.REQUIRED and any(one.unschedulable for one in world.nodes.values())
            assert record.state in (None, S.FAILED) or waits_for_people, f"{name} ended as {record.state}"
            if record.state is not S.FAILED:
                assert names.CORDON_MARK not in node.annotations, f"{name} keeps our mark"
                assert node.unschedulable is world.hosts[name].admin_cordon, f"{name}: whose cordon is that?"
            assert names.REBOOT_IN_PROGRESS not in node.annotations
            assert names.PRE_REBOOT_BOOT_ID not in node.annotations

    def _has_waiting_attempt(self, name: str) -> bool:
        return records.read(self.world.nodes[name]).record.attempt is not None


Fleet.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestFleet = Fleet.TestCase
