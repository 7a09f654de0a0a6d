"""Back to the last good driver, by the shortest way; and what it takes to start again."""

import msgspec
import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.npunode import RebootReport, Validation
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle.effects import No
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.record import Phase, Record, Target
from tests.unit.plan.lifecycle.nodes import (
    BOOT,
    FLEET,
    NEW,
    NEXT_BOOT,
    NOW,
    OLD,
    OTHER,
    S,
    a_failure,
    a_record,
    a_target,
    a_view,
    after,
    an_attempt,
    found,
    policy,
    record_after,
    step,
)

OURS = RebootReport(attempt="try-1", boot_id=BOOT)
BAD = Validation(boot_id=NEXT_BOOT, version=NEW, message="no chip could be opened")


def a_bad_trial(**changes):
    """After the reboot the new driver is loaded and does not validate."""
    good = changes.pop("good", OLD)
    return a_view(S.VALIDATION, found=found(NEW, boot_id=NEXT_BOOT, reboot=OURS, validation=BAD, good=good), **changes)


def a_rollback(state, **changes):
    """A rollback on its way."""
    record = a_record(state, Purpose.ROLLBACK, approval=a_record(S.REQUIRED).approval)
    fields = {"record": record, "found": found(OLD, boot_id=NEXT_BOOT, reboot=OURS), **changes}
    return a_view(state, Purpose.ROLLBACK, **fields)


def test_a_rollback_is_an_attempt_of_its_own():
    there = after(a_bad_trial(), step(a_bad_trial(), FLEET))
    attempt, ended = there.record.attempt, there.record.ended
    assert there.state is S.REBOOT
    assert attempt.purpose is Purpose.ROLLBACK
    assert attempt.id != "try-1"
    assert attempt.rolls_back == "try-1"
    assert attempt.target == Target(version=OLD)
    assert (ended.attempt, ended.reason, ended.message) == ("try-1", "ValidationFailed", "no chip could be opened")
    assert there.node.unschedulable


def test_a_rollback_keeps_slot_and_approval_of_what_failed():
    there = after(a_bad_trial(), step(a_bad_trial(), FLEET))
    assert there.holds_slot
    assert there.record.approval is not None
    assert there.record.left == ""


def test_a_rollback_that_worked_ends_as_failed_and_serves():
    view = a_rollback(S.UNCORDON)
    there = after(view, step(view, FLEET))
    assert there.state is S.FAILED
    assert there.record.ended.outcome == Reason.RolledBack
    assert there.record.ended.reason == Reason.ValidationFailed
    assert there.record.left == "try-0", "the slot of the failed attempt is free"
    assert there.record.attempt is None
    assert there.record.approval is None
    assert not there.node.unschedulable
    assert step(there, FLEET).reason == Reason.RolledBack


def test_a_driver_that_is_loaded_already_is_gone_back_to_without_a_reboot():
    """The loader went back by itself after a power cut."""
    view = a_view(S.VALIDATION, found=found(OLD, boot_id="boot-3", reboot=OURS), boot_id="boot-3")
    there = after(view, step(view, FLEET))
    assert there.record.ended.reason == Reason.TrialLost
    assert there.record.attempt.purpose is Purpose.ROLLBACK
    assert there.record.attempt.phase is Phase.BOOTED
    assert there.state is S.UNCORDON
    final = after(there, step(there, FLEET))
    assert final.state is S.FAILED
    assert final.record.ended.outcome == Reason.RolledBack


def test_a_rollback_that_fails_leaves_our_cordon():
    view = a_rollback(S.RESTART, found=None, seconds_in_state=1800)
    there = after(view, step(view, FLEET))
    assert there.state is S.FAILED
    assert there.record.ended.outcome == Reason.RollbackFailed
    assert there.record.ended.message.startswith("no chip could be opened; then the rollback failed: ")
    assert there.node.unschedulable
    assert names.CORDON_MARK in there.node.annotations


def test_a_rollback_that_cannot_be_emptied_has_failed():
    there = record_after(a_rollback(S.CORDON, unschedulable=False, cordon_is_ours=False, seconds_in_state=600))
    assert there.state is S.FAILED
    assert there.ended.outcome == Reason.RollbackFailed


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": policy(rollback=False)},
        {"good": "", "record": a_record(S.VALIDATION, attempt=an_attempt(good=None, boot_before=BOOT))},
        {"good": NEW},
    ],
    ids=["switched off", "no good driver", "the good one is the bad one"],
)
def test_with_nothing_to_go_back_to_our_cordon_stays(changes):
    view = a_bad_trial(**changes)
    there = after(view, step(view, FLEET))
    assert there.state is S.FAILED
    assert there.record.ended.outcome == Reason.NoRollback
    assert there.record.left == "try-1"
    assert there.node.unschedulable


def test_the_good_driver_is_remembered_for_an_agent_that_is_silent():
    record = a_record(S.RESTART, attempt=an_attempt(good=Target(version=OLD), boot_before=BOOT))
    view = a_view(S.RESTART, record=record, found=None, seconds_in_state=1800)
    assert record_after(view).attempt.target == Target(version=OLD)


def test_a_failure_says_what_became_of_the_node():
    view = a_bad_trial(policy=policy(rollback=False))
    found_step = step(view, FLEET)
    assert found_step.reason == Reason.NoRollback
    assert found_step.message == (
        "ValidationFailed: no chip could be opened; there is nothing to go back to, so it stays cordoned"
    )
    warnings = [note for note in found_step.notes if note.is_warning]
    assert [(note.reason, note.message) for note in warnings] == [("ValidationFailed", found_step.message)]


# --- and again


def a_failed_node(**changes):
    """Rolled back, serving with the old driver."""
    failure = changes.pop("failure", a_failure(outcome=Reason.RolledBack))
    record = changes.pop("record", Record(ended=failure).entered(S.FAILED, NOW))
    return a_view(S.FAILED, purpose=None, record=record, **changes)


def test_a_failed_node_does_not_start_again_by_itself():
    assert step(a_failed_node(), FLEET).patch is None
    assert step(a_failed_node(found=None), FLEET).patch is None


def test_a_failed_node_starts_again_for_another_target():
    view = a_failed_node(wanted=a_target(OTHER))
    record = record_after(view)
    assert record.state is S.REQUIRED
    assert record.target.version == OTHER
    assert record.ended is None


def test_even_a_node_without_any_driver_starts_again_for_another_target():
    view = a_failed_node(
        wanted=a_target(OTHER), found=found(""), failure=a_failure(outcome=Reason.NoRollback), cordon_is_ours=True
    )
    assert record_after(view).state is S.REQUIRED


def test_nothing_starts_again_while_nothing_may_start():
    view = a_failed_node(wanted=a_target(OTHER))
    assert step(view, Fleet(halted=No(Reason.Paused, "paused"))).to is S.FAILED


def test_upgrade_required_set_by_hand_means_another_try():
    view = a_failed_node(labels={names.UPGRADE_STATE: "upgrade-required"})
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.state is S.REQUIRED
    assert there.record.ended is None
    assert there.record.attempt.purpose is Purpose.UPGRADE
    assert any("another try" in note.message for note in found_step.notes)


def test_a_node_that_came_back_late_with_what_is_wanted_is_well():
    failure = a_failure(reason="NodeNotBack", outcome=Reason.NoRollback)
    view = a_failed_node(
        failure=failure,
        cordon_is_ours=True,
        boot_id=NEXT_BOOT,
        found=found(NEW, boot_id=NEXT_BOOT, in_service=False),
    )
    there = after(view, step(view, FLEET))
    assert there.state is S.UNCORDON
    served = msgspec.structs.replace(there, found=found(NEW, boot_id=NEXT_BOOT))
    done = after(served, step(served, FLEET))
    assert done.record.is_empty, "it has no slot to wait for"
    assert not done.node.unschedulable


def test_a_failed_node_whose_chips_nobody_could_ask_for_is_not_well_in_the_same_boot():
    failure = a_failure(reason="AllocatableMissing", outcome=Reason.NoRollback)
    view = a_failed_node(failure=failure, cordon_is_ours=True, found=found(NEW))
    assert step(view, FLEET).to is S.FAILED


def test_going_back_to_the_old_version_in_the_spec_clears_a_rolled_back_node():
    view = a_failed_node(wanted=a_target(OLD))
    assert after(view, step(view, FLEET)).record.is_empty


def test_a_failure_is_shown_again_after_a_recovery_in_between():
    record = Record(ended=a_failure(outcome=Reason.RolledBack))
    assert record_after(a_view(None, purpose=None, record=record)).state is S.FAILED
