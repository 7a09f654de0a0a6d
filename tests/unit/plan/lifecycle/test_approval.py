import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.npunode import StagedVersion
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle.record import Approval
from tests.unit.plan.lifecycle.nodes import (
    EARLIER,
    FLEET,
    KERNEL,
    NEW,
    NOW,
    OLD,
    OTHER,
    SICK,
    S,
    a_driver_pod,
    a_record,
    a_target,
    a_view,
    after,
    an_npu_pod,
    found,
    record_after,
    step,
)


def waits_for_upgrade(text: str | None = None, **changes):
    """A staged node whose reboot waits, with what somebody wrote on it."""
    record = changes.pop("record", a_record(S.REQUIRED, approval=None))
    return a_view(S.REQUIRED, record=record, held=(), annotations={names.APPROVE_REBOOT: text}, **changes)


def waits_for_cure(text: str | None = None, **changes):
    """A node in sync with a sick chip whose recovery waits."""
    record = changes.pop("record", a_record(None, Purpose.RECOVERY))
    return a_view(
        None,
        Purpose.RECOVERY,
        record=record,
        held=(),
        found=found(NEW, recovery=SICK),
        annotations={names.APPROVE_REBOOT: text},
        **changes,
    )


@pytest.mark.parametrize("text", ["true", "try-1", NEW, " true "])
def test_an_approval_moves_into_the_record_in_one_patch(text):
    view = waits_for_upgrade(text)
    there = after(view, step(view, FLEET))
    assert there.record.approval == Approval(given=text.strip(), at=NOW)
    assert names.APPROVE_REBOOT not in there.node.annotations


@pytest.mark.parametrize("text", ["recovery", "recovery-force", "try-0", OTHER, "yes", "TRUE", ""])
def test_other_words_do_not_approve_an_upgrade(text):
    view = waits_for_upgrade(text)
    there = after(view, step(view, FLEET))
    assert there.record.approval is None
    assert there.node.annotations.get(names.APPROVE_REBOOT) == text


def test_a_word_for_another_reboot_is_named():
    assert f"{names.APPROVE_REBOOT}={OTHER} is for another reboot" in step(waits_for_upgrade(OTHER), FLEET).message


def test_a_node_says_how_to_approve_it():
    found_step = step(waits_for_upgrade(), FLEET)
    assert found_step.reason == Reason.WaitsForApproval
    assert f"{names.APPROVE_REBOOT}=true" in found_step.message


def test_an_approval_is_an_event():
    told = [note for note in step(waits_for_upgrade("true"), FLEET).notes if note.reason == "ApprovedReboot"]
    assert len(told) == 1
    assert "reason=upgrade" in told[0].message


@pytest.mark.parametrize("text", ["recovery", "recovery-force", "try-1", "true"])
def test_a_recovery_is_approved_by_name_or_because_it_waits_now(text):
    there = after(waits_for_cure(text), step(waits_for_cure(text), FLEET))
    assert there.record.recovery_approval == Approval(given=text, at=NOW)
    assert there.record.approval is None


@pytest.mark.parametrize("text", [NEW, "try-0"])
def test_an_upgrades_word_does_not_approve_a_recovery(text):
    there = after(waits_for_cure(text), step(waits_for_cure(text), FLEET))
    assert there.record.recovery_approval is None
    assert there.node.annotations[names.APPROVE_REBOOT] == text


def test_true_given_in_advance_is_for_the_next_upgrade_not_for_a_recovery_that_comes_first():
    """U30: a recovery must not eat the approval that was given for an upgrade."""
    sick = a_view(found=found(NEW, recovery=SICK), annotations={names.APPROVE_REBOOT: "true"})
    there = after(sick, step(sick, FLEET))
    assert there.record.attempt.purpose is Purpose.RECOVERY
    again = after(there, step(there, FLEET))
    assert again.record.recovery_approval is None
    assert again.node.annotations[names.APPROVE_REBOOT] == "true"


def test_true_given_anew_while_the_recovery_waits_is_for_the_recovery():
    waiting = waits_for_cure(record=a_record(None, Purpose.RECOVERY, advance="true"))
    forgotten = record_after(waiting)
    assert forgotten.advance == ""
    assert record_after(waits_for_cure("true", record=forgotten)).recovery_approval is not None


@pytest.mark.parametrize("text", ["true", NEW])
def test_a_word_given_in_advance_counts_once_the_attempt_is_made(text):
    staging = a_view(
        S.REQUIRED,
        record=a_record(S.REQUIRED, attempt=None, approval=None),
        held=(),
        driver_pod=a_driver_pod(OLD),
        annotations={names.APPROVE_REBOOT: text},
    )
    early = after(staging, step(staging, FLEET))
    assert early.node.annotations[names.APPROVE_REBOOT] == text
    staged = a_view(S.REQUIRED, record=early.record, held=(), annotations={names.APPROVE_REBOOT: text})
    there = after(staged, step(staged, FLEET))
    assert there.record.attempt.purpose is Purpose.UPGRADE
    assert there.record.approval.given == text
    assert names.APPROVE_REBOOT not in there.node.annotations


def test_a_version_waits_until_it_is_wanted():
    view = waits_for_upgrade(OTHER)
    assert record_after(view).approval is None
    both = found(staged=(StagedVersion(version=OTHER, kernel=KERNEL),))
    moved = waits_for_upgrade(OTHER, wanted=a_target(OTHER), found=both, driver_pod=a_driver_pod(OTHER))
    there = after(moved, step(moved, FLEET))
    there = after(there, step(there, FLEET))
    assert there.record.target.version == OTHER
    assert there.record.approval.given == OTHER


def test_a_recorded_approval_for_another_version_goes():
    view = a_view(S.REQUIRED, wanted=a_target(OTHER), held=())
    record = record_after(view)
    assert record.target.version == OTHER
    assert record.approval is None


def test_an_approval_for_an_upgrade_outlives_a_recovery():
    record = a_record(S.DONE, Purpose.RECOVERY, approval=Approval(given="true", at=EARLIER), target=a_target())
    view = a_view(S.DONE, Purpose.RECOVERY, record=record, held=(), found=found(OLD, staged=()))
    there = record_after(view)
    assert there.state is S.REQUIRED
    assert there.approval == Approval(given="true", at=EARLIER)


def test_an_upgrade_uses_its_approval_up():
    record = record_after(a_view(S.DONE, found=found(NEW), held=()))
    assert record.approval is None


@pytest.mark.parametrize("state", [S.CORDON, S.JOBS, S.POD_DELETION, S.DRAIN], ids=str)
def test_force_may_be_allowed_while_a_recovery_already_waits_for_pods(state):
    view = a_view(
        state,
        Purpose.RECOVERY,
        found=found(NEW, recovery=SICK),
        pods=(an_npu_pod(blocked_by="its budget is ml/train"),),
        annotations={names.APPROVE_REBOOT: "recovery-force"},
    )
    there = after(view, step(view, FLEET))
    assert there.record.recovery_approval.is_force
    assert names.APPROVE_REBOOT not in there.node.annotations


def test_nothing_else_is_taken_from_a_node_that_is_on_its_way():
    for text in ("true", NEW, "recovery-force"):
        view = a_view(S.POD_DELETION, pods=(an_npu_pod(),), annotations={names.APPROVE_REBOOT: text})
        assert after(view, step(view, FLEET)).node.annotations[names.APPROVE_REBOOT] == text


def test_a_rollback_takes_no_approval_of_its_own():
    record = a_record(S.REQUIRED, Purpose.ROLLBACK)
    view = a_view(S.REQUIRED, Purpose.ROLLBACK, record=record, held=(), annotations={names.APPROVE_REBOOT: "true"})
    assert after(view, step(view, FLEET)).node.annotations[names.APPROVE_REBOOT] == "true"
