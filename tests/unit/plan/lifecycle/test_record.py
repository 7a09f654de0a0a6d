import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import record as records
from npu_operator.plan.lifecycle.record import Approval, Phase, Record, Target, Tried
from tests.unit.plan.lifecycle.nodes import BOOT, EARLIER, NEXT_BOOT, NOW, S, a_failure, a_node, a_record, an_attempt

FULL = a_record(
    S.REBOOT,
    approval=Approval(given="true", at=EARLIER),
    ended=a_failure(outcome=Reason.RolledBack),
    tried={"drain": Tried(count=2, at=EARLIER, reason=Reason.DrainBlocked, message="ml/train-0")},
    recoveries=(EARLIER,),
    left="try-0",
)


def test_a_record_comes_back_as_it_was_written():
    assert records.read(a_node(FULL)).record == FULL


def test_the_same_record_is_always_the_same_text():
    again = records.read(a_node(FULL)).record
    assert records.write(again) == records.write(FULL)


def test_a_record_with_nothing_in_it_is_no_annotation():
    assert records.write(Record()) is None
    assert names.ATTEMPT not in a_node(Record()).annotations


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"attempt": 7}', '{"state": "no-such-state"}', '{"v": "x"}'])
def test_a_broken_record_is_a_reason_and_no_crash(text: str):
    reading = records.read(a_node(annotations={names.ATTEMPT: text}))
    assert reading.record == records.EMPTY
    assert names.ATTEMPT in reading.problem
    assert not reading.is_newer


def test_a_record_of_a_newer_operator_is_told_from_a_broken_one():
    reading = records.read(a_node(annotations={names.ATTEMPT: '{"v": 2, "attempt": 7}'}))
    assert reading.is_newer
    assert "newer operator" in reading.problem


def test_fields_that_a_later_release_added_do_not_make_a_record_unreadable():
    assert records.read(a_node(annotations={names.ATTEMPT: '{"later": 1, "left": "try-1"}'})).record.left == "try-1"


def test_ids_differ_by_node_version_and_purpose():
    ids = {
        records.new_id(node, purpose)
        for node in (a_node(), a_node(version="8"))
        for purpose in (Purpose.UPGRADE, Purpose.RECOVERY)
    }
    assert len(ids) == 4
    assert {len(one) for one in ids} == {records.ID_DIGITS}


def test_an_armed_record_authorises_the_reboot_of_this_boot():
    attempt = records.authorised(a_node(a_record(S.REBOOT)))
    assert attempt is not None
    assert attempt.id == "try-1"


@pytest.mark.parametrize(
    "node",
    [
        a_node(a_record(S.DRAIN)),
        a_node(a_record(S.REBOOT), boot_id=NEXT_BOOT),
        a_node(a_record(S.REBOOT), labels={names.UPGRADE_STATE: "drain-required"}),
        a_node(a_record(S.REBOOT), labels={names.UPGRADE_STATE: None}),
        a_node(a_record(S.REBOOT), annotations={names.ATTEMPT: "{"}),
        a_node(),
    ],
    ids=["not armed", "booted since", "another label", "no label", "unreadable", "nothing"],
)
def test_nothing_else_authorises_a_reboot(node):
    assert records.authorised(node) is None


@pytest.mark.parametrize("state", [None, *UpgradeState], ids=str)
def test_the_marks_for_old_scripts_stand_only_while_a_reboot_is_armed(state):
    labels, annotations = records.keys_of(a_record(state))
    is_armed = state is S.REBOOT
    assert (annotations[names.REBOOT_IN_PROGRESS] == "true") is is_armed
    assert annotations[names.PRE_REBOOT_BOOT_ID] == (BOOT if is_armed else None)
    assert labels[names.UPGRADE_STATE] == (state.value if state is not None else None)


def test_the_label_that_a_reboot_is_required_goes_with_the_boot():
    required = {state: records.keys_of(a_record(state))[0][names.REBOOT_REQUIRED] for state in UpgradeState}
    assert {state for state, value in required.items() if value == "true"} == {
        S.REQUIRED,
        S.CORDON,
        S.JOBS,
        S.POD_DELETION,
        S.DRAIN,
        S.REBOOT,
        S.FAILED,
    }


def test_a_restart_of_the_runtime_shows_no_reboot():
    record = Record(attempt=an_attempt(Purpose.RUNTIME, phase=Phase.RUNNING))
    assert set(records.keys_of(record)[0].values()) == {None}


def test_entering_a_state_stamps_it_and_keeps_the_stamps_before():
    record = a_record(S.CORDON).entered(S.JOBS, NOW)
    assert record.since == {"cordon-required": EARLIER, "wait-for-jobs-required": NOW}
    assert record.entered(None, NOW).since == {}


@pytest.mark.parametrize(
    ("one", "other", "will_do"),
    [
        (Target(version="1"), Target(version="1"), True),
        (Target(version="1"), Target(version="2"), False),
        (Target(version="1", digest="sha256:a"), Target(version="1"), True),
        (Target(version="1", digest="sha256:a"), Target(version="1", digest="sha256:b"), False),
        (Target(version="1", content="aa"), Target(version="1", content="bb"), False),
        (Target(version="1", options=""), Target(version="1", options="x"), False),
        (Target(version="1"), Target(version="1", options="x"), True),
    ],
)
def test_drivers_are_compared_by_what_both_sides_know(one, other, will_do):
    assert one.is_met_by(other) is will_do
    assert other.is_met_by(one) is will_do
