"""Cordon, wait, evict, drain: only our own cordon, budgets first, force only where it was allowed."""

import msgspec
import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle.effects import AnnotatePod, DeletePod, Evict
from npu_operator.plan.lifecycle.record import Approval
from tests.unit.plan.lifecycle.nodes import (
    EARLIER,
    FLEET,
    NEW,
    NOW,
    SICK,
    S,
    a_pod,
    a_record,
    a_view,
    after,
    an_npu_pod,
    found,
    policy,
    record_after,
    recovery_policy,
    step,
)

FORCED = policy(podDeletion={"force": True})
BUDGET = "its budget is ml/train"


def written(view):
    return {type(write): write.name for write in step(view, FLEET).pods}


# --- cordons


def test_a_cordon_that_is_there_already_stays_somebody_elses():
    view = a_view(
        S.CORDON, unschedulable=True, cordon_is_ours=False, policy=policy(ignoreCordoned=False), pods=(an_npu_pod(),)
    )
    there = after(view, step(view, FLEET))
    assert names.CORDON_MARK not in there.node.annotations
    assert there.node.unschedulable


def test_a_cordon_set_by_an_admin_survives_the_upgrade():
    """D01"""
    view = a_view(S.UNCORDON, unschedulable=True, cordon_is_ours=False)
    there = after(view, step(view, FLEET))
    assert there.state is S.DONE
    assert there.node.unschedulable


def test_keep_cordoned_makes_our_cordon_theirs():
    view = a_view(S.UNCORDON, annotations={names.KEEP_CORDONED: "true"})
    there = after(view, step(view, FLEET))
    assert there.state is S.DONE
    assert there.node.unschedulable
    assert names.CORDON_MARK not in there.node.annotations


def test_our_own_cordon_goes_with_its_mark():
    there = after(a_view(S.UNCORDON), step(a_view(S.UNCORDON), FLEET))
    assert not there.node.unschedulable
    assert names.CORDON_MARK not in there.node.annotations


def test_a_foreign_uncordon_is_an_event_and_not_undone():
    view = a_view(S.POD_DELETION, unschedulable=False, pods=(an_npu_pod(),))
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.state is S.POD_DELETION
    assert not there.node.unschedulable
    assert names.CORDON_MARK not in there.node.annotations
    assert "ForeignUncordon" in {note.reason for note in found_step.notes}


def test_an_uncordon_followed_by_a_cordon_keeps_the_cordon():
    uncordoned = a_view(S.POD_DELETION, unschedulable=False, pods=(an_npu_pod(),))
    noticed = after(uncordoned, step(uncordoned, FLEET))
    theirs = msgspec.structs.replace(
        a_view(S.UNCORDON, record=msgspec.structs.replace(a_record(S.UNCORDON), uncordoned=True)),
        node=msgspec.structs.replace(a_view(S.UNCORDON, cordon_is_ours=False).node, unschedulable=True),
    )
    assert noticed.record.uncordoned
    assert after(theirs, step(theirs, FLEET)).node.unschedulable


def test_a_node_that_was_uncordoned_is_emptied_again_right_before_its_reboot():
    record = msgspec.structs.replace(a_record(S.REBOOT), uncordoned=True)
    view = a_view(S.REBOOT, record=record, cordon_is_ours=False, pods=(a_pod("web-0"),))
    assert written(view) == {Evict: "web-0"}
    assert step(view, FLEET).to is S.REBOOT


def test_an_uncordoned_node_goes_on_to_its_reboot():
    record = msgspec.structs.replace(a_record(S.DRAIN), uncordoned=True)
    view = a_view(S.DRAIN, record=record, cordon_is_ours=False)
    there = after(view, step(view, FLEET))
    assert there.state is S.REBOOT
    assert not there.node.unschedulable


# --- jobs

JOBS = {"waitForCompletion": {"podSelector": "app=train", "timeoutSecond": 3600}}


def test_jobs_may_end_by_themselves():
    view = a_view(S.JOBS, policy=policy(**JOBS), pods=(an_npu_pod(is_awaited=True),), seconds_in_state=3599)
    found_step = step(view, FLEET)
    assert (found_step.to, found_step.reason, found_step.pods) == (S.JOBS, Reason.WaitsForJobs, ())
    assert "ml/train-0" in found_step.message


def test_after_their_time_jobs_are_evicted_like_others():
    view = a_view(S.JOBS, policy=policy(**JOBS), pods=(an_npu_pod(is_awaited=True),), seconds_in_state=3600)
    found_step = step(view, FLEET)
    assert found_step.to is S.POD_DELETION
    assert found_step.pods


def test_without_a_limit_jobs_are_waited_for():
    endless = policy(waitForCompletion={"podSelector": "app=train", "timeoutSecond": 0})
    view = a_view(S.JOBS, policy=endless, pods=(an_npu_pod(is_awaited=True),), seconds_in_state=10**7)
    assert step(view, FLEET).to is S.JOBS


@pytest.mark.parametrize("pod", [an_npu_pod(is_awaited=True, is_finished=True), an_npu_pod()], ids=["over", "other"])
def test_other_pods_are_not_waited_for(pod):
    assert step(a_view(S.JOBS, policy=policy(**JOBS), pods=(pod,)), FLEET).to is not S.JOBS


# --- pods with NPUs


def test_pods_with_npus_are_evicted_with_the_grace_the_policy_says():
    view = a_view(S.POD_DELETION, policy=policy(podDeletion={"gracePeriodSecond": 30}), pods=(an_npu_pod(),))
    (eviction,) = step(view, FLEET).pods
    assert isinstance(eviction, Evict)
    assert (eviction.uid, eviction.grace_s) == ("uid-train-0", 30)


def test_only_pods_with_npus_are_evicted_at_first():
    view = a_view(S.POD_DELETION, pods=(a_pod("web-0"), an_npu_pod("train-0")))
    assert [write.name for write in step(view, FLEET).pods] == ["train-0"]


def test_finished_pods_are_no_obstacle():
    assert step(a_view(S.POD_DELETION, pods=(an_npu_pod(is_finished=True),)), FLEET).to is S.REBOOT


def test_a_terminating_pod_is_waited_for_and_not_evicted_again():
    view = a_view(S.POD_DELETION, pods=(an_npu_pod(is_terminating=True, gone_by="2026-11-30T12:00:20Z"),))
    found_step = step(view, FLEET)
    assert (found_step.to, found_step.pods) == (S.POD_DELETION, ())
    assert found_step.look_again_s == 20


@pytest.mark.parametrize(
    ("pod", "setting"),
    [(an_npu_pod(is_bare=True), "podDeletion.force"), (an_npu_pod(has_empty_dir=True), "podDeletion.deleteEmptyDir")],
)
def test_a_pod_whose_loss_was_not_allowed_stays_and_says_which_setting_would(pod, setting):
    view = a_view(S.POD_DELETION, pods=(pod,))
    found_step = step(view, FLEET)
    assert found_step.pods == ()
    assert setting in found_step.message


@pytest.mark.parametrize(
    ("pod", "allowed"),
    [
        (an_npu_pod(is_bare=True), FORCED),
        (an_npu_pod(has_empty_dir=True), FORCED),
        (an_npu_pod(has_empty_dir=True), policy(podDeletion={"deleteEmptyDir": True})),
        (an_npu_pod(is_daemon=True), policy()),
    ],
    ids=["bare", "emptyDir by force", "emptyDir", "a DaemonSet's"],
)
def test_a_pod_whose_loss_was_allowed_is_evicted(pod, allowed):
    assert written(a_view(S.POD_DELETION, policy=allowed, pods=(pod,))) == {Evict: "train-0"}


def test_a_static_pod_with_an_npu_is_not_evicted_but_blocks():
    view = a_view(S.POD_DELETION, pods=(an_npu_pod(is_mirror=True),))
    assert step(view, FLEET).pods == ()
    assert "a static pod" in step(view, FLEET).message


def test_a_blocked_node_is_given_back_and_names_pod_and_budget():
    """D11"""
    pods = (an_npu_pod(blocked_by=BUDGET),)
    view = a_view(S.POD_DELETION, pods=pods, seconds_in_state=300)
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.state is S.REQUIRED
    assert not there.node.unschedulable
    assert there.record.approval == Approval(given="true", at=EARLIER), "nothing was used up"
    assert there.record.attempt.id != "try-1"
    assert there.record.left == "try-1", "the slot is free at once"
    tried = there.record.tried["drain"]
    assert (tried.count, tried.reason, tried.at) == (1, Reason.DrainBlocked, NOW)
    assert f"ml/train-0 ({BUDGET})" in tried.message
    assert found_step.reason == Reason.DrainBlocked
    assert there.record.ended is None, "it has not failed"


def test_the_next_time_its_back_off_is_longer():
    once = record_after(a_view(S.POD_DELETION, pods=(an_npu_pod(blocked_by=BUDGET),), seconds_in_state=300))
    again = a_record(S.POD_DELETION, tried=once.tried)
    twice = record_after(a_view(S.POD_DELETION, record=again, pods=(an_npu_pod(),), seconds_in_state=300))
    assert twice.tried["drain"].count == 2


def test_a_pods_own_grace_period_is_honoured_beyond_our_limit():
    """D15"""
    long = an_npu_pod(is_terminating=True, gone_by="2026-11-30T11:30:00Z")  # 30 min after the state was entered
    view = a_view(S.POD_DELETION, pods=(long,), seconds_in_state=1799)
    assert step(view, FLEET).to is S.POD_DELETION
    assert step(msgspec.structs.replace(view, seconds_in_state=1800), FLEET).to is S.REQUIRED


def test_no_limit_means_no_limit():
    endless = policy(podDeletion={"timeoutSecond": 0})
    view = a_view(S.POD_DELETION, policy=endless, pods=(an_npu_pod(blocked_by=BUDGET),), seconds_in_state=10**7)
    assert step(view, FLEET).to is S.POD_DELETION


def test_with_force_pods_are_deleted_past_their_budgets_and_the_node_goes_on():
    pods = (an_npu_pod("a", blocked_by=BUDGET), an_npu_pod("b", is_terminating=True), an_npu_pod("c", is_bare=True))
    view = a_view(S.POD_DELETION, policy=FORCED, pods=pods, seconds_in_state=300)
    found_step = step(view, FLEET)
    assert [(type(write), write.name, write.grace_s) for write in found_step.pods] == [
        (DeletePod, "a", 0),
        (DeletePod, "b", 0),
        (DeletePod, "c", 0),
    ]
    assert found_step.to is S.DRAIN


def test_before_its_limit_force_still_asks_the_budgets():
    view = a_view(S.POD_DELETION, policy=FORCED, pods=(an_npu_pod(blocked_by=BUDGET),), seconds_in_state=299)
    assert written(view) == {Evict: "train-0"}


def test_a_node_is_never_armed_while_a_pod_with_an_npu_runs():
    for pod in (an_npu_pod(), an_npu_pod(is_terminating=True), an_npu_pod(is_daemon=True), an_npu_pod(is_mirror=True)):
        found_step = step(a_view(S.DRAIN, pods=(pod,)), FLEET)
        assert found_step.to is S.DRAIN, pod


def test_with_force_a_stuck_pod_does_not_keep_the_node_from_its_reboot():
    view = a_view(S.DRAIN, policy=FORCED, pods=(an_npu_pod(is_terminating=True),))
    assert step(view, FLEET).to is S.REBOOT
    assert written(view) == {DeletePod: "train-0"}


def test_a_node_that_is_given_back_evicts_nobody():
    view = a_view(S.POD_DELETION, pods=(an_npu_pod("a", is_bare=True), an_npu_pod("b")), seconds_in_state=300)
    assert step(view, FLEET).to is S.REQUIRED
    assert step(view, FLEET).pods == ()


# --- checkpoints


def test_a_pod_that_wants_a_checkpoint_is_asked_for_it_first():
    view = a_view(S.POD_DELETION, pods=(an_npu_pod(checkpoint_s=900),))
    found_step = step(view, FLEET)
    (asked,) = found_step.pods
    assert isinstance(asked, AnnotatePod)
    assert asked.annotations == {names.DRAIN_REQUESTED: NOW}
    assert found_step.look_again_s == 900


def test_while_the_checkpoint_is_written_nobody_evicts():
    pod = an_npu_pod(checkpoint_s=900, drain_requested="2026-11-30T11:50:00Z")
    found_step = step(a_view(S.POD_DELETION, pods=(pod,), seconds_in_state=600), FLEET)
    assert (found_step.pods, found_step.reason) == ((), Reason.WaitsForCheckpoint)
    assert found_step.look_again_s == 300


@pytest.mark.parametrize(
    "pod",
    [
        an_npu_pod(checkpoint_s=900, drain_requested="2026-11-30T11:50:00Z", is_checkpoint_done=True),
        an_npu_pod(checkpoint_s=900, drain_requested="2026-11-30T11:45:00Z"),
    ],
    ids=["done", "time over"],
)
def test_after_the_checkpoint_the_pod_is_evicted(pod):
    assert written(a_view(S.POD_DELETION, pods=(pod,), seconds_in_state=900)) == {Evict: "train-0"}


def test_the_time_for_a_checkpoint_comes_on_top_of_the_limit():
    pod = an_npu_pod(checkpoint_s=900, drain_requested=EARLIER, blocked_by=BUDGET)
    view = a_view(S.POD_DELETION, pods=(pod,), seconds_in_state=1199)
    assert step(view, FLEET).to is S.POD_DELETION
    assert step(msgspec.structs.replace(view, seconds_in_state=1200), FLEET).to is S.REQUIRED


# --- the others


def test_the_drain_takes_what_a_drain_takes():
    pods = (
        a_pod("web-0"),
        a_pod("static", is_mirror=True),
        a_pod("logs", is_daemon=True),
        a_pod("done", is_finished=True),
        a_pod("operator", is_operator=True),
        a_pod("leaving", is_terminating=True),
        a_pod("other", is_selected=False),
    )
    found_step = step(a_view(S.DRAIN, pods=pods), FLEET)
    assert [write.name for write in found_step.pods] == ["web-0"]
    assert found_step.to is S.DRAIN


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(is_mirror=True),
        a_pod(is_daemon=True),
        a_pod(is_finished=True),
        a_pod(is_selected=False),
        a_pod(is_operator=True),
    ],
    ids=["static", "DaemonSet", "finished", "not selected", "operator"],
)
def test_what_a_drain_leaves_does_not_keep_a_node_from_its_reboot(pod):
    """U23: the operator's own pod among them."""
    assert step(a_view(S.DRAIN, pods=(pod,)), FLEET).to is S.REBOOT


def test_a_switched_off_drain_leaves_all_pods_without_npus():
    view = a_view(S.DRAIN, policy=policy(drainSpec={"enable": False}), pods=(a_pod(),))
    assert step(view, FLEET).to is S.REBOOT
    holder = a_view(S.DRAIN, policy=policy(drainSpec={"enable": False}), pods=(an_npu_pod(),))
    assert step(holder, FLEET).to is S.DRAIN


@pytest.mark.parametrize(
    ("pod", "drain"),
    [(a_pod(is_bare=True), {"force": True}), (a_pod(has_empty_dir=True), {"deleteEmptyDir": True})],
    ids=["bare", "emptyDir"],
)
def test_drains_force_means_pods_without_a_controller_and_nothing_more(pod, drain):
    assert step(a_view(S.DRAIN, pods=(pod,)), FLEET).pods == ()
    view = a_view(S.DRAIN, pods=(pod,), policy=policy(drainSpec=drain), seconds_in_state=1)
    assert {type(write) for write in step(view, FLEET).pods} == {Evict}
    late = msgspec.structs.replace(view, seconds_in_state=300)
    assert after(late, step(late, FLEET)).state is S.REQUIRED


def test_podDeletions_force_kills_no_pod_without_an_npu():  # noqa: N802 - the field's name
    view = a_view(S.DRAIN, policy=FORCED, pods=(a_pod(blocked_by=BUDGET),), seconds_in_state=300)
    found_step = step(view, FLEET)
    assert found_step.to is S.REQUIRED
    assert not [write for write in found_step.pods if isinstance(write, DeletePod)]


def test_only_a_few_pods_are_named_and_the_blocked_ones_first():
    pods = tuple(an_npu_pod(f"train-{number}", blocked_by=BUDGET if number == 7 else "") for number in range(9))
    message = step(a_view(S.POD_DELETION, pods=pods), FLEET).message
    assert message.endswith(f": ml/train-7 ({BUDGET}), ml/train-0, ml/train-1, 6 more")


# --- recoveries


def test_a_recovery_that_cannot_be_emptied_says_so_in_its_own_words():
    view = a_view(
        S.POD_DELETION,
        Purpose.RECOVERY,
        found=found(NEW, recovery=SICK),
        pods=(an_npu_pod(blocked_by=BUDGET),),
        seconds_in_state=3600,
    )
    there = after(view, step(view, FLEET))
    assert there.state is None
    assert there.record.tried["drain"].reason == Reason.RecoveryBlocked
    assert there.record.attempt.purpose is Purpose.RECOVERY
    assert not there.node.unschedulable


def test_a_recovery_has_a_limit_of_its_own():
    view = a_view(
        S.POD_DELETION, Purpose.RECOVERY, found=found(NEW, recovery=SICK), pods=(an_npu_pod(),), seconds_in_state=3599
    )
    assert step(view, FLEET).to is S.POD_DELETION


@pytest.mark.parametrize(
    "allowed",
    [
        {"recovery": recovery_policy(drain={"force": True})},
        {
            "record": a_record(
                S.POD_DELETION, Purpose.RECOVERY, recovery_approval=Approval(given="recovery-force", at=EARLIER)
            )
        },
    ],
    ids=["by policy", "by approval"],
)
def test_a_forced_recovery_goes_on(allowed):
    view = a_view(
        S.POD_DELETION,
        Purpose.RECOVERY,
        found=found(NEW, recovery=SICK),
        pods=(an_npu_pod(blocked_by=BUDGET),),
        seconds_in_state=3600,
        **allowed,
    )
    assert {type(write) for write in step(view, FLEET).pods} == {DeletePod}


def test_an_upgrades_force_is_none_for_a_recovery():
    view = a_view(
        S.POD_DELETION,
        Purpose.RECOVERY,
        policy=FORCED,
        found=found(NEW, recovery=SICK),
        pods=(an_npu_pod(),),
        seconds_in_state=3600,
    )
    assert step(view, FLEET).to is None
