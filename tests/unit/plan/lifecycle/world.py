"""A fleet in memory, just real enough to hold the decisions to their promises.

Its Nodes and its slots object refuse writes that were made from an old version, as an API server does. Its hosts keep
the loader's pointers, reboot only for an authorised attempt and once per id, and boot what `next` says, or else what is
active. Operators look, plan and write in separate steps, so that anything may happen in between: another operator, a
reboot, a hand on a label, their own death.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from npu_operator.components.driver import WantedDriver
from npu_operator.model import names
from npu_operator.model.ctl import share
from npu_operator.model.metadata import Metadata
from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.node import Node
from npu_operator.model.npunode import (
    DriverFound,
    Found,
    ManagedBy,
    RebootReport,
    RecoveryRequest,
    RuntimeRestart,
    StagedVersion,
    StageState,
    Validation,
)
from npu_operator.model.policies import RecoveryPolicy, UpgradePolicy
from npu_operator.plan.lifecycle import record as records
from npu_operator.plan.lifecycle import slots, stamps
from npu_operator.plan.lifecycle.effects import AnnotatePod, DeletePod, Evict, No, PodWrite, Step
from npu_operator.plan.lifecycle.planner import Facts, Lifecycle
from npu_operator.plan.lifecycle.record import Phase, Target
from npu_operator.plan.lifecycle.slots import Slots, WriteSlots
from npu_operator.plan.lifecycle.view import STARTED, DriverPod, NodeView, PodView
from npu_operator.plan.writes import PatchNode

S = UpgradeState
FIRST = "25.3"
TRUST_S = 10.0
"""An operator that has not looked for so long has lost its lease and stops writing."""


class Conflict(Exception):
    """The write was made from an old version."""


@dataclass
class Host:
    """The truth about one node."""

    boots: int = 1
    active: str = FIRST
    good: str = FIRST
    trying: str = ""
    staged: set[str] = field(default_factory=lambda: {FIRST})
    executed: list[str] = field(default_factory=list)
    trial_lost: bool = False
    is_sick: bool = False
    is_incurable: bool = False
    is_up: bool = True
    reports: bool = True
    cannot_stage: bool = False
    wants_runtime: bool = False
    runtime_done: str = ""
    pods: dict[str, PodView] = field(default_factory=dict)
    driver_pod: DriverPod | None = None
    admin_cordon: bool = False
    """The cordon that an admin expects to be there in the end."""

    @property
    def boot(self) -> str:
        return f"boot-{self.boots}"


class World:
    """All of it."""

    def __init__(self, count: int, policy: UpgradePolicy, recovery: RecoveryPolicy) -> None:
        self.policy, self.recovery = policy, recovery
        self.wanted = FIRST
        self.bad: set[str] = set()
        """Versions that load and do not validate."""
        self.seconds = 0
        self.lease: dict[str, Any] | None = None
        self._version = 100
        self.hosts = {f"a{number}": Host() for number in range(1, count + 1)}
        self.nodes = {name: self._node(name) for name in self.hosts}
        for name in self.hosts:
            self._make_driver_pod(name)
        self.writes = 0
        self.executed: list[tuple[str, str]] = []
        self.broken: list[str] = []
        """Promises that were broken, one sentence each."""
        self.approved: dict[str, str] = {}
        """By node: the text of the approval that its annotation still has to hold, unless it was used."""

    # --- time

    @property
    def clock(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC) + timedelta(seconds=self.seconds)

    @property
    def now(self) -> str:
        return self.clock.strftime(stamps.FORMAT)

    # --- the API server

    def patch(self, patch: PatchNode) -> None:
        node = self.nodes[patch.node]
        if patch.body["metadata"]["resourceVersion"] != node.metadata.resource_version:
            raise Conflict
        before = records.read(node).record
        self._check_start(patch.node, before, patch)
        self._change(patch.node, patch.body)
        self._check_armed(patch.node)
        self._check_approval(patch.node)

    def write_slots(self, write: WriteSlots) -> None:
        there = (self.lease or {}).get("metadata", {}).get("resourceVersion", "")
        if write.body["metadata"].get("resourceVersion", "") != there:
            raise Conflict
        self.lease = {**write.body, "metadata": {**write.body["metadata"], "resourceVersion": self._next_version()}}
        self.writes += 1

    def edit(self, name: str, **changes: Any) -> None:
        """A hand on a Node: labels, annotations, unschedulable."""
        body: dict[str, Any] = {"metadata": {key: changes[key] for key in ("labels", "annotations") if key in changes}}
        if "unschedulable" in changes:
            body["spec"] = {"unschedulable": changes["unschedulable"]}
        self._change(name, body)
        self.writes -= 1

    def _change(self, name: str, body: dict[str, Any]) -> None:
        node = self.nodes[name]

        def merged(old: Any, new: dict[str, Any]) -> dict[str, Any]:
            return {key: value for key, value in {**old, **new}.items() if value is not None}

        metadata = body["metadata"]
        self.nodes[name] = msgspec.structs.replace(
            node,
            metadata=msgspec.structs.replace(
                node.metadata,
                labels=merged(node.labels, metadata.get("labels", {})),
                annotations=merged(node.annotations, metadata.get("annotations", {})),
                resource_version=self._next_version(),
            ),
            unschedulable=bool(body.get("spec", {}).get("unschedulable", node.unschedulable)),
        )
        self.writes += 1

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def _node(self, name: str) -> Node:
        return Node(
            metadata=Metadata(name=name, uid=f"uid-{name}-{self._version}", resource_version=self._next_version()),
            ready="True",
            boot_id=self.hosts[name].boot,
            kernel="6.6",
        )

    # --- nodes and their agents

    def reboot(self, name: str, *, attempt: records.Attempt | None = None) -> None:
        """Boot: what `next` says once, else what is active; an unconfirmed trial goes back."""
        host = self.hosts[name]
        host.boots += 1
        host.trial_lost = False
        if host.trying:
            host.active, host.trying, host.trial_lost = host.good, "", True
        if attempt is not None and attempt.target is not None and attempt.target.version in host.staged:
            host.active = attempt.target.version
            host.trying = "" if host.active == host.good else host.active
            host.trial_lost = False
        host.is_sick = host.is_sick and host.is_incurable
        host.is_up, host.reports = True, False
        host.pods = {uid: pod for uid, pod in host.pods.items() if not pod.is_terminating}
        node = msgspec.structs.replace(self.nodes[name], boot_id=host.boot, ready="True")
        self.nodes[name] = node
        self._change(name, {"metadata": {}})
        self.writes -= 1

    def run_rebooter(self, name: str) -> None:
        """Ask live, record, reboot; at most once per attempt id."""
        host, node = self.hosts[name], self.nodes[name]
        attempt = records.authorised(node)
        if attempt is None or attempt.id in host.executed or not host.is_up:
            return
        self._check_authority(name, attempt)
        host.executed.append(attempt.id)
        self.executed.append((name, attempt.id))
        forced = self.policy.pod_deletion.force or self.recovery.drain.force
        if any(pod.holds_npu for pod in host.pods.values()) and not forced and not self._is_force_approved(name):
            self.broken.append(f"{name} was rebooted under a pod with an NPU")
        self.reboot(name, attempt=attempt)

    def run_agents(self, name: str) -> None:
        """One round of the node's agents: report, stage, validate, let terminating pods go."""
        host = self.hosts[name]
        if not host.is_up:
            return
        host.reports = True
        pod = host.driver_pod
        if pod is None:
            self._make_driver_pod(name)
        elif not host.cannot_stage:
            host.staged.add(pod.wanted.version)
        attempt = records.read(self.nodes[name]).record.attempt
        if attempt is not None and attempt.purpose is Purpose.RUNTIME and host.runtime_done != attempt.id:
            host.runtime_done, host.wants_runtime = attempt.id, False
        if self._validates(host) and host.trying:
            host.good, host.trying = host.active, ""
        host.pods = {uid: one for uid, one in host.pods.items() if not one.is_terminating}

    def go_down(self, name: str) -> None:
        """The node is silent; only a reboot brings it back."""
        self.hosts[name].is_up = False
        self.nodes[name] = msgspec.structs.replace(self.nodes[name], ready="Unknown")
        self._change(name, {"metadata": {}})
        self.writes -= 1

    def make_anew(self, name: str) -> None:
        """The node is deleted, and another machine joins under its name."""
        self.hosts[name] = Host()
        self.nodes[name] = self._node(name)
        self._make_driver_pod(name)
        self.approved.pop(name, None)

    def add_pod(self, name: str, pod: PodView) -> None:
        """The scheduler puts a pod here, if it may."""
        node = self.nodes[name]
        if node.unschedulable or (pod.holds_npu and not self.in_service(name)):
            return
        self.hosts[name].pods[pod.uid] = pod

    def in_service(self, name: str) -> bool:
        host, node = self.hosts[name], self.nodes[name]
        label = node.labels.get(names.UPGRADE_STATE, "")
        if label in {state.value for state in STARTED - {S.UNCORDON}} or host.trying:
            return False
        return not (label == S.FAILED and names.CORDON_MARK in node.annotations)

    def _validates(self, host: Host) -> bool:
        return host.active not in self.bad

    def _make_driver_pod(self, name: str) -> None:
        self.hosts[name].driver_pod = DriverPod(
            namespace="npu-operator",
            name=f"npu-driver-{name}",
            uid=f"driver-{name}-{self._next_version()}",
            wanted=WantedDriver(self.wanted),
            created=self.now,
        )

    def carry_out(self, name: str, write: PodWrite) -> None:
        """Evictions, deletions, annotations and swaps, each of exactly the pod that was meant."""
        host = self.hosts.get(name)
        if host is None:
            return
        if isinstance(write, (Evict, DeletePod)):
            pod = host.pods.get(write.uid)
            if pod is None:
                return
            if isinstance(write, DeletePod):
                del host.pods[write.uid]
            elif "never" in pod.name:
                host.pods[write.uid] = msgspec.structs.replace(pod, blocked_by="its budget allows no disruption")
            else:
                host.pods[write.uid] = msgspec.structs.replace(pod, is_terminating=True)
        elif isinstance(write, AnnotatePod):
            pod = host.pods.get(write.uid)
            if pod is not None:
                asked = write.annotations[names.DRAIN_REQUESTED]
                host.pods[write.uid] = msgspec.structs.replace(pod, drain_requested=asked)
                self.writes += 1
        elif host.driver_pod is not None and host.driver_pod.uid == write.uid:
            host.driver_pod = None
            self.writes += 1

    # --- what an operator sees

    def view(self, name: str, entered: dict[str, int]) -> NodeView:
        """`entered`: since when, by this operator's own clock, a node has been in its state."""
        node, host = self.nodes[name], self.hosts[name]
        reading = records.read(node)
        state = reading.record.state
        held = tuple(one for one in slots.read(self.lease).holders if one.uid == node.metadata.uid)
        key = f"{name}/{state}/{reading.record.since.get(state or '', '')}"
        return NodeView(
            node=node,
            found=self._found(name) if host.reports and host.is_up else None,
            reading=reading,
            now=self.now,
            seconds_in_state=self.seconds - entered.setdefault(key, self.seconds),
            up_since="2026-11-29T00:00:00Z",
            wanted=Target(version=self.wanted, options=""),
            policy=self.policy,
            recovery=self.recovery,
            pods=tuple(host.pods.values()),
            driver_pod=host.driver_pod,
            held=held,
            offered=8,
            allocatable=8 if self.in_service(name) else 0,
            pool="pool",
        )

    def _found(self, name: str) -> Found:
        host = self.hosts[name]
        return Found(
            boot_id=host.boot,
            in_service=self.in_service(name),
            driver=DriverFound(
                version=host.active,
                loaded=True,
                managed_by=ManagedBy.OPERATOR,
                good_version=host.good,
                reason="TrialLost" if host.trial_lost else "",
            ),
            staged=self._staged(host),
            runtime_restart=RuntimeRestart(wanted=host.wants_runtime, done_attempt=host.runtime_done),
            validation=Validation(passed=self._validates(host), boot_id=host.boot, version=host.active),
            recovery=RecoveryRequest(needed=host.is_sick, reason="ToolWedged", message="npu-smi hangs"),
            reboot=RebootReport(attempt=host.executed[-1]) if host.executed else RebootReport(),
        )

    def _staged(self, host: Host) -> tuple[StagedVersion, ...]:
        there = [StagedVersion(version=version, kernel="6.6") for version in sorted(host.staged)]
        pod = host.driver_pod
        if host.cannot_stage and pod is not None and pod.wanted.version not in host.staged:
            failed = StagedVersion(version=pod.wanted.version, kernel="6.6", state=StageState.FAILED, reason="NoSpace")
            there.append(failed)
        return tuple(there)

    # --- promises

    def _check_start(self, name: str, before: records.Record, patch: PatchNode) -> None:
        after = patch.body["metadata"].get("labels", {}).get(names.UPGRADE_STATE)
        if before.state in STARTED or after not in STARTED or before.attempt is None or after == S.UNCORDON:
            return
        mine = (before.attempt.id, before.attempt.rolls_back)
        holders = slots.read(self.lease).holders
        uid = self.nodes[name].metadata.uid
        if not any(one.uid == uid and one.attempt in mine for one in holders):
            self.broken.append(f"{name} was started without a slot")

    def _check_authority(self, name: str, attempt: records.Attempt) -> None:
        record = records.read(self.nodes[name]).record
        allowed = {
            Purpose.UPGRADE: self.policy.auto_upgrade or record.approval is not None,
            Purpose.RECOVERY: self.recovery.auto_recover or record.recovery_approval is not None,
            Purpose.ROLLBACK: self.policy.auto_upgrade or record.approval is not None,
        }
        if not allowed[attempt.purpose]:
            self.broken.append(f"{name} was rebooted for {attempt.purpose} and nobody had approved it")

    def _check_armed(self, name: str) -> None:
        record = records.read(self.nodes[name]).record
        if (
            record.state is not S.REBOOT
            or record.attempt is None
            or record.attempt.boot_before != self.hosts[name].boot
        ):
            return
        forced = self.policy.pod_deletion.force or self.recovery.drain.force or self._is_force_approved(name)
        if any(pod.holds_npu for pod in self.hosts[name].pods.values()) and not forced:
            self.broken.append(f"{name} was armed over a pod with an NPU")
        if record.attempt.phase is not Phase.ARMED:
            self.broken.append(f"{name} waits for a reboot that nobody may execute")

    def _check_approval(self, name: str) -> None:
        """An approval goes from the annotation only into the record of the reboot that it was given for."""
        given = self.approved.get(name)
        node = self.nodes[name]
        if given is None or names.APPROVE_REBOOT in node.annotations:
            return
        del self.approved[name]
        record = records.read(node).record
        for_upgrade = record.approval is not None and record.approval.given == given
        for_cure = record.recovery_approval is not None and record.recovery_approval.given == given
        if not for_upgrade and not for_cure:
            self.broken.append(f"the approval {given} of {name} vanished")
        elif (given.startswith("recovery") and for_upgrade) or (given.startswith("25.") and for_cure):
            self.broken.append(f"the approval {given} of {name} was used for another purpose")
        elif given.startswith("25.") and (record.target is None or record.target.version != given):
            self.broken.append(f"the approval {given} of {name} was used for another version")

    def _is_force_approved(self, name: str) -> bool:
        approval = records.read(self.nodes[name]).record.recovery_approval
        return approval is not None and approval.is_force

    def check(self) -> None:
        """What holds at every moment."""
        holders = slots.read(self.lease).holders
        most = self.policy.max_parallel_upgrades
        if most and len(holders) > most:
            self.broken.append(f"{len(holders)} slots are held, {most} are allowed")
        restarts = [one.node for one in holders if one.purpose is Purpose.RUNTIME]
        if len(restarts) > 1:
            self.broken.append(f"the runtimes of {restarts} are restarted at once")
        out = [
            name
            for name, node in self.nodes.items()
            if (record := records.read(node).record).state in STARTED and record.attempt is not None
        ]
        if most and len(out) > most:
            self.broken.append(f"{out} are out of service, {most} may be")
        if len(out) > share(self.policy.max_unavailable, of=len(self.nodes)):
            self.broken.append(f"{out} are out of service, more than maxUnavailable")
        for name, host in self.hosts.items():
            if len(set(host.executed)) != len(host.executed):
                self.broken.append(f"{name} executed an attempt twice")
        assert not self.broken, self.broken


class Operator:
    """One operator process: what it saw, what it means to write, and how long things have been so by its own clock."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._halted: No | None = None
        self._is_plan_only = False
        self.restart()

    def restart(self) -> None:
        """It dies, and another process begins from nothing."""
        self.lifecycle = Lifecycle()
        self.pending: list[Callable[[], None]] = []
        self.looked_at = -1
        self._entered: dict[str, int] = {}
        self._unborne: dict[str, int] = {}
        self._known: set[str] = set()
        self.steps: dict[str, Step] = {}

    def halt(self, why: No | None, *, is_plan_only: bool) -> None:
        """The mode is Plan or Paused from now on."""
        self._halted, self._is_plan_only = why, is_plan_only

    def views(self) -> dict[str, NodeView]:
        """Every node, as this operator sees it now."""
        return {name: self.world.view(name, self._entered) for name in self.world.nodes}

    def facts(self) -> Facts:
        """What is the same for all nodes."""
        world = self.world
        return Facts(
            namespace="npu-operator",
            policy=world.policy,
            recovery=world.recovery,
            halted=self._halted,
            is_plan_only=self._is_plan_only,
            now=world.now,
            clock=world.clock,
            slots=slots.read(world.lease),
            unborne_s={key: float(world.seconds - since) for key, since in self._unborne.items()},
            healthy_before=len(world.nodes),
        )

    def plan(self) -> int:
        """Look at everything and decide; what was not written of the last plan is dropped. Returns the writes."""
        world = self.world
        self.looked_at = world.seconds
        views = self.views()
        gone, self._known = self._known - views.keys(), set(views)
        plan = self.lifecycle.plan(views, gone, self.facts())
        self._unborne = {key: self._unborne.get(key, world.seconds) for key in plan.unborne}
        self.steps = plan.steps
        self.pending = [self._stepper(name, step) for name, step in plan.steps.items() if step.patch or step.pods]
        if plan.slots is not None:
            write = plan.slots
            self.pending.append(lambda: world.write_slots(write))
        self.pending += [lambda swap=swap: world.carry_out(swap.node, swap) for swap in plan.swaps]
        return len(self.pending)

    def write(self) -> None:
        """Carry out one write, if this operator may still believe that it leads."""
        if self.world.seconds - self.looked_at > TRUST_S:
            self.pending.clear()
        if self.pending:
            try:
                self.pending.pop(0)()
            except Conflict:
                self.pending.clear()

    def write_all(self) -> None:
        while self.pending:
            self.write()

    def _stepper(self, name: str, step: Step) -> Callable[[], None]:
        def carry_out() -> None:
            if name not in self.world.nodes:
                return
            if step.patch is not None:
                self.world.patch(step.patch)
            for write in step.pods:
                self.world.carry_out(name, write)

        return carry_out


def slots_of(world: World) -> Slots:
    return slots.read(world.lease)
