"""A sick chip: asked for, approved or not, at most so often, and never when the tool is to be doubted."""

import msgspec
import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.npunode import RebootReport, RecoveryRequest
from npu_operator.model.policies import Healer
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import recovery
from npu_operator.plan.lifecycle.effects import No
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.record import Approval, Record
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
    a_failure,
    a_holder,
    a_record,
    a_view,
    after,
    an_npu_pod,
    found,
    record_after,
    recovery_policy,
    step,
)

AUTO = recovery_policy(autoRecover=True)
BREAKER = Fleet(breaker=No(Reason.TooManyUnhealthy, "more nodes are sick at once"))
SHUT = Fleet(window=No(Reason.WaitsForWindow, "closed"))


def sick(**changes):
    """A node in sync whose agent asks for a reboot."""
    return a_view(None, purpose=None, **{"found": found(NEW, recovery=SICK), **changes})


def in_recovery(state, **changes):
    fields = {"found": found(NEW, recovery=SICK), **changes}
    return a_view(state, Purpose.RECOVERY, **fields)


def test_without_autoRecover_the_node_serves_on_and_says_what_it_needs():  # noqa: N802
    view = sick()
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.state is None
    assert not there.node.unschedulable
    assert there.node.labels[names.REBOOT_REQUIRED] == "true"
    assert names.UPGRADE_STATE not in there.node.labels
    assert there.record.attempt.purpose is Purpose.RECOVERY
    assert found_step.reason == Reason.WaitsForApproval
    (told,) = [note for note in found_step.notes if note.reason == "RebootRequired"]
    assert "reason=recovery" in told.message
    assert "npu-smi hangs" in told.message


def test_an_approved_recovery_with_a_slot_goes_from_serving_to_cordoned():
    record = a_record(None, Purpose.RECOVERY, recovery_approval=Approval(given="recovery", at=EARLIER))
    view = in_recovery(None, record=record)
    assert step(view, FLEET).to is S.CORDON
    assert step(msgspec.structs.replace(view, held=()), FLEET).to is None


def test_with_autoRecover_it_goes_on_by_itself():  # noqa: N802
    assert step(in_recovery(None, recovery=AUTO), FLEET).to is S.CORDON


def test_a_chip_that_comes_back_by_itself_clears_the_request():
    view = in_recovery(None, found=found(NEW), held=())
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.record.is_empty
    assert names.REBOOT_REQUIRED not in there.node.labels
    assert "RecoveredByItself" in {note.reason for note in found_step.notes}


@pytest.mark.parametrize("state", [S.CORDON, S.JOBS, S.POD_DELETION, S.DRAIN, S.REBOOT], ids=str)
def test_a_node_whose_chip_came_back_is_not_rebooted(state):
    view = in_recovery(state, found=found(NEW), pods=(an_npu_pod(),))
    there = after(view, step(view, FLEET))
    assert there.state is None
    assert not there.node.unschedulable
    assert there.record.attempt is None


def test_a_silent_agent_clears_nothing():
    assert step(in_recovery(None, found=None, held=()), FLEET).patch is None
    assert step(in_recovery(S.POD_DELETION, found=None, pods=(an_npu_pod(),)), FLEET).to is S.POD_DELETION


def test_a_request_from_before_the_boot_does_not_exist():
    """Stale markers: what was found counts for its own boot alone, so the view leaves it out."""
    assert step(sick(found=None), FLEET).patch is None


@pytest.mark.parametrize("state", [S.CORDON, S.POD_DELETION, S.DRAIN, S.REBOOT], ids=str)
def test_when_too_many_are_sick_nothing_reboots_any_more(state):
    """Scenario 19."""
    view = in_recovery(state, pods=(an_npu_pod(),), recovery=AUTO)
    there = after(view, step(view, BREAKER))
    assert there.state is None
    assert not there.node.unschedulable
    assert step(there, BREAKER).reason == Reason.TooManyUnhealthy


def test_a_reboot_that_was_executed_is_not_stopped_by_the_breaker():
    executed = found(NEW, recovery=SICK, reboot=RebootReport(attempt="try-1", boot_id=BOOT))
    assert step(in_recovery(S.REBOOT, found=executed), BREAKER).to is S.REBOOT


@pytest.mark.parametrize(
    ("sick_nodes", "healthy_before", "limit", "trips"),
    [(1, 3, "20%", False), (2, 3, "20%", True), (2, 10, "20%", False), (3, 10, "20%", True), (1, 0, "20%", False)],
)
def test_the_breaker_counts_against_the_nodes_that_were_healthy(sick_nodes, healthy_before, limit, trips):
    no = recovery.breaker(sick_nodes, healthy_before, recovery_policy(maxUnhealthy=limit))
    assert (no is not None) is trips
    if no is not None:
        assert no.reason == Reason.TooManyUnhealthy


def test_a_recovery_reboot_is_counted_when_it_is_armed():
    assert record_after(in_recovery(S.DRAIN)).recoveries == (NOW,)
    assert record_after(a_view(S.DRAIN)).recoveries == (), "an upgrade's reboot does not count"


USED_UP = (EARLIER, "2026-11-30T11:30:00Z")


def test_after_its_attempts_a_node_needs_a_power_cycle():
    """L20, L26, scenario 20."""
    view = sick(record=Record(recoveries=USED_UP), recovery=AUTO)
    assert record_after(view).attempt is None
    no = recovery.why_not(view)
    assert (no.reason, "switch the node off and on" in no.message) == (Reason.ColdRebootNeeded, True)
    assert step(view, FLEET).reason == Reason.ColdRebootNeeded


def test_attempts_count_for_their_window_only():
    view = sick(record=Record(recoveries=USED_UP), now="2026-12-01T11:15:00Z", recovery=AUTO)
    record = record_after(view)
    assert record.recoveries == USED_UP[1:]
    assert record.attempt is not None


def test_a_node_is_looked_at_when_its_next_attempt_is_forgotten():
    view = a_view(None, purpose=None, record=Record(recoveries=(EARLIER,)), found=found(NEW))
    assert step(view, FLEET).look_again_s == 86400 - 3600


def test_a_recovery_that_did_not_cure_leaves_the_node_cordoned():
    record = a_record(S.VALIDATION, Purpose.RECOVERY, recoveries=(EARLIER,))
    still = found(NEW, boot_id=NEXT_BOOT, recovery=SICK, reboot=RebootReport(attempt="try-1"))
    view = in_recovery(S.VALIDATION, record=record, found=still)
    there = after(view, step(view, FLEET))
    assert there.state is S.FAILED
    assert there.node.unschedulable
    assert there.record.ended.reason == Reason.FaultNeedsReboot
    assert there.record.ended.outcome is None


def test_the_last_recovery_that_did_not_cure_says_that_the_node_has_to_be_switched_off():
    record = a_record(S.VALIDATION, Purpose.RECOVERY, recoveries=USED_UP)
    still = found(NEW, boot_id=NEXT_BOOT, recovery=SICK, reboot=RebootReport(attempt="try-1"))
    view = in_recovery(S.VALIDATION, record=record, found=still)
    there = after(view, step(view, FLEET))
    assert there.record.ended.outcome == Reason.ColdRebootNeeded
    assert there.node.unschedulable
    assert step(there, FLEET).reason == Reason.ColdRebootNeeded


def a_failed_recovery(**changes):
    ended = a_failure(purpose="recovery", reason="FaultNeedsReboot", target=None)
    record = Record(ended=ended, recoveries=(EARLIER,)).entered(S.FAILED, EARLIER)
    fields = {"record": record, "cordon_is_ours": True, "found": found(NEW, recovery=SICK, in_service=False)}
    return a_view(S.FAILED, purpose=None, **(fields | changes))


def test_a_node_that_was_not_cured_is_tried_again_as_long_as_it_has_attempts():
    view = a_failed_recovery(recovery=AUTO)
    there = after(view, step(view, FLEET))
    assert there.state is S.FAILED
    assert there.record.attempt.purpose is Purpose.RECOVERY
    slot = a_holder(there.record.attempt)
    started = msgspec.structs.replace(there, held=(slot,))
    assert after(started, step(started, FLEET)).state is S.REBOOT


def test_a_second_try_that_cannot_be_emptied_does_not_put_a_sick_node_back_into_service():
    ended = a_failure(purpose="recovery", reason="FaultNeedsReboot", target=None)
    record = a_record(S.POD_DELETION, Purpose.RECOVERY, ended=ended)
    view = in_recovery(S.POD_DELETION, record=record, pods=(an_npu_pod(),), seconds_in_state=3600)
    there = after(view, step(view, FLEET))
    assert there.state is S.FAILED
    assert there.node.unschedulable


def test_a_node_that_was_not_cured_and_came_back_by_itself_is_well():
    view = a_failed_recovery(found=found(NEW, in_service=False))
    assert step(view, FLEET).to is S.UNCORDON


def test_retry_lets_a_node_have_its_attempts_again():
    view = a_failed_recovery(labels={names.UPGRADE_STATE: "upgrade-required"})
    there = after(view, step(view, FLEET))
    assert there.state is S.FAILED
    assert there.record.recoveries == ()
    assert there.record.attempt.purpose is Purpose.RECOVERY


def test_an_aborted_recovery_is_not_begun_again_in_the_same_boot():
    view = in_recovery(S.DRAIN, labels={names.UPGRADE_STATE: None}, recovery=AUTO)
    there = msgspec.structs.replace(after(view, step(view, FLEET)), held=())
    assert there.record.ended.reason == Reason.Aborted
    assert there.record.attempt is None
    there = after(there, step(there, FLEET))
    assert there.record.attempt is None
    assert step(there, FLEET).patch is None
    rebooted = sick(record=there.record, found=found(NEW, boot_id=NEXT_BOOT, recovery=SICK), boot_id=NEXT_BOOT, held=())
    assert record_after(rebooted).attempt is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"wanted": None}, Reason.RebootByHand),
        ({"recovery": recovery_policy(healer=Healer.MINDCLUSTER.value)}, Reason.LeftToMindCluster),
    ],
)
def test_where_healing_is_not_our_business_nothing_is_asked_for(changes, reason):
    view = sick(**changes)
    assert step(view, FLEET).patch is None
    assert recovery.why_not(view).reason == reason
    assert step(view, FLEET).reason == reason
    assert "npu-smi hangs" in step(view, FLEET).message


def test_a_node_that_was_just_booted_says_until_when_it_waits():
    """L27"""
    view = in_recovery(None, recovery=AUTO, up_since="2026-11-30T11:53:08Z")
    found_step = step(view, FLEET)
    assert found_step.reason == Reason.UptimeTooShort
    assert found_step.until == "2026-11-30T12:03:08Z"
    assert found_step.look_again_s == 188
    later = msgspec.structs.replace(view, now="2026-11-30T12:03:08Z")
    assert step(later, FLEET).to is S.CORDON


# --- together with upgrades


def needs_both(**changes):
    """Staged for an upgrade, and sick."""
    fields = {"found": found(OLD, recovery=SICK), "held": (), **changes}
    return a_view(S.REQUIRED, **fields)


def test_an_upgrade_that_may_start_serves_both():
    """Scenario 18: one reboot."""
    assert record_after(needs_both(recovery=AUTO, held=a_view(S.REQUIRED).held)).attempt.purpose is Purpose.UPGRADE
    on_its_way = a_view(S.DRAIN, found=found(OLD, recovery=SICK), recovery=AUTO)
    assert record_after(on_its_way).attempt.purpose is Purpose.UPGRADE


def test_a_recovery_goes_first_while_the_upgrade_may_not_start():
    unapproved = a_record(S.REQUIRED, approval=None)
    there = record_after(needs_both(record=unapproved, recovery=AUTO))
    assert there.attempt.purpose is Purpose.RECOVERY
    assert there.state is S.REQUIRED
    assert there.target is not None, "the upgrade is not forgotten"


def test_while_neither_may_start_the_upgrade_is_what_waits():
    unapproved = a_record(S.REQUIRED, approval=None)
    view = needs_both(record=unapproved)
    assert record_after(view).attempt.purpose is Purpose.UPGRADE
    back = a_record(S.REQUIRED, Purpose.RECOVERY, target=a_record(S.REQUIRED).target)
    assert record_after(needs_both(record=back)).attempt.purpose is Purpose.UPGRADE


def test_a_recovery_approved_by_name_goes_first():
    view = needs_both(record=a_record(S.REQUIRED, approval=None), annotations={names.APPROVE_REBOOT: "recovery"})
    there = record_after(view)
    assert there.attempt.purpose is Purpose.RECOVERY
    assert there.recovery_approval.given == "recovery"


def test_an_upgrades_approval_is_still_there_after_the_recovery():
    """U30"""
    record = a_record(
        S.UNCORDON,
        Purpose.RECOVERY,
        target=a_record(S.REQUIRED).target,
        approval=Approval(given="true", at=EARLIER),
        recovery_approval=Approval(given="recovery", at=EARLIER),
    )
    view = a_view(S.UNCORDON, Purpose.RECOVERY, record=record)
    done = after(view, step(view, FLEET))
    assert done.state is S.DONE
    there = record_after(msgspec.structs.replace(done, held=()))
    assert there.state is S.REQUIRED
    assert there.approval == Approval(given="true", at=EARLIER)
    assert there.recovery_approval is None


def test_a_recovery_starts_inside_an_upgrade_that_waits():
    record = a_record(S.REQUIRED, Purpose.RECOVERY, target=a_record(S.REQUIRED).target)
    view = needs_both(record=record, recovery=AUTO, held=(a_holder(record.attempt),))
    assert step(view, FLEET).to is S.CORDON
    closed = record_after(view, SHUT)
    assert closed.attempt.purpose is Purpose.UPGRADE, "an automatic recovery keeps to the window, too"


def test_a_recovery_that_is_given_back_lets_the_upgrade_wait_on():
    record = a_record(S.POD_DELETION, Purpose.RECOVERY, target=a_record(S.REQUIRED).target)
    view = in_recovery(
        S.POD_DELETION, record=record, found=found(OLD, recovery=SICK), pods=(an_npu_pod(),), seconds_in_state=3600
    )
    assert record_after(view).state is S.REQUIRED


def test_a_healthy_agent_without_a_request_asks_for_nothing():
    assert not recovery.is_wanted(sick(found=found(NEW, recovery=RecoveryRequest())))
