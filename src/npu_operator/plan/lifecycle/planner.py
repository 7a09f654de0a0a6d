"""The door to the life cycle: changed nodes in, one step for each out, and what concerns all of them.

`Lifecycle` keeps what it knows of nodes between two calls; it gives the same answer when it starts from nothing. How to
carry an answer out: slots and node patches are guarded, so on a conflict drop them and plan anew; the pods' writes and
the notes of a step follow only once its patch was accepted. Then a crash between any two writes, or a second operator,
costs a repetition and nothing else.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from itertools import islice

import msgspec

from npu_operator.model import names
from npu_operator.model.fields import Stamp
from npu_operator.model.names import Purpose
from npu_operator.model.policies import RecoveryPolicy, UpgradePolicy
from npu_operator.model.status import UpgradeStatus
from npu_operator.plan.lifecycle import gates, recovery, rollout, slots, staging, window
from npu_operator.plan.lifecycle.book import Book, Brief, Kind, brief_of
from npu_operator.plan.lifecycle.effects import No, Step, SwapDriverPod
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.record import new_id
from npu_operator.plan.lifecycle.slots import Budget, Holder, Slots, WriteSlots
from npu_operator.plan.lifecycle.step import step
from npu_operator.plan.lifecycle.view import NodeView


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all nodes at this moment."""

    namespace: str
    policy: UpgradePolicy = UpgradePolicy()
    recovery: RecoveryPolicy = RecoveryPolicy()
    halted: No | None = None
    """See `rollout.halted`."""
    is_plan_only: bool = False
    """Mode Plan: nothing is written but for nodes that are on their way."""
    now: Stamp
    clock: datetime
    """Server time, aware; for windows."""
    zones: Mapping[str, tzinfo] = {}
    """By name: the time zones that the policy's windows name, as far as they exist."""
    slots: Slots = Slots()
    is_slots_write_pending: bool = False
    """Our last write of the slots has not come back by the watch: no other one is made before."""
    unborne_s: Mapping[str, float] = {}
    """By `uid/attempt`: for how long a holder was among the unborne ones (`Plan.unborne`) without a break."""
    healthy_before: int = 0
    """Managed nodes that were healthy an hour ago (as long as the operator runs, if that is less)."""
    control_plane: int = 0
    control_plane_ready: frozenset[str] = frozenset()


class Plan(msgspec.Struct, kw_only=True):
    """What to do about upgrades and recoveries."""

    steps: dict[str, Step] = {}
    """One for each node that was looked at: those that changed, and those that wait when what they wait for changed."""
    swaps: tuple[SwapDriverPod, ...] = ()
    """Driver pods to be replaced so that the new driver is staged."""
    slots: WriteSlots | None = None
    unborne: tuple[str, ...] = ()
    """Holders, as `uid/attempt`, that their Nodes do not bear out; somebody has to count the time."""
    mixed_super_pods: Mapping[str, tuple[str, ...]] = {}
    paused: No | None = None
    """Why no further node starts, for the condition UpgradePaused."""
    breaker: No | None = None
    look_again_s: float | None = None


class Lifecycle:
    """Plans for one operator process."""

    def __init__(self) -> None:
        self.book = Book()
        self._views: dict[str, NodeView] = {}
        """Of nodes that wait, so that they can be asked again when the fleet changes."""
        self.objections: dict[str, No] = {}
        """Of nodes that wait for their turn: what keeps them, by name."""
        self._startable: set[str] = set()
        """Waiting nodes that lack nothing but a slot."""
        self._fleet: Fleet | None = None

    def plan(self, changed: Mapping[str, NodeView], gone: Iterable[str], facts: Facts) -> Plan:
        """Plan for nodes that changed, and forget those that are gone."""
        for name in gone:
            self._forget(name)
        super_pods = {name: _super_pod(view) for name, view in changed.items()}
        for name, view in changed.items():
            self.book.put(brief_of(view, facts.policy.order, super_pods[name]))
            self._views[name] = view
        fleet = self._fleet_of(facts)
        asked = set(changed) if fleet == self._fleet else set(changed) | self._views.keys()
        self._fleet = fleet
        plan = Plan(breaker=fleet.breaker, paused=facts.halted or fleet.failures)
        for name in sorted(asked):
            plan.steps[name] = self._step(name, fleet, facts)
        nothing_new = facts.halted is not None
        plan.swaps = () if nothing_new else tuple(self._swaps(fleet, facts))
        self._plan_slots(plan, facts)
        plan.mixed_super_pods = self.book.mixed_super_pods()
        plan.look_again_s = _soonest(fleet, facts)
        return plan

    def status(self, target: str, old: UpgradeStatus, now: Stamp) -> UpgradeStatus:
        """`status.upgrade` after the last plan."""
        waiting = {
            name: no for name, no in self.objections.items() if self.book[name].kind in rollout.WAITS_FOR_SOMETHING
        }
        return rollout.status(self.book, target, waiting, old, now)

    def _forget(self, name: str) -> None:
        self.book.drop(name)
        self._views.pop(name, None)
        self.objections.pop(name, None)
        self._startable.discard(name)

    def _fleet_of(self, facts: Facts) -> Fleet:
        policy, book = facts.policy, self.book
        canaries: dict[str, No] = {}
        nodes: set[str] = set()
        if policy.canary.nodes:
            for pool in book.sizes:
                nodes |= set(book.canaries(pool, policy.canary.nodes))
                no = book.canary_objection(pool, policy)
                if no is not None:
                    canaries[pool] = no
        return Fleet(
            halted=facts.halted,
            window=window.objection(policy.window, facts.clock, facts.zones),
            failures=rollout.too_many_failed(book, policy.max_failures),
            breaker=recovery.breaker(len(book.sick), facts.healthy_before, facts.recovery),
            canaries=canaries,
            canary_nodes=frozenset(nodes),
            is_all_staged=not book.kinds[Kind.WAITING],
        )

    def _step(self, name: str, fleet: Fleet, facts: Facts) -> Step:
        view = msgspec.structs.replace(self._views[name], now=facts.now)
        if name in fleet.canary_nodes:
            view = msgspec.structs.replace(view, soak_s=facts.policy.canary.soak_seconds)
        found = step(view, fleet)
        self.objections.pop(name, None)
        self._startable.discard(name)
        brief = self.book[name]
        if found.objection is not None:
            self.objections[name] = found.objection
        elif brief.waits_with_attempt and found.patch is None:
            self._startable.add(name)
        is_idle = view.record.is_empty and not view.label and found.patch is None and not brief.wants_runtime_restart
        if is_idle:
            del self._views[name]
        if facts.is_plan_only and not view.is_in_flight:
            return msgspec.structs.replace(found, patch=None, pods=(), notes=())
        return found

    def _swaps(self, fleet: Fleet, facts: Facts) -> Iterable[SwapDriverPod]:
        book = self.book
        ahead = sum(book[name].kind is Kind.STAGED for name in self._startable)
        free = staging.places(facts.policy, book.managed) - len(book.being_staged) - ahead
        if free <= 0:
            return
        ordered = sorted(book.in_order(book.stageable), key=lambda brief: not brief.is_approved_in_advance)
        may = (brief.name for brief in ordered if self._may_be_staged(brief.name, fleet))
        for name in islice(may, free):
            yield staging.swap(self._views[name])

    def _may_be_staged(self, name: str, fleet: Fleet) -> bool:
        return gates.first_of(gates.STAGING_GATES, self._views[name], fleet) is None

    def _plan_slots(self, plan: Plan, facts: Facts) -> None:
        book, there = self.book, facts.slots.holders
        kept = [holder for holder in there if not self._is_free(holder, facts)]
        plan.unborne = tuple(_key(holder) for holder in kept if not slots.is_borne_out(holder, self._standing(holder)))
        lost = [book[name] for name in sorted(book.started) if slots.is_lost(book[name].standing, there)]
        found_again = {brief.standing.uid: self._holder(brief, facts) for brief in lost}
        kept = [*(holder for holder in kept if holder.uid not in found_again), *found_again.values()]
        taken = [] if facts.is_plan_only else list(self._take(tuple(kept), facts))
        if facts.is_slots_write_pending or (tuple(kept) == there and not taken):
            return
        told = [f"{holder.node} gets one for attempt {holder.attempt}" for holder in taken]
        freed = len(there) + len(lost) - len(kept)
        why = "; ".join([*told, *([f"{freed} freed"] if freed else [])]) or "slots are written down again"
        plan.slots = slots.write(facts.slots, [*kept, *taken], namespace=facts.namespace, why=why)

    def _take(self, holders: tuple[Holder, ...], facts: Facts) -> Iterable[Holder]:
        """Who gets a slot now, in order."""
        budget = self._budget(holders, facts)
        have = {holder.uid for holder in holders}
        waiting = [(brief, brief.standing.purpose or Purpose.UPGRADE) for brief in self._candidates()]
        if facts.halted is None:
            waiting += [(self.book[name], Purpose.RUNTIME) for name in self.book.runtime]
        for brief, purpose in sorted(waiting, key=_rank):
            if slots.a_slot_is_free(budget, brief.standing) is not None:
                return
            if brief.standing.uid in have or budget.objection(brief.standing, purpose) is not None:
                continue
            standing = msgspec.structs.replace(brief.standing, purpose=purpose)
            budget = budget.with_taken(standing)
            yield self._holder(brief, facts, purpose)

    def _candidates(self) -> list[Brief]:
        return [self.book[name] for name in self._startable & self.book.waiting]

    def _budget(self, holders: tuple[Holder, ...], facts: Facts) -> Budget:
        book = self.book
        going = {holder.node for holder in holders if holder.purpose is not Purpose.RUNTIME and holder.node in book}
        down = frozenset(book.down | going)
        serving = book.sizes.copy()
        for name in down:
            serving[book[name].pool] -= book[name].kind is not Kind.OUTSIDE
        return Budget(
            policy=facts.policy,
            nodes=book.managed,
            holders=holders,
            down=down,
            serving_by_pool=serving,
            size_by_pool=book.sizes,
            control_plane=facts.control_plane,
            control_plane_ready=facts.control_plane_ready,
        )

    def _holder(self, brief: Brief, facts: Facts, purpose: Purpose | None = None) -> Holder:
        standing = brief.standing
        purpose = purpose or standing.purpose or Purpose.UPGRADE
        attempt = standing.rolls_back or standing.attempt
        if purpose is Purpose.RUNTIME and not attempt:
            attempt = new_id(self._views[brief.name].node, purpose)
        return Holder(node=brief.name, uid=standing.uid, attempt=attempt, purpose=purpose, since=facts.now)

    def _standing(self, holder: Holder) -> slots.Standing | None:
        brief = self.book.by_uid(holder.uid)
        return brief.standing if brief is not None else None

    def _is_free(self, holder: Holder, facts: Facts) -> bool:
        return slots.is_free(holder, self._standing(holder), unborne_s=facts.unborne_s.get(_key(holder), 0.0))


def _rank(candidate: tuple[Brief, Purpose]) -> tuple[object, ...]:
    """Restarts of runtimes first, which are short and bring chips up; then cures; then upgrades as approved."""
    brief, purpose = candidate
    if purpose is Purpose.RUNTIME:
        return (0, brief.standing.is_control_plane, "", brief.order)
    urgency = {Purpose.ROLLBACK: 1, Purpose.RECOVERY: 2}.get(purpose, 3)
    return (urgency, not brief.approved_at, brief.approved_at, brief.order)


def _key(holder: Holder) -> str:
    return f"{holder.uid}/{holder.attempt}"


def _super_pod(view: NodeView) -> str:
    found = view.found.super_pod if view.found is not None else ""
    node = view.node
    return found or node.labels.get(names.SUPER_POD_LABEL, "") or node.annotations.get(names.SUPER_POD_ANNOTATION, "")


def _soonest(fleet: Fleet, facts: Facts) -> float | None:
    waits = [fleet.window.in_s if fleet.window is not None else None]
    waits.append(window.closes_in_s(facts.policy.window, facts.clock, facts.zones))
    return min((wait for wait in waits if wait is not None), default=None)
