"""The table as a whole, and what one step writes."""

import msgspec
import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.npunode import Validation
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import exits
from npu_operator.plan.lifecycle.record import Phase, Target
from npu_operator.plan.lifecycle.table import DETOURS, NONE, ROW_OF, TABLE
from npu_operator.plan.lifecycle.view import STARTED
from tests.unit.plan.lifecycle.nodes import (
    EARLIER,
    FLEET,
    NEW,
    NEXT_BOOT,
    NOW,
    OLD,
    S,
    a_pod,
    a_record,
    a_view,
    after,
    an_npu_pod,
    found,
    policy,
    record_after,
    step,
)

ORDER = (
    "upgrade-required",
    "cordon-required",
    "wait-for-jobs-required",
    "pod-deletion-required",
    "drain-required",
    "node-reboot-required",
    "pod-restart-required",
    "validation-required",
    "uncordon-required",
    "upgrade-done",
)


def test_every_state_has_one_row():
    assert [row.state for row in TABLE] == [NONE, *UpgradeState]
    assert len(ROW_OF) == len(TABLE)


def test_the_states_follow_each_other_as_the_reference_has_them():
    walked, state = [], ROW_OF[NONE].then
    while state is not NONE:
        walked.append(state.value)
        state = ROW_OF[state].then
    assert tuple(walked) == ORDER


def test_every_detour_is_documented_and_asked_once():
    assert len(set(DETOURS)) == len(DETOURS)
    assert all(detour.__doc__ for detour in DETOURS)


def test_every_cell_says_what_it_is():
    cells = [cell for row in TABLE for cell in (row.do, row.over, row.limit, row.ends)]
    assert all(cell.__doc__ for cell in cells)


def test_every_state_out_of_service_has_a_limit_by_default():
    for state in STARTED:
        assert ROW_OF[state].limit(a_view(state)) is not None, f"{state} may wait for ever"


STUCK = {
    S.CORDON: {"unschedulable": False, "cordon_is_ours": False},
    S.POD_DELETION: {"pods": (an_npu_pod(blocked_by="its budget is ml/train"),)},
    S.DRAIN: {"pods": (a_pod("web-0", blocked_by="its budget is ml/web"),)},
    S.REBOOT: {},
    S.RESTART: {"found": None},
    S.VALIDATION: {"found": found(NEW, boot_id=NEXT_BOOT, validation=Validation())},
    S.UNCORDON: {"allocatable": 7},
}
LATE = {
    S.CORDON: Reason.CordonRefused,
    S.POD_DELETION: Reason.DrainBlocked,
    S.DRAIN: Reason.DrainBlocked,
    S.REBOOT: Reason.RebootNotExecuted,
    S.RESTART: Reason.DriverNotReady,
    S.VALIDATION: Reason.ValidationTimeout,
    S.UNCORDON: Reason.AllocatableMissing,
}


@pytest.mark.parametrize("state", STUCK, ids=str)
def test_a_state_that_takes_too_long_ends_with_its_own_reason(state):
    view = a_view(state, policy=policy(rollback=False), **STUCK[state])
    limit_s = ROW_OF[state].limit(view)
    waiting = step(msgspec.structs.replace(view, seconds_in_state=limit_s - 1), FLEET)
    assert waiting.to is state
    late = msgspec.structs.replace(view, seconds_in_state=limit_s)
    record = record_after(late)
    assert record.state in (S.FAILED, S.REQUIRED)
    said = record.ended.reason if record.ended is not None else record.tried["drain"].reason
    assert said == LATE[state]
    assert ROW_OF[state].waits_for in (record.ended or record.tried["drain"]).message


@pytest.mark.parametrize("state", STUCK, ids=str)
def test_a_waiting_state_says_what_for_and_until_when(state):
    view = a_view(state, seconds_in_state=100, **STUCK[state])
    found_step = step(view, FLEET)
    assert ROW_OF[state].waits_for in found_step.message
    assert found_step.until > EARLIER
    assert found_step.look_again_s == ROW_OF[state].limit(view) - 100


def test_a_state_that_is_over_is_left_even_if_it_took_too_long():
    view = a_view(S.VALIDATION, seconds_in_state=10**6)
    assert step(view, FLEET).to is S.UNCORDON


def test_a_node_that_may_start_is_cordoned_in_the_patch_that_says_so():
    found_step = step(a_view(S.REQUIRED), FLEET)
    assert found_step.to is S.CORDON
    body = found_step.patch.body
    assert body["metadata"]["resourceVersion"] == "7"
    assert body["metadata"]["labels"][names.UPGRADE_STATE] == "cordon-required"
    assert body["metadata"]["annotations"][names.CORDON_MARK] == "true"
    assert body["spec"] == {"unschedulable": True}


def test_states_with_nothing_to_do_are_passed_in_one_patch():
    found_step = step(a_view(S.CORDON), FLEET)
    assert found_step.to is S.REBOOT
    record = after(a_view(S.CORDON), found_step).record
    assert record.attempt.phase is Phase.ARMED
    assert set(record.since) == set(ORDER[1:6])


def test_a_state_with_something_to_do_is_shown():
    found_step = step(a_view(S.CORDON, pods=(an_npu_pod(),)), FLEET)
    assert found_step.to is S.POD_DELETION
    assert found_step.pods


def test_a_state_with_nothing_to_write_writes_nothing():
    for state, changes in STUCK.items():
        if state not in (S.CORDON, S.UNCORDON):
            view = a_view(state, **changes)
            assert step(view, FLEET).patch is None, state


def test_every_transition_is_an_event():
    told = step(a_view(S.CORDON), FLEET).notes
    assert [note.message for note in told] == [
        "cordon-required → wait-for-jobs-required",
        "wait-for-jobs-required → pod-deletion-required",
        "pod-deletion-required → drain-required",
        "drain-required → node-reboot-required",
    ]
    assert {(note.kind, note.name, note.uid) for note in told} == {("Node", "a7", "uid-a7")}


@pytest.mark.parametrize("state", [S.CORDON, S.JOBS, S.POD_DELETION, S.DRAIN], ids=str)
def test_nothing_is_decided_about_pods_before_they_were_listed(state):
    selector = {"waitForCompletion": {"podSelector": "app=train"}}
    found_step = step(a_view(state, pods=None, policy=policy(**selector)), FLEET)
    assert found_step.to in (S.JOBS, S.POD_DELETION, S.DRAIN)
    assert found_step.needs_pods


def test_jobs_are_not_waited_for_without_a_selector():
    assert step(a_view(S.JOBS, pods=None), FLEET).to is S.POD_DELETION


def test_a_node_in_no_upgrade_is_left_alone():
    in_sync = a_view(found=found(NEW), wanted=Target(version=NEW, options=""))
    found_step = step(in_sync, FLEET)
    assert (found_step.to, found_step.reason, found_step.patch) == (None, Reason.InSync, None)


def test_a_first_install_is_no_upgrade():
    bare = a_view(found=found("", validation=Validation()))
    assert step(bare, FLEET).patch is None


def test_a_node_whose_agent_is_silent_is_asked_nothing():
    assert step(a_view(found=None), FLEET).patch is None


def test_a_node_with_another_driver_is_to_be_upgraded():
    view = a_view(found=found(OLD, staged=()))
    record = record_after(view)
    assert record.state is S.REQUIRED
    assert record.target.version == NEW
    assert record.attempt is None


def test_the_upgrade_is_over_when_nothing_is_left_of_it():
    done = a_view(S.DONE, found=found(NEW), held=())
    found_step = step(done, FLEET)
    assert found_step.to is None
    node = after(done, found_step).node
    assert not node.labels
    assert not node.annotations


def test_a_node_that_is_done_waits_until_its_slot_is_free():
    assert step(a_view(S.DONE, found=found(NEW)), FLEET).to is S.DONE


def test_a_canary_is_done_only_after_its_soak():
    soaking = a_view(S.DONE, found=found(NEW), held=(), soak_s=60, seconds_in_state=59)
    found_step = step(soaking, FLEET)
    assert found_step.to is S.DONE
    assert found_step.look_again_s == 1
    assert step(msgspec.structs.replace(soaking, seconds_in_state=60), FLEET).to is None


def test_a_newer_operators_record_is_left_alone():
    view = a_view(S.DRAIN, annotations={names.ATTEMPT: '{"v": 9}'})
    found_step = step(view, FLEET)
    assert found_step.patch is None
    assert "newer" in found_step.message


def test_a_step_is_the_same_whenever_it_is_asked():
    for state in (None, *UpgradeState):
        view = a_view(state)
        assert step(view, FLEET) == step(view, FLEET)


@pytest.mark.parametrize("purpose", [Purpose.UPGRADE, Purpose.RECOVERY, Purpose.ROLLBACK])
@pytest.mark.parametrize("state", list(STARTED), ids=str)
def test_a_step_taken_twice_is_taken_once(state, purpose):
    """What the first step brought about is no reason for another patch."""
    view = a_view(state, purpose, found=found(OLD) if purpose is not Purpose.UPGRADE else found(NEW))
    there = after(view, step(view, FLEET))
    for _ in range(4):
        there = after(there, step(there, FLEET))
    assert step(there, FLEET).patch is None


def test_an_uncordon_waits_for_what_the_kubelet_offers():
    view = a_view(S.UNCORDON, allocatable=7)
    assert not exits.serves_again(view, FLEET)
    assert step(view, FLEET).patch is None
    done = step(msgspec.structs.replace(view, allocatable=8), FLEET)
    assert done.to is S.DONE
    assert done.patch.body["spec"] == {"unschedulable": None}


def test_a_count_from_before_the_return_to_service_does_not_count():
    view = a_view(S.UNCORDON, found=found(NEW, boot_id=NEXT_BOOT, in_service=False))
    assert step(view, FLEET).patch is None


def test_stamps_of_a_walk_are_kept_for_its_history():
    record = record_after(a_view(S.VALIDATION, record=a_record(S.VALIDATION)))
    assert record.since["validation-required"] == EARLIER
    assert record.since["uncordon-required"] == NOW
