"""Hands on labels, versions that change, drivers that are switched off: in every state."""

import msgspec
import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.npunode import RebootReport
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import uninstall
from npu_operator.plan.lifecycle.effects import No
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.record import Record
from npu_operator.plan.lifecycle.view import STARTED
from tests.unit.plan.lifecycle.nodes import (
    BOOT,
    EARLIER,
    FLEET,
    NEW,
    OLD,
    OTHER,
    S,
    a_driver_pod,
    a_failure,
    a_record,
    a_target,
    a_view,
    after,
    an_attempt,
    an_npu_pod,
    found,
    record_after,
    step,
)

BEFORE_LOAD = (S.CORDON, S.JOBS, S.POD_DELETION, S.DRAIN, S.REBOOT)
LOADED = (S.RESTART, S.VALIDATION, S.UNCORDON)
OURS = RebootReport(attempt="try-1", boot_id=BOOT)
LABEL_GONE = {"labels": {names.UPGRADE_STATE: None}}


def reasons(found_step):
    return {note.reason for note in found_step.notes}


# --- abort


@pytest.mark.parametrize("state", [S.REQUIRED, *BEFORE_LOAD], ids=str)
def test_removing_the_label_before_the_load_aborts(state):
    view = a_view(state, pods=(an_npu_pod(),), **LABEL_GONE)
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.state is None
    assert there.label == ""
    assert not there.node.unschedulable
    assert names.CORDON_MARK not in there.node.annotations
    assert there.record.attempt is None
    assert there.record.left == "try-1", "its slot is free at once"
    assert there.record.ended.reason == Reason.Aborted
    assert found_step.reason == Reason.Aborted
    assert found_step.pods == ()


def test_an_aborted_node_stays_out_until_another_version_is_wanted():
    aborted = record_after(a_view(S.DRAIN, **LABEL_GONE))
    still = a_view(None, purpose=None, record=aborted, held=())
    assert record_after(still).state is None
    moved = a_view(None, purpose=None, record=aborted, held=(), wanted=a_target(OTHER))
    there = record_after(moved)
    assert (there.state, there.ended) == (S.REQUIRED, None)


def test_an_aborted_node_starts_again_by_hand():
    aborted = record_after(a_view(S.DRAIN, **LABEL_GONE))
    view = a_view(None, purpose=None, record=aborted, held=(), labels={names.UPGRADE_STATE: "upgrade-required"})
    there = record_after(view)
    assert (there.state, there.ended) == (S.REQUIRED, None)


@pytest.mark.parametrize("state", LOADED, ids=str)
def test_once_the_driver_is_loaded_removing_the_label_comes_too_late(state):
    view = a_view(state, allocatable=0, **LABEL_GONE)
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.state in LOADED
    assert there.label == there.state.value
    assert "Restored" in reasons(found_step)


def test_a_reboot_that_the_rebooter_has_recorded_cannot_be_aborted():
    there = record_after(a_view(S.REBOOT, found=found(OLD, reboot=OURS), **LABEL_GONE))
    assert there.state is S.REBOOT
    assert there.ended is None


def test_removing_the_label_of_a_failed_node_lets_it_be():
    record = Record(ended=a_failure()).entered(S.FAILED, EARLIER)
    view = a_view(S.FAILED, purpose=None, record=record, cordon_is_ours=True, **LABEL_GONE)
    there = after(view, step(view, FLEET))
    assert there.state is None
    assert not there.node.unschedulable
    assert there.record.ended.reason == Reason.Aborted
    assert there.record.ended.target == a_target()


def test_removing_the_label_of_a_node_that_is_done_is_no_abort():
    there = record_after(a_view(S.DONE, found=found(NEW), held=(), **LABEL_GONE))
    assert there.is_empty


# --- edited labels


@pytest.mark.parametrize("state", STARTED, ids=str)
@pytest.mark.parametrize("label", ["upgrade-required", "upgrade-done", "paused-for-driver-upgrade"])
def test_any_other_edit_is_put_back_with_an_event(state, label):
    view = a_view(state, pods=(an_npu_pod(),), allocatable=0, labels={names.UPGRADE_STATE: label})
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.label == there.state.value
    assert there.state in STARTED
    assert "Restored" in reasons(found_step)


@pytest.mark.parametrize("label", ["drain-required", "upgrade-failed", "nonsense"])
def test_a_label_that_nobody_of_ours_wrote_is_taken_away(label):
    view = a_view(found=found(NEW), labels={names.UPGRADE_STATE: label})
    found_step = step(view, FLEET)
    assert after(view, found_step).label == ""
    assert "Restored" in reasons(found_step)


def test_upgrade_required_on_a_node_that_runs_what_is_wanted_is_taken_away():
    view = a_view(found=found(NEW), labels={names.UPGRADE_STATE: "upgrade-required"})
    assert after(view, step(view, FLEET)).label == ""


# --- broken records


@pytest.mark.parametrize("state", BEFORE_LOAD, ids=str)
def test_a_node_with_a_broken_record_goes_back_when_nothing_was_loaded(state):
    view = a_view(state, annotations={names.ATTEMPT: "{"}, held=())
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert not there.node.unschedulable
    assert there.state is S.REQUIRED
    assert "Restored" in reasons(found_step)
    assert there.reading.problem == ""


@pytest.mark.parametrize("state", LOADED, ids=str)
def test_a_node_with_a_broken_record_is_finished_when_the_driver_is_loaded(state):
    view = a_view(state, annotations={names.ATTEMPT: "{"})
    there = after(view, step(view, FLEET))
    assert there.state in (S.UNCORDON, S.DONE)


def test_a_failed_node_with_a_broken_record_does_not_start_by_itself():
    record = Record(ended=a_failure()).entered(S.FAILED, EARLIER)
    view = a_view(S.FAILED, purpose=None, record=record, annotations={names.ATTEMPT: "{"})
    assert record_after(view).state is S.FAILED


# --- another version


@pytest.mark.parametrize("state", [S.REQUIRED, *BEFORE_LOAD], ids=str)
def test_a_node_that_loaded_nothing_new_goes_back_for_another_version(state):
    """Scenario 8."""
    view = a_view(state, pods=(an_npu_pod(),), wanted=a_target(OTHER))
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.state is S.REQUIRED
    assert there.record.target == a_target(OTHER)
    assert there.record.approval is None
    assert there.record.attempt is None
    assert there.record.left == "try-1"
    assert not there.node.unschedulable
    assert names.REBOOT_REQUIRED not in there.node.labels
    assert "TargetChanged" in reasons(found_step)


@pytest.mark.parametrize("state", [S.REQUIRED, *BEFORE_LOAD], ids=str)
def test_a_node_that_runs_what_is_wanted_again_is_out_of_it(state):
    view = a_view(state, pods=(an_npu_pod(),), wanted=a_target(OLD))
    there = after(view, step(view, FLEET))
    assert there.state is None
    assert not there.node.labels
    assert not there.node.unschedulable


@pytest.mark.parametrize("state", LOADED, ids=str)
def test_a_node_with_the_driver_loaded_is_finished_first(state):
    there = record_after(a_view(state, wanted=a_target(OTHER), allocatable=0))
    assert there.state in LOADED
    assert there.attempt.target == a_target()


def test_a_reboot_that_was_executed_is_finished_first():
    assert record_after(a_view(S.REBOOT, wanted=a_target(OTHER), found=found(OLD, reboot=OURS))).state is S.REBOOT


def test_a_digest_that_is_learned_later_is_no_other_version():
    view = a_view(S.POD_DELETION, wanted=a_target(digest="sha256:a"), pods=(an_npu_pod(),))
    assert step(view, FLEET).patch is None


def test_changed_module_options_are_another_driver():
    view = a_view(found=found(NEW), wanted=a_target(options="abc"), driver_pod=a_driver_pod(OLD))
    assert record_after(view).state is S.REQUIRED


def test_a_paused_fleet_starts_nothing_for_another_version():
    view = a_view(S.DRAIN, wanted=a_target(OTHER))
    there = after(view, step(view, Fleet(halted=No(Reason.Paused, "paused"))))
    assert there.state is None
    assert not there.node.unschedulable


# --- passthrough


@pytest.mark.parametrize("state", [S.REQUIRED, *BEFORE_LOAD, S.FAILED], ids=str)
def test_a_switched_off_driver_ends_what_has_loaded_nothing(state):
    """U02"""
    record = Record(ended=a_failure()).entered(S.FAILED, EARLIER) if state is S.FAILED else a_record(state)
    view = a_view(state, record=record, wanted=None, cordon_is_ours=True, pods=(an_npu_pod(),))
    there = after(view, step(view, FLEET))
    assert there.state is None
    assert not there.node.labels
    assert not there.node.unschedulable
    gone = msgspec.structs.replace(there, held=())
    assert after(gone, step(gone, FLEET)).record.is_empty


@pytest.mark.parametrize("state", LOADED, ids=str)
def test_a_switched_off_driver_lets_what_was_loaded_be_finished(state):
    view = a_view(state, wanted=None)
    for _ in range(3):
        view = after(view, step(view, FLEET))
    assert view.state is S.DONE
    gone = msgspec.structs.replace(view, held=())
    assert after(gone, step(gone, FLEET)).record.is_empty


def test_passthrough_leaves_other_nodes_alone():
    assert step(a_view(wanted=None), FLEET).patch is None


# --- uninstall


@pytest.mark.parametrize("state", [None, *UpgradeState], ids=str)
@pytest.mark.parametrize("purpose", [Purpose.UPGRADE, Purpose.RECOVERY, Purpose.ROLLBACK])
def test_uninstall_leaves_nothing_in_any_state(state, purpose):
    """D08"""
    view = a_view(state, purpose)
    undone = uninstall.undo(view.node, is_our_driver_loaded=True)
    node = after(view, undone).node
    assert not node.labels
    assert not node.annotations
    assert not node.unschedulable
    assert "modules stay loaded" in undone.message


def test_uninstall_keeps_foreign_cordons():
    for changes in (
        {"unschedulable": True, "cordon_is_ours": False},
        {"annotations": {names.KEEP_CORDONED: "true"}},
    ):
        view = a_view(S.DRAIN, **changes)
        undone = uninstall.undo(view.node, is_our_driver_loaded=False)
        assert after(view, undone).node.unschedulable
        assert "somebody else" in undone.message


def test_uninstall_says_when_a_reboot_may_still_come():
    assert "try-1" in uninstall.undo(a_view(S.REBOOT).node, is_our_driver_loaded=False).message
    assert "authorised" not in uninstall.undo(a_view(S.DRAIN).node, is_our_driver_loaded=False).message


def test_a_clean_node_needs_no_undoing():
    assert uninstall.undo(a_view().node, is_our_driver_loaded=False).patch is None


# --- slots that cannot be used


def test_a_slot_that_cannot_be_used_now_is_given_to_others():
    """The attempt gets another id, so that nobody can start the node on the slot that went."""
    view = a_view(S.REQUIRED)
    closed = Fleet(window=No(Reason.WaitsForWindow, "closed"))
    there = record_after(view, closed)
    assert there.left == "try-1"
    assert there.attempt.id != "try-1"
    assert there.attempt.purpose is Purpose.UPGRADE
    assert there.approval is not None


def test_what_was_left_is_forgotten_once_its_slot_is_gone():
    record = msgspec.structs.replace(a_record(S.REQUIRED, attempt=an_attempt(id="try-2")), left="try-1")
    kept = a_view(S.REQUIRED, record=record, held=a_view(S.REQUIRED).held)
    assert record_after(kept).left == "try-1"
    assert record_after(msgspec.structs.replace(kept, held=())).left == ""
