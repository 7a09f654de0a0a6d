"""One step of one node: walk the table as far as one patch goes."""

from typing import Final

import msgspec

from npu_operator.model.fields import Stamp
from npu_operator.model.names import UpgradeState
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import failure, gates, leftovers, recovery, stamps, waiting
from npu_operator.plan.lifecycle.effects import NOTHING, Act, No, NodeChange, Step, told
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.record import keys_of
from npu_operator.plan.lifecycle.table import DETOURS, ROW_OF, TABLE, Row
from npu_operator.plan.lifecycle.view import WITH_PODS, NodeView

S = UpgradeState
R = Reason
LONGEST_WALK: Final = 3 * len(TABLE)
"""States that one step may pass; a walk that is longer goes in circles, which would be our bug."""


def step(view: NodeView, fleet: Fleet) -> Step:
    """Decide the next step of one node. A state that is over is left even if it took too long."""
    if view.reading.is_newer:
        return Step(to=view.state, reason=R.Waiting, message=view.reading.problem, waits_for="the newer operator")
    walk = _Walk(view)
    for _ in range(LONGEST_WALK):
        detour = next((act for detour in DETOURS if (act := detour(walk.here, fleet)) is not None), None)
        if detour is not None:
            walk.leave_pods()
            walk.take(detour)
            continue
        row = ROW_OF[walk.here.state]
        is_new = walk.here.state is not view.state
        doing = row.do(walk.here, fleet)
        has_done = walk.take(doing)
        if row.over(walk.here, fleet) and not doing.change.unschedulable:  # a cordon is seen before it is believed
            if is_new and has_done:
                break
            walk.enter(row.then)
            continue
        act, goes_on = _late(row, walk.here)
        if act is None and not goes_on:
            break
        walk.leave_pods()
        if act is not None:
            walk.take(act)
        else:
            walk.enter(row.then)
    else:
        raise AssertionError(f"node {view.node.name} walks in circles at {walk.here.state}")
    return walk.step(fleet)


def _late(row: Row, view: NodeView) -> tuple[Act | None, bool]:
    """What a late node does, and whether it simply goes on."""
    limit_s = row.limit(view)
    if limit_s is None or view.seconds_in_state < limit_s:
        return None, False
    reason = row.late if isinstance(row.late, Reason) else row.late(view)
    act = row.ends(view, reason, f"it waited more than {limit_s} s for {row.waits_for}")
    return act, act is None


class _Walk:
    """One step in the making: the node as it will be, and what has to be written for it."""

    def __init__(self, view: NodeView) -> None:
        self._begun = view
        self.here = view
        self._total = NOTHING

    def take(self, act: Act | None) -> bool:
        """Add what an action wants; tells whether it changes anything."""
        if act is None or act == NOTHING:
            return False
        before, self.here = self.here, self.here.after(act)
        total = self._total
        waits = [wait for wait in (total.look_again_s, act.look_again_s) if wait is not None]
        self._total = Act(
            change=total.change.then(act.change),
            pods=total.pods + act.pods,
            notes=total.notes + act.notes,
            look_again_s=min(waits, default=None),
        )
        return bool(act.pods) or before.node != self.here.node

    def leave_pods(self) -> None:
        """What was to be done with pods is not done: the node turns off the way on which it would have been."""
        self._total = msgspec.structs.replace(self._total, pods=())

    def enter(self, state: UpgradeState | None) -> None:
        """Go on to the next state."""
        before = self.here.state
        record = self.here.record if state is not None else waiting.forgotten(self.here)
        self.take(Act(record=record.entered(state, self.here.now)))
        if state is not None:
            reason = R.UpgradeDone if state is S.DONE else R.StateOver
            self.take(Act(notes=(told(self.here.node, reason, f"{before or 'no upgrade'} → {state}"),)))

    def step(self, fleet: Fleet) -> Step:
        """Everything together."""
        begun, here = self._begun, self.here
        labels, annotations = keys_of(here.record)
        change = self._total.change.then(NodeChange(labels=labels, annotations=annotations))
        reason, message, until, again_s = _why(here, fleet)
        moved = f"{begun.state or 'no upgrade'} → {here.state or 'no upgrade'}: {message}"
        waits = [wait for wait in (again_s, self._total.look_again_s) if wait is not None]
        no = gates.objection(here, fleet) if here.state is S.REQUIRED or here.attempt is not None else None
        return Step(
            to=here.state,
            reason=reason,
            message=message,
            waits_for=ROW_OF[here.state].waits_for,
            until=until,
            patch=change.patch(begun.node, moved if here.state is not begun.state else message),
            pods=self._total.pods,
            notes=self._total.notes,
            look_again_s=min(waits, default=None),
            needs_pods=here.state in WITH_PODS or here.holds_slot,
            objection=no if not here.is_started else None,
        )


def _why(view: NodeView, fleet: Fleet) -> tuple[Reason, str, Stamp, float | None]:
    """Why the node is where it is, until when at most, and in how many seconds to look again."""
    if not view.is_started:
        return _why_waiting(view, fleet)
    row = ROW_OF[view.state]
    limit_s = row.limit(view)
    until = stamps.after(view.record.since.get(view.state or "", ""), limit_s) if limit_s is not None else ""
    again_s = max(0.0, limit_s - view.seconds_in_state) if limit_s is not None else None
    pods = leftovers.of_state(view)
    told_pods = f": {leftovers.told(pods, view)}" if pods else ""
    reason = R.WaitsForJobs if view.state is S.JOBS else R.Waiting
    if any(pod.drain_requested and not pod.is_checkpoint_done and not pod.is_terminating for pod in pods):
        reason = R.WaitsForCheckpoint
    return reason, f"waits for {row.waits_for}{told_pods}", until, again_s


def _why_waiting(view: NodeView, fleet: Fleet) -> tuple[Reason, str, Stamp, float | None]:
    ended, sick = view.record.ended, recovery.why_not(view) if view.needs_recovery else None
    if view.state is S.DONE:
        left_s = max(0.0, view.soak_s - view.seconds_in_state) or None
        return R.UpgradeDone, "the wanted driver works", "", left_s
    if view.state is S.REQUIRED or view.attempt is not None:
        no = gates.may_start(view, fleet) or No(R.StateOver, "it starts")
        return no.reason, no.message, no.until, no.in_s
    if ended is not None:
        return ended.outcome or ended.reason, failure.sentence(ended), "", None
    if sick is not None:
        return sick.reason, sick.message, "", None
    return R.InSync, "", "", None
