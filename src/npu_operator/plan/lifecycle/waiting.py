"""What happens to the record of a node that serves and waits: attempts are made, approvals are taken, memory fades.

Nothing here takes a node out of service. An attempt is made when the reboot becomes required: for an upgrade when the
driver lies on the node, for a recovery when the agent asks. A node that needs both has one attempt, and one reboot: the
upgrade when it may start, else the recovery when that may. Source: product.md §4.6, 4.7, 4.14.
"""

import msgspec

from npu_operator.model import names
from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.npunode import Found
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import approval, gates, recovery, runtime, staging
from npu_operator.plan.lifecycle.effects import NOTHING, Act, told
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.record import Attempt, Ended, Record, Target, new_id
from npu_operator.plan.lifecycle.view import NodeView

S = UpgradeState
replace = msgspec.structs.replace


def prepare(view: NodeView, fleet: Fleet) -> Act:
    """Bring the record of a waiting node up to date; a rollback that waits has nothing to be brought up to date."""
    if view.purpose is Purpose.ROLLBACK:
        return NOTHING
    made = _with_the_right_attempt(view.after(Act(record=_remembered(view))), fleet)
    here = view.after(made)
    taken = approval.take(here)
    here = here.after(taken)
    record = _without_idle_slot(here, fleet)
    stage_s = staging.look_again_s(here) if here.state is S.REQUIRED else None
    waits = [wait for wait in (made.look_again_s, stage_s, recovery.forgotten_in_s(here)) if wait is not None]
    return Act(
        record=record,
        change=made.change.then(taken.change),
        notes=made.notes + taken.notes,
        look_again_s=min(waits, default=None),
    )


def wants_reboot_for(view: NodeView, fleet: Fleet) -> Purpose | None:
    """What the waiting attempt of this node should be for; None: it needs none."""
    present = view.purpose
    if present is Purpose.ROLLBACK or (view.found is None and present is not None):
        return present
    upgrade = view.state is S.REQUIRED and not view.runs_wanted and (view.is_staged or present is Purpose.UPGRADE)
    heal = recovery.is_wanted(view)
    if not (upgrade and heal):
        return Purpose.UPGRADE if upgrade else Purpose.RECOVERY if heal else None
    may_heal = gates.objection(view, fleet, Purpose.RECOVERY) is None
    if present is Purpose.RECOVERY:
        return Purpose.RECOVERY if may_heal else Purpose.UPGRADE
    if gates.objection(view, fleet, Purpose.UPGRADE) is None:
        return Purpose.UPGRADE
    return Purpose.RECOVERY if may_heal or approval.text_of(view) in approval.FOR_RECOVERY else Purpose.UPGRADE


def _with_the_right_attempt(view: NodeView, fleet: Fleet) -> Act:
    if view.purpose is Purpose.RUNTIME or (view.attempt is None and runtime.is_granted(view)):
        return runtime.proceed(view)
    purpose, record = wants_reboot_for(view, fleet), view.record
    if purpose is view.purpose:
        return Act(record=record)
    if purpose is None:
        return _dropped(view)
    target = _target_on_disk(view) if purpose is Purpose.UPGRADE else None
    attempt = Attempt(
        id=new_id(view.node, purpose), purpose=purpose, target=target, made_at=view.now, good=good_of(view.found)
    )
    text = approval.text_of(view)
    advance = text if purpose is Purpose.RECOVERY and text == names.TRUE else ""
    why = f"driver {target} is staged" if target is not None else _what_is_sick(view)
    note = told(
        view.node,
        names.EVENT_REBOOT_REQUIRED,
        f"a reboot is required, reason={purpose}: {why}; attempt {attempt.id}",
    )
    return Act(record=replace(record, attempt=attempt, advance=advance, left=_left(view)), notes=(note,))


def _dropped(view: NodeView) -> Act:
    """The reboot is not required any more."""
    record = replace(view.record, attempt=None, advance="", left=_left(view))
    if view.purpose is not Purpose.RECOVERY:
        return Act(record=record)
    message = "what was sick came back by itself; no reboot is needed"
    note = told(view.node, Reason.RecoveredByItself, message)
    return Act(record=replace(record, recovery_approval=None), notes=(note,) if not view.needs_recovery else ())


def _without_idle_slot(view: NodeView, fleet: Fleet) -> Record:
    """A slot that cannot be used now is given to others.

    The attempt goes on under a new id. The patch that says so makes every patch fail that another operator may still
    have made from the old Node, so no node can be started on a slot that has been given away.
    """
    attempt = view.attempt
    if attempt is None or attempt.purpose in (Purpose.ROLLBACK, Purpose.RUNTIME) or not view.holds_slot:
        return view.record
    if gates.objection(view, fleet) is None:
        return view.record
    return replace(view.record, attempt=replace(attempt, id=new_id(view.node, attempt.purpose)), left=attempt.id)


def _remembered(view: NodeView) -> Record:
    """The record without what has lost its meaning."""
    record = view.record
    is_upgrade = view.purpose is not Purpose.RECOVERY or view.needs_upgrade
    if view.state is S.REQUIRED and record.target is None and is_upgrade:
        record = replace(record, target=view.wanted)
    if record.left and not any(holder.attempt == record.left for holder in view.held):
        record = replace(record, left="")
    counts = recovery.counted(view)
    if counts != record.recoveries:
        record = replace(record, recoveries=counts)
    if view.state is not S.FAILED and record.ended is not None and not _still_means_something(view, record.ended):
        record = replace(record, ended=None)
    return staging.noted(view, record) if view.state is S.REQUIRED else record


def _still_means_something(view: NodeView, ended: Ended) -> bool:
    if view.wanted is None:
        return False
    if ended.purpose is Purpose.RECOVERY:
        return view.found is None or (view.needs_recovery and ended.boot == view.node.boot_id)
    return not view.runs_wanted and ended.target is not None and ended.target.is_met_by(view.wanted)


def _left(view: NodeView) -> str:
    return view.attempt.id if view.attempt is not None and view.holds_slot else view.record.left


def good_of(found: Found | None) -> Target | None:
    """The last driver that was validated on this node with this kernel; None when the agent knows none."""
    if found is None or not found.driver.good_version:
        return None
    return Target(version=found.driver.good_version, content=found.driver.good_digest)


def _target_on_disk(view: NodeView) -> Target | None:
    """The wanted driver, with the name of its content on the disk."""
    if view.wanted is None or view.staged is None:
        return view.wanted
    return replace(view.wanted, content=view.staged.digest, digest=view.wanted.digest or view.staged.image_digest)


def _what_is_sick(view: NodeView) -> str:
    wish = view.found.recovery if view.found is not None else None
    return (wish.message or wish.reason) if wish is not None else ""


def forgotten(view: NodeView) -> Record:
    """What is remembered of a walk that went well: how often it was for a cure; a failure that another walk left."""
    record = view.record
    keeps = record.ended if view.purpose is Purpose.RECOVERY else None
    approval_kept = record.approval if view.purpose is Purpose.RECOVERY else None
    return Record(recoveries=record.recoveries, ended=keeps, approval=approval_kept)
