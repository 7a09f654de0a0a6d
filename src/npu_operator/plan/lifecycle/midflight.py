"""What may come in between: edited labels, another version, a switched-off driver, foreign reboots, false alarms.

Each detour looks at a node and says where it goes instead of where its state's row would lead; they are asked in the
order of the table's second list. Source: product.md §4.7, 4.9, 4.12–4.16.
"""

import msgspec

from npu_operator.model import names
from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import actions, approval, exits, failure
from npu_operator.plan.lifecycle.effects import UNMARK, Act, told
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.record import EMPTY, Attempt, Ended, Phase, Record, new_id
from npu_operator.plan.lifecycle.view import BEFORE_BOOT, EMPTYING, NodeView

S = UpgradeState
replace = msgspec.structs.replace
REARMS = 5
"""Foreign reboots that may come in between; a node that reboots all the time has another illness."""
LOADED_AT_LEAST = frozenset({S.RESTART, S.VALIDATION, S.UNCORDON})


# --- the record and the label


def record_is_broken(view: NodeView, fleet: Fleet) -> Act | None:
    """Begin anew from the label: before the reboot the node goes back, after it the walk is finished."""
    if not view.reading.problem or view.reading.is_newer:
        return None
    note = told(view.node, Reason.Restored, view.reading.problem, is_warning=True)
    label = view.label if view.label in set(S) else ""
    if label in LOADED_AT_LEAST:
        attempt = Attempt(
            id=new_id(view.node, Purpose.UPGRADE), purpose=Purpose.UPGRADE, target=view.wanted, phase=Phase.BOOTED
        )
        record = Record(target=view.wanted, attempt=attempt).entered(S(label), view.now)
        return Act(record=record, notes=(note,))
    if label == S.FAILED:
        ended = Ended(
            attempt="",
            purpose=Purpose.UPGRADE,
            reason=Reason.Restored,
            message="why it failed was lost with its record",
            at=view.now,
            target=view.wanted,
        )
        return Act(record=Record(ended=ended).entered(S.FAILED, view.now), notes=(note,))
    return Act(record=EMPTY, change=actions.uncordoning(view), notes=(note,))


def label_without_record(view: NodeView, fleet: Fleet) -> Act | None:
    """A label that we did not write: `upgrade-required` asks for an upgrade, each other one is taken away."""
    if not view.label or view.state is not None or view.reading.problem:
        return None
    if view.label == S.REQUIRED and view.wanted is not None and not view.runs_wanted and view.found is not None:
        return _starts_anew(view, "somebody asked for an upgrade")
    message = f"the label {names.UPGRADE_STATE}={view.label} was not written by this operator and is removed"
    return Act(record=view.record, change=actions.uncordoning(view), notes=(told(view.node, Reason.Restored, message),))


def label_was_removed(view: NodeView, fleet: Fleet) -> Act | None:
    """Whoever removes the label aborts the upgrade, unless the new driver is loaded already."""
    if view.label or view.state is None or view.state is S.DONE:
        return None
    is_too_late = view.is_executed or view.has_rebooted or view.purpose is Purpose.ROLLBACK
    if view.state in LOADED_AT_LEAST or (is_too_late and view.state is not S.FAILED):
        return _restored(view, "it cannot be aborted any more, so it goes on")
    record, attempt = view.record, view.attempt
    ended = Ended(
        attempt=attempt.id if attempt is not None else "",
        purpose=Purpose.RECOVERY if view.purpose is Purpose.RECOVERY and view.is_started else Purpose.UPGRADE,
        reason=Reason.Aborted,
        message="somebody removed the state label",
        at=view.now,
        target=record.target or (record.ended.target if record.ended is not None else view.wanted),
        boot=view.node.boot_id,
    )
    gone = replace(_forgotten(record), ended=ended, left=_left(view))
    note = told(view.node, Reason.Aborted, "somebody removed the state label, so it is left as it is")
    return Act(record=gone, change=actions.uncordoning(view), notes=(note,))


def label_was_edited(view: NodeView, fleet: Fleet) -> Act | None:
    """`upgrade-required` on a node that failed means: try again. Anything else is put back."""
    if view.label in ("", view.state or "") or view.state is None:
        return None
    if view.label == S.REQUIRED and view.state is S.FAILED:
        return _retried(view)
    return _restored(view, f"the label {names.UPGRADE_STATE}={view.label} was not written by this operator")


# --- what people do to the cordon, and for a recovery


def cordon_was_undone(view: NodeView, fleet: Fleet) -> Act | None:
    """Our mark without a cordon: somebody uncordoned the node. A cordon that follows is his."""
    if names.CORDON_MARK not in view.node.annotations or view.node.unschedulable:
        return None
    message = "somebody uncordoned it during its upgrade; it is emptied again before the reboot"
    record = replace(view.record, uncordoned=True) if view.is_started else view.record
    return Act(record=record, change=UNMARK, notes=(told(view.node, Reason.ForeignUncordon, message),))


def force_was_allowed(view: NodeView, fleet: Fleet) -> Act | None:
    """Somebody allowed force for a recovery whose node is being emptied already."""
    if view.state not in EMPTYING or view.purpose is not Purpose.RECOVERY:
        return None
    act = approval.take(view)
    return act if act.record != view.record else None


# --- what is wanted


def driver_is_not_ours(view: NodeView, fleet: Fleet) -> Act | None:
    """The driver was switched off, or became the host's: what has loaded nothing new yet stops here."""
    if view.wanted is not None or view.record.is_empty or view.purpose is Purpose.RUNTIME:
        return None
    if view.state in LOADED_AT_LEAST or view.state is S.DONE or view.is_executed or view.has_rebooted:
        return None
    record = replace(_forgotten(view.record), left=_left(view), recoveries=())
    if record == view.record:
        return None
    return Act(record=record, change=actions.uncordoning(view))


def target_changed(view: NodeView, fleet: Fleet) -> Act | None:
    """Another version is wanted: nodes that have loaded nothing new go back without a reboot."""
    target, wanted = view.record.target, view.wanted
    is_free = view.state is S.REQUIRED or (view.state in BEFORE_BOOT and not view.is_executed and not view.has_rebooted)
    if target is None or wanted is None or not is_free or view.purpose is Purpose.ROLLBACK:
        return None
    if view.purpose is Purpose.RECOVERY and view.is_started:
        return None
    is_done_with = view.state is S.REQUIRED and view.runs_wanted
    if target.is_met_by(wanted) and not is_done_with:
        return None
    is_another_matter = view.purpose is not Purpose.UPGRADE  # a cure, or a restart of the runtime
    record = replace(
        _forgotten(view.record),
        attempt=view.attempt if is_another_matter else None,
        recovery_approval=view.record.recovery_approval,
        advance=view.record.advance,
        left=view.record.left if is_another_matter else _left(view),
    )
    if target.is_met_by(wanted):
        return Act(record=record, change=actions.uncordoning(view))
    note = told(view.node, Reason.TargetChanged, f"driver {wanted} is wanted instead of {target}")
    return Act(record=record, change=actions.uncordoning(view), notes=(note,))


# --- recovery


def chip_came_back(view: NodeView, fleet: Fleet) -> Act | None:
    """Nothing is sick any more before the reboot took place."""
    if not _is_recovery_before_reboot(view) or view.found is None or view.needs_recovery:
        return None
    note = told(view.node, Reason.RecoveredByItself, "what was sick came back by itself; it is not rebooted")
    act = failure.back(view, view.record)
    assert act.record is not None, "going back changes the record"
    return replace(act, record=replace(act.record, attempt=None, recovery_approval=None), notes=(note,))


def breaker_tripped(view: NodeView, fleet: Fleet) -> Act | None:
    """Too many are sick at once: what has not been rebooted yet is not rebooted."""
    if not _is_recovery_before_reboot(view) or fleet.breaker is None:
        return None
    note = told(view.node, fleet.breaker.reason, fleet.breaker.message, is_warning=True)
    return replace(failure.back(view, view.record), notes=(note,))


# --- the reboot and what it brought


def armed_in_use(view: NodeView, fleet: Fleet) -> Act | None:
    """A pod got hold of a chip between the arming and the reboot: disarmed, and emptied again."""
    attempt = view.attempt
    if view.state is not S.REBOOT or attempt is None or not attempt.boot_before or view.is_forced:
        return None
    if not view.npu_pods or view.is_executed or view.has_rebooted:
        return None
    record = view.record.with_attempt(boot_before="", deadline="").entered(S.POD_DELETION, view.now)
    return Act(record=record, notes=(told(view.node, Reason.NpuInUse, Reason.NpuInUse.sentence, is_warning=True),))


def reboot_was_foreign(view: NodeView, fleet: Fleet) -> Act | None:
    """Somebody else rebooted the armed node, so what was staged was not loaded: armed again, at no new approval."""
    attempt = view.attempt
    if view.state not in (S.REBOOT, S.RESTART) or attempt is None or not view.has_rebooted or view.found is None:
        return None
    if view.found.reboot.attempt == attempt.id:
        return None
    served = not view.needs_recovery if attempt.purpose is Purpose.RECOVERY else view.runs_target
    if served:
        return None
    if attempt.rearmed >= REARMS:
        return failure.fails(view, Reason.RebootNotExecuted, f"other reboots came in between {REARMS} times")
    note = told(
        view.node, Reason.RebootRequired, f"another reboot came in between, reason={attempt.purpose}; once more"
    )
    record = view.record.with_attempt(boot_before="", deadline="", rearmed=attempt.rearmed + 1)
    if attempt.purpose is Purpose.RECOVERY:
        record = replace(record, recoveries=record.recoveries[:-1])
    return Act(record=record.entered(S.POD_DELETION, view.now), notes=(note,))


def driver_gave_up(view: NodeView, fleet: Fleet) -> Act | None:
    """The loader says that this will not work: no need to wait for the limit."""
    if view.state is not S.RESTART or view.found is None or view.runs_target or not view.has_rebooted:
        return None
    reason = view.found.driver.reason
    if reason not in HOPELESS:
        return None
    return failure.fails(view, Reason(reason), view.found.driver.message or Reason(reason).sentence)


def trial_was_lost(view: NodeView, fleet: Fleet) -> Act | None:
    """After the boot in which it was loaded, something else is: another reboot took the node back."""
    if view.state not in LOADED_AT_LEAST or view.loaded is None or view.runs_target:
        return None
    if view.state is S.RESTART and not _is_executed_here(view):
        return None
    return failure.fails(view, Reason.TrialLost, f"driver {view.loaded} is loaded instead of {_target(view)}")


def verdict_is_bad(view: NodeView, fleet: Fleet) -> Act | None:
    """The validator said no to what is loaded in this boot, or the recovery did not cure what it was for."""
    if view.state not in (S.VALIDATION, S.UNCORDON) or view.found is None or view.loaded is None:
        return None
    if view.purpose is Purpose.RECOVERY and view.needs_recovery:
        message = view.found.recovery.message or "the reboot did not cure it"
        return failure.fails(view, Reason.FaultNeedsReboot, message)
    verdict = view.found.validation
    is_about_this = verdict.boot_id == view.node.boot_id and verdict.version == view.loaded.version
    if not is_about_this or verdict.passed:
        return None
    reason = Reason(verdict.reason) if verdict.reason in set(Reason) else Reason.ValidationFailed
    return failure.fails(view, reason, verdict.message or reason.sentence)


def rollback_is_over(view: NodeView, fleet: Fleet) -> Act | None:
    """A rollback ends as `upgrade-failed`, never as done."""
    return failure.rolled_back(view) if view.state is S.DONE and view.purpose is Purpose.ROLLBACK else None


def failed_node_is_well(view: NodeView, fleet: Fleet) -> Act | None:
    """A node that failed runs what is wanted after all, validated in this boot: it came back late, or was repaired."""
    ended = view.record.ended
    if view.state is not S.FAILED or ended is None or not exits.is_validated(view, fleet) or not view.runs_wanted:
        return None
    if view.attempt is not None or (ended.purpose is Purpose.RECOVERY and view.needs_recovery):
        return None
    if ended.reason is Reason.AllocatableMissing and ended.boot == view.node.boot_id:
        return None  # it worked before, too, and nobody could ask for its chips
    note = told(view.node, Reason.UpgradeDone, f"driver {view.wanted} works after all")
    return Act(record=replace(view.record, ended=None).entered(S.UNCORDON, view.now), notes=(note,))


def failure_still_stands(view: NodeView, fleet: Fleet) -> Act | None:
    """After a recovery in between, a node whose upgrade had failed shows that again."""
    ended = view.record.ended
    if view.state is not None or view.attempt is not None or ended is None or ended.reason is Reason.Aborted:
        return None
    if ended.purpose is Purpose.RECOVERY or not exits.is_left_alone(view) or view.runs_wanted:
        return None
    return Act(record=view.record.entered(S.FAILED, view.now))


HOPELESS = frozenset({Reason.LoadCrashed, Reason.TrialLost, Reason.LoadFailed})
"""What the loader says when it has stopped trying in this boot."""


def _is_recovery_before_reboot(view: NodeView) -> bool:
    if view.purpose is not Purpose.RECOVERY or view.has_rebooted or view.is_executed:
        return False
    return view.state in EMPTYING or view.state is S.REBOOT


def _is_executed_here(view: NodeView) -> bool:
    attempt = view.attempt
    return attempt is not None and view.found is not None and view.found.reboot.attempt == attempt.id


def _target(view: NodeView) -> str:
    return str(view.attempt.target) if view.attempt is not None and view.attempt.target is not None else "ours"


def _retried(view: NodeView) -> Act:
    """Somebody asked for another try of a node that failed."""
    ended = view.record.ended
    if ended is not None and ended.purpose is Purpose.RECOVERY and not view.needs_upgrade:
        record = replace(view.record, recoveries=(), ended=replace(ended, outcome=None))
        note = told(view.node, Reason.Restored, "somebody asked for another try; its recovery reboots count anew")
        return Act(record=record, notes=(note,))
    return _starts_anew(view, "somebody asked for another try")


def _starts_anew(view: NodeView, why: str) -> Act:
    record = replace(_forgotten(view.record), left=view.record.left)
    note = told(view.node, Reason.StateOver, f"{why}: {S.REQUIRED}")
    return Act(record=record.entered(S.REQUIRED, view.now), notes=(note,))


def _restored(view: NodeView, why: str) -> Act:
    note = told(view.node, Reason.Restored, f"{why}; the state is {view.state}", is_warning=True)
    return Act(record=view.record, notes=(note,))


def _forgotten(record: Record) -> Record:
    """Nothing of the walk, only how often the node was rebooted to cure it."""
    return replace(EMPTY, recoveries=record.recoveries)


def _left(view: NodeView) -> str:
    return view.attempt.id if view.attempt is not None and view.holds_slot else view.record.left
