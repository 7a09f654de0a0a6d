"""How a walk ends that did not go well: the node is given back, goes back to the last good driver, or fails for good.

A node on which nothing new was loaded goes back without a reboot. A rollback that needs one is an attempt of its own,
which keeps the slot and the approval of the one that failed. Source: product.md §4.8, 4.13, 4.14.
"""

import msgspec

from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import actions, leftovers, recovery
from npu_operator.plan.lifecycle.effects import Act, NodeChange, told
from npu_operator.plan.lifecycle.record import Attempt, Ended, Record, Target, Tried, new_id
from npu_operator.plan.lifecycle.view import BEFORE_BOOT, NodeView
from npu_operator.plan.lifecycle.waiting import good_of

S = UpgradeState
replace = msgspec.structs.replace
NO_ATTEMPT = Attempt(id="", purpose=Purpose.UPGRADE)
"""Of a node that failed, came back by itself and fails again on its way to the uncordon."""


def fails(view: NodeView, reason: Reason, message: str) -> Act:
    """End the attempt of a node that was taken out of service."""
    attempt = view.attempt or NO_ATTEMPT
    if attempt.purpose is Purpose.ROLLBACK:
        return _rollback_failed(view, reason, message)
    ended = Ended(
        attempt=attempt.id,
        purpose=attempt.purpose,
        reason=reason,
        message=message,
        at=view.now,
        target=attempt.target or view.record.target or view.wanted,
        boot=view.node.boot_id,
    )
    if view.state in BEFORE_BOOT and not view.has_rebooted:
        if reason is Reason.NodeNotBack:
            return _ends(view, replace(ended, outcome=Reason.NoRollback))
        return _ends(view, ended, actions.uncordoning(view))
    if attempt.purpose is Purpose.RECOVERY:
        used_up = len(recovery.counted(view)) >= view.recovery.max_attempts
        return _ends(view, replace(ended, outcome=Reason.ColdRebootNeeded if used_up else None))
    good = good_of(view.found) or attempt.good
    if not view.policy.rollback or good is None or (attempt.target is not None and good.is_met_by(attempt.target)):
        return _ends(view, replace(ended, outcome=Reason.NoRollback))
    return _rolls_back(view, attempt, ended, good)


def gives_back(view: NodeView, reason: Reason, message: str) -> Act:
    """A node that could not be emptied serves again and is tried later; it has not failed. A rollback has."""
    attempt = view.attempt
    assert attempt is not None, "only an attempt can be given back"
    if attempt.purpose is Purpose.ROLLBACK:
        return fails(view, reason, message)
    if attempt.purpose is Purpose.RECOVERY:
        reason = Reason.RecoveryBlocked
    pods = leftovers.told((*view.npu_pods, *leftovers.to_be_drained(view)), view)
    said = f"{message}{f': {pods}' if pods else ''}"
    before = view.record.tried.get("drain")
    tried = Tried(count=before.count + 1 if before else 1, at=view.now, reason=reason, message=said)
    act = back(view, replace(view.record, tried={**view.record.tried, "drain": tried}))
    return replace(act, notes=(told(view.node, reason, said, is_warning=True),))


def gives_back_unless_forced(view: NodeView, reason: Reason, message: str) -> Act | None:
    """None: force is allowed, the node goes on and what is left is killed."""
    return None if view.is_forced else gives_back(view, reason, message)


def goes_on(view: NodeView, reason: Reason, message: str) -> Act | None:
    """The state's limit is only how long it was worth waiting."""
    return None


def back(view: NodeView, record: Record) -> Act:
    """Out of a walk in which nothing new was loaded: uncordoned if the cordon was ours, waiting again.

    The attempt goes on under a new id, so that the old one's slot is free at once. A node that came from a failed
    recovery goes back there, cordon and all.
    """
    attempt = record.attempt
    assert attempt is not None, "only an attempt can be taken back"
    came_from_failure = record.ended is not None and record.ended.purpose is Purpose.RECOVERY
    state = S.FAILED if came_from_failure else S.REQUIRED if record.target is not None else None
    fresh = Attempt(
        id=new_id(view.node, attempt.purpose),
        purpose=attempt.purpose,
        target=attempt.target,
        made_at=view.now,
        good=attempt.good,
    )
    record = replace(record, attempt=fresh, left=attempt.id, uncordoned=False)
    change = NodeChange() if came_from_failure else actions.uncordoning(view)
    return Act(record=record.entered(state, view.now), change=change)


def _ends(view: NodeView, ended: Ended, change: NodeChange | None = None) -> Act:
    """`upgrade-failed`: the attempt is over, its approval used, its slot free."""
    record, attempt = view.record, view.attempt or NO_ATTEMPT
    is_heal = ended.purpose is Purpose.RECOVERY
    earlier = record.ended if is_heal and record.ended is not None and record.ended.purpose is Purpose.UPGRADE else None
    record = replace(
        record,
        attempt=None,
        approval=record.approval if is_heal else None,
        recovery_approval=None,
        left=attempt.rolls_back or attempt.id or record.left,
        uncordoned=False,
        target=None,
        tried={},
        ended=ended if earlier is None else earlier,
    )
    note = told(view.node, ended.reason, sentence(ended), is_warning=True)
    return Act(record=record.entered(S.FAILED, view.now), change=change or NodeChange(), notes=(note,))


def _rolls_back(view: NodeView, attempt: Attempt, ended: Ended, good: Target) -> Act:
    is_there = view.loaded is not None and good.is_met_by(view.loaded)
    rollback = Attempt(
        id=new_id(view.node, Purpose.ROLLBACK),
        purpose=Purpose.ROLLBACK,
        target=good,
        made_at=view.now,
        rolls_back=attempt.id,
    )
    record = replace(view.record, attempt=rollback, ended=ended)
    how = "which is loaded already" if is_there else "which needs another reboot"
    note = told(view.node, ended.reason, f"{ended.message}; back to driver {good}, {how}", is_warning=True)
    return Act(record=record.entered(S.VALIDATION if is_there else S.REQUIRED, view.now), notes=(note,))


def rolled_back(view: NodeView) -> Act:
    """The last good driver works: the node serves, and the upgrade has failed."""
    ended = view.record.ended
    assert ended is not None, "a rollback begins with what ended"
    return _ends(view, replace(ended, outcome=Reason.RolledBack))


def _rollback_failed(view: NodeView, reason: Reason, message: str) -> Act:
    ended = view.record.ended
    assert ended is not None, "a rollback begins with what ended"
    said = f"{ended.message}; then the rollback failed: {message}"
    return _ends(view, replace(ended, outcome=Reason.RollbackFailed, message=said))


def sentence(ended: Ended) -> str:
    """What went wrong and what became of it."""
    what = {
        Reason.RolledBack: "it runs its last good driver again",
        Reason.RollbackFailed: "it stays cordoned",
        Reason.NoRollback: "there is nothing to go back to, so it stays cordoned",
        Reason.ColdRebootNeeded: "reboots do not help, so switch it off and on; it stays cordoned",
        None: "it was left as it is",
    }
    return f"{ended.reason}: {ended.message}; {what.get(ended.outcome, '')}"
