"""The reboot: armed once, proved by a boot id, and told from the reboots of others."""

import msgspec
import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.npunode import DriverFound, ManagedBy, RebootReport, Validation
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import record as records
from npu_operator.plan.lifecycle.midflight import REARMS
from npu_operator.plan.lifecycle.record import Phase
from tests.unit.plan.lifecycle.nodes import (
    BOOT,
    EARLIER,
    FLEET,
    NEW,
    NEXT_BOOT,
    NOW,
    OLD,
    SICK,
    S,
    a_driver_pod,
    a_record,
    a_view,
    after,
    an_attempt,
    an_npu_pod,
    found,
    policy,
    record_after,
    step,
)

FOREIGN = RebootReport(attempt="try-0", boot_id="boot-0")
OURS = RebootReport(attempt="try-1", boot_id=BOOT)


def test_arming_writes_everything_before_the_trigger_in_one_patch():
    view = a_view(S.DRAIN)
    there = after(view, step(view, FLEET))
    attempt = records.authorised(there.node)
    assert attempt is not None
    assert (attempt.boot_before, attempt.deadline) == (BOOT, "2026-11-30T12:10:00Z")
    assert attempt.good.version == OLD
    assert there.node.annotations[names.REBOOT_IN_PROGRESS] == "true"
    assert there.node.annotations[names.PRE_REBOOT_BOOT_ID] == BOOT


def test_an_armed_node_is_armed_once():
    assert step(a_view(S.REBOOT), FLEET).patch is None


def test_a_new_boot_id_is_proof_enough():
    """A fast reboot is never NotReady, and the agent may report later."""
    view = a_view(S.REBOOT, boot_id=NEXT_BOOT, found=None)
    there = after(view, step(view, FLEET))
    assert there.state is S.RESTART
    assert there.record.attempt.phase is Phase.BOOTED
    assert names.REBOOT_IN_PROGRESS not in there.node.annotations
    assert names.REBOOT_REQUIRED not in there.node.labels


def test_a_node_that_is_not_ready_is_no_proof():
    """L11"""
    assert step(a_view(S.REBOOT, ready="Unknown", found=None), FLEET).to is S.REBOOT


def test_a_new_boot_with_the_driver_validated_goes_all_the_way():
    view = a_view(S.REBOOT, boot_id=NEXT_BOOT, found=found(NEW, boot_id=NEXT_BOOT, reboot=OURS, in_service=False))
    assert step(view, FLEET).to is S.UNCORDON


def test_a_node_that_does_not_go_down_has_a_limit_of_its_own():
    view = a_view(S.REBOOT, seconds_in_state=599)
    assert step(view, FLEET).to is S.REBOOT
    late = msgspec.structs.replace(view, seconds_in_state=600)
    there = after(late, step(late, FLEET))
    assert there.state is S.FAILED
    assert there.record.ended.reason == Reason.RebootNotExecuted
    assert not there.node.unschedulable, "nothing new was loaded, so it serves again"
    assert records.authorised(there.node) is None


@pytest.mark.parametrize(
    "gone", [{"ready": "Unknown"}, {"found": found(OLD, reboot=OURS)}], ids=["not ready", "the rebooter says so"]
)
def test_a_node_that_went_down_has_longer_to_come_back(gone):
    view = a_view(S.REBOOT, seconds_in_state=3599, **gone)
    assert step(view, FLEET).to is S.REBOOT
    late = msgspec.structs.replace(view, seconds_in_state=3600)
    there = after(late, step(late, FLEET))
    assert there.record.ended.reason == Reason.NodeNotBack
    assert there.record.ended.outcome == Reason.NoRollback
    assert there.node.unschedulable, "nobody knows what it will be like when it comes back"
    assert there.record.left == "try-1"


def test_a_reboot_by_somebody_else_is_recognised_and_uses_up_no_approval():
    """Scenario 14: what was staged is loaded only after our own reboot."""
    view = a_view(S.RESTART, found=found(OLD, boot_id=NEXT_BOOT, reboot=FOREIGN))
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.state is S.REBOOT
    assert there.record.attempt.boot_before == NEXT_BOOT
    assert there.record.attempt.id == "try-1"
    assert there.record.attempt.rearmed == 1
    assert there.record.approval is not None
    assert records.authorised(there.node) is not None
    assert any("another reboot came in between" in note.message for note in found_step.notes)


def test_the_same_is_true_when_the_agent_reports_before_we_look():
    view = a_view(S.REBOOT, boot_id=NEXT_BOOT, found=found(OLD, boot_id=NEXT_BOOT, reboot=FOREIGN))
    record = record_after(view)
    assert (record.state, record.attempt.boot_before) == (S.REBOOT, NEXT_BOOT)


def test_a_foreign_reboot_while_the_node_is_emptied_changes_nothing():
    view = a_view(S.POD_DELETION, boot_id=NEXT_BOOT, found=found(OLD, boot_id=NEXT_BOOT), pods=(an_npu_pod(),))
    assert step(view, FLEET).to is S.POD_DELETION


def test_a_foreign_reboot_that_brought_the_driver_needs_no_other():
    view = a_view(S.RESTART, found=found(NEW, boot_id=NEXT_BOOT, reboot=FOREIGN))
    assert step(view, FLEET).to is S.UNCORDON
    drained = a_view(S.DRAIN, found=found(NEW))
    assert step(drained, FLEET).to is S.UNCORDON


def test_a_node_is_not_armed_again_over_a_pod_with_an_npu():
    view = a_view(S.RESTART, found=found(OLD, boot_id=NEXT_BOOT, reboot=FOREIGN), pods=(an_npu_pod(),))
    record = record_after(view)
    assert record.state is S.POD_DELETION
    assert record.attempt.boot_before == ""


def test_a_node_that_others_reboot_all_the_time_fails():
    attempt = an_attempt(boot_before=BOOT, rearmed=REARMS)
    view = a_view(
        S.RESTART, record=a_record(S.RESTART, attempt=attempt), found=found(OLD, boot_id=NEXT_BOOT, reboot=FOREIGN)
    )
    record = record_after(view)
    assert record.ended.reason == Reason.RebootNotExecuted
    assert str(REARMS) in record.ended.message


def test_a_foreign_reboot_that_cured_a_chip_ends_its_recovery():
    view = a_view(S.RESTART, Purpose.RECOVERY, found=found(NEW, boot_id=NEXT_BOOT, reboot=FOREIGN))
    assert step(view, FLEET).to is S.UNCORDON


def test_a_foreign_reboot_that_cured_nothing_does_not_count_as_a_recovery():
    record = a_record(S.RESTART, Purpose.RECOVERY, recoveries=(EARLIER,))
    sick = found(NEW, boot_id=NEXT_BOOT, reboot=FOREIGN, recovery=SICK)
    there = record_after(a_view(S.RESTART, Purpose.RECOVERY, record=record, found=sick))
    assert there.state is S.REBOOT
    assert there.recoveries == (NOW,), "armed again counts once"


def test_a_pod_that_gets_a_chip_before_the_trigger_disarms_the_reboot():
    view = a_view(S.REBOOT, pods=(an_npu_pod(),))
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.state is S.POD_DELETION
    assert records.authorised(there.node) is None
    assert found_step.pods
    assert "NpuInUse" in {note.reason for note in found_step.notes}


@pytest.mark.parametrize(
    "changes",
    [
        {"found": found(OLD, reboot=OURS)},
        {"policy": policy(podDeletion={"force": True})},
    ],
    ids=["already executed", "forced"],
)
def test_a_reboot_that_cannot_or_need_not_be_stopped_is_not_disarmed(changes):
    assert step(a_view(S.REBOOT, pods=(an_npu_pod(),), **changes), FLEET).to is S.REBOOT


@pytest.mark.parametrize("reason", ["LoadCrashed", "LoadFailed", "TrialLost"])
def test_a_loader_that_has_given_up_is_not_waited_for(reason):
    driver = DriverFound(reason=reason, message="its own words", managed_by=ManagedBy.OPERATOR, good_version=OLD)
    view = a_view(S.RESTART, found=found("", boot_id=NEXT_BOOT, reboot=OURS, driver=driver))
    record = record_after(view)
    assert record.ended.reason == reason
    assert record.ended.message == "its own words"


def test_a_loader_that_still_tries_is_waited_for():
    driver = DriverFound(reason="DriverNotReady", managed_by=ManagedBy.OPERATOR)
    view = a_view(S.RESTART, found=found("", boot_id=NEXT_BOOT, reboot=OURS, driver=driver))
    assert step(view, FLEET).to is S.RESTART


def test_another_driver_after_our_own_reboot_is_a_lost_trial():
    record = record_after(a_view(S.RESTART, found=found(OLD, boot_id=NEXT_BOOT, reboot=OURS)))
    assert record.ended.reason == Reason.TrialLost
    later = record_after(a_view(S.VALIDATION, found=found(OLD, boot_id="boot-3", reboot=OURS), boot_id="boot-3"))
    assert later.ended.reason == Reason.TrialLost


def test_a_broken_loader_gets_a_new_pod_after_a_while():
    pod = a_driver_pod(is_loader_broken=True, trouble="CrashLoopBackOff", created="2026-11-30T11:58:30Z")
    view = a_view(S.RESTART, found=None, driver_pod=pod)
    young = step(view, FLEET)
    assert (young.pods, young.look_again_s) == ((), 30)
    old = step(msgspec.structs.replace(view, now="2026-11-30T12:00:30Z"), FLEET)
    assert [write.uid for write in old.pods] == ["uid-x"]
    assert "CrashLoopBackOff" in old.pods[0].why


@pytest.mark.parametrize("pod", [None, a_driver_pod(), a_driver_pod(is_loader_broken=True, is_terminating=True)])
def test_a_loader_that_works_or_is_being_replaced_is_left_alone(pod):
    assert step(a_view(S.RESTART, found=None, driver_pod=pod), FLEET).pods == ()


@pytest.mark.parametrize(
    "verdict",
    [
        Validation(passed=True, boot_id=BOOT, version=NEW),
        Validation(passed=True, boot_id=NEXT_BOOT, version=OLD),
        Validation(),
    ],
    ids=["of another boot", "about another driver", "none"],
)
def test_only_a_verdict_about_this_boot_and_this_driver_counts(verdict):
    """U14"""
    view = a_view(S.VALIDATION, found=found(NEW, boot_id=NEXT_BOOT, reboot=OURS, validation=verdict))
    assert step(view, FLEET).to is S.VALIDATION


def test_a_bad_verdict_is_not_waited_out():
    bad = Validation(boot_id=NEXT_BOOT, version=NEW, reason="HccnLinkDown", message="link of chip 3 is down")
    record = record_after(a_view(S.VALIDATION, found=found(NEW, boot_id=NEXT_BOOT, reboot=OURS, validation=bad)))
    assert record.ended.reason == Reason.HccnLinkDown
    assert record.ended.message == "link of chip 3 is down"


def test_a_verdict_in_words_that_we_do_not_know_is_still_a_bad_one():
    bad = Validation(boot_id=NEXT_BOOT, version=NEW, reason="SomethingNew")
    record = record_after(a_view(S.VALIDATION, found=found(NEW, boot_id=NEXT_BOOT, reboot=OURS, validation=bad)))
    assert record.ended.reason == Reason.ValidationFailed
