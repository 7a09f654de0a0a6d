import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import gates
from npu_operator.plan.lifecycle.effects import No
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.record import Approval, Tried
from tests.unit.plan.lifecycle.nodes import (
    EARLIER,
    FLEET,
    NOW,
    SICK,
    STAGE_FAILED,
    S,
    a_driver_pod,
    a_record,
    a_view,
    an_attempt,
    found,
    policy,
    recovery_policy,
    step,
)

PAUSED = No(Reason.Paused, "the mode is Paused")
NO_IMAGE = No(Reason.ImageMissing, "mlops/ascend-driver:25.5.0-910b not found")
OLD_FIRMWARE = No(Reason.FirmwareOutOfRange, "firmware 7.1 lies outside [7.5,7.9]")
CLOSED = No(Reason.WaitsForWindow, "the maintenance window opens at 2026-12-01T22:00:00Z")
FAILURES = No(Reason.MaxFailures, "more nodes failed than maxFailures 1 allows")
CANARY = No(Reason.WaitsForCanary, "canary a1 is not through yet")
DRAINED = Tried(count=1, at=NOW, reason=Reason.DrainBlocked, message="ml/train-0 (its budget is ml/train)")
UNAPPROVED = {"record": a_record(S.REQUIRED, approval=None)}

UPGRADE_CHAIN = [
    # what is in the way of the node             the fleet                          the reason people see
    ({}, {"halted": PAUSED}, Reason.Paused),
    ({"annotations": {names.UPGRADE_SKIP: "true"}}, {}, Reason.SkippedByAnnotation),
    ({"labels": {names.HEALTH: "unhealthy"}}, {}, Reason.CordonedByOthers),
    ({"unschedulable": True}, {}, Reason.CordonedByOthers),
    ({"image": NO_IMAGE, "driver_pod": a_driver_pod("25.3.RC1")}, {}, Reason.ImageMissing),
    ({"firmware": OLD_FIRMWARE}, {}, Reason.FirmwareOutOfRange),
    ({"driver_pod": a_driver_pod("25.3.RC1")}, {}, Reason.Staging),
    (UNAPPROVED, {}, Reason.WaitsForApproval),
    ({}, {"failures": FAILURES}, Reason.MaxFailures),
    ({"ready": "False"}, {}, Reason.NodeNotReady),
    ({"record": a_record(S.REQUIRED, tried={"drain": DRAINED})}, {}, Reason.DrainBlocked),
    ({}, {"window": CLOSED}, Reason.WaitsForWindow),
    ({}, {"canaries": {"pool-1": CANARY}}, Reason.WaitsForCanary),
    ({"hosts_registry": True}, {"is_all_staged": False}, Reason.WaitsForOthers),
    ({"held": ()}, {}, Reason.WaitsForSlot),
]


@pytest.mark.parametrize(("node", "fleet", "reason"), UPGRADE_CHAIN, ids=[str(row[2]) for row in UPGRADE_CHAIN])
def test_each_gate_keeps_a_node_from_starting_with_its_own_reason(node, fleet, reason):
    found_step = step(a_view(S.REQUIRED, **node), Fleet(**fleet))
    assert found_step.to is S.REQUIRED
    assert found_step.reason == reason
    assert found_step.message


def test_the_gates_are_asked_in_this_order():
    """Everything is in the way at once; each time the first obstacle goes, the next one is told."""
    told = []
    for place in range(len(UPGRADE_CHAIN)):
        node, fleet, record = {}, {}, {"approval": Approval(given="true", at=EARLIER)}
        for changes, others, _ in reversed(UPGRADE_CHAIN[place:]):
            changes = dict(changes)
            if "record" in changes:
                theirs = changes.pop("record")
                record |= {"approval": None} if theirs.approval is None else {}
                record |= {"tried": theirs.tried} if theirs.tried else {}
            node = {**node, **changes}
            fleet = {**fleet, **others}
        view = a_view(S.REQUIRED, record=a_record(S.REQUIRED, **record), **node)
        no = gates.may_start(view, Fleet(**fleet))
        told.append(no.reason)
    assert told == [row[2] for row in UPGRADE_CHAIN]


def test_with_nothing_in_the_way_a_node_with_a_slot_starts():
    view = a_view(S.REQUIRED)
    assert gates.may_start(view, FLEET) is None
    assert step(view, FLEET).to is S.CORDON


def test_people_come_before_what_passes_by_itself():
    by_hand = {gates.it_is_approved, gates.failures_are_few, gates.image_is_there, gates.nobody_else_cordoned_it}
    by_itself = {gates.window_is_open, gates.canaries_have_worked, gates.back_off_is_over}
    place = gates.UPGRADE_GATES.index
    assert max(map(place, by_hand)) < min(map(place, by_itself))


def test_a_node_that_only_lacks_a_slot_has_no_objection_of_its_own():
    found_step = step(a_view(S.REQUIRED, held=()), FLEET)
    assert found_step.objection is None
    assert found_step.reason == Reason.WaitsForSlot


def test_a_foreign_cordon_is_no_obstacle_when_the_policy_says_so():
    view = a_view(S.REQUIRED, unschedulable=True, policy=policy(ignoreCordoned=False))
    assert gates.may_start(view, FLEET) is None


def test_an_image_is_not_needed_where_the_driver_lies_already():
    assert gates.may_start(a_view(S.REQUIRED, image=NO_IMAGE), FLEET) is None


def test_auto_upgrade_needs_no_approval():
    assert gates.may_start(a_view(S.REQUIRED, policy=policy(autoUpgrade=True), **UNAPPROVED), FLEET) is None


def test_a_failed_check_is_the_reason_why_a_node_is_not_staged():
    view = a_view(S.REQUIRED, found=found(staged=(STAGE_FAILED,)))
    assert gates.driver_is_staged(view, FLEET) == No(Reason.StageFailed, "disk full")


def test_a_node_whose_agent_is_silent_does_not_start():
    assert gates.node_answers(a_view(S.REQUIRED, found=None), FLEET).reason == Reason.AgentSilent
    assert gates.node_answers(a_view(S.REQUIRED), FLEET) is None


def test_a_canary_does_not_wait_for_canaries():
    fleet = Fleet(canaries={"pool-1": CANARY}, canary_nodes=frozenset({"a7"}))
    assert gates.may_start(a_view(S.REQUIRED), fleet) is None


def test_the_back_off_grows_and_says_when_it_ends():
    assert [gates.drain_pause_s(count) for count in (1, 2, 3, 4, 5, 50)] == [300, 600, 1200, 2400, 3600, 3600]
    view = a_view(S.REQUIRED, record=a_record(S.REQUIRED, tried={"drain": DRAINED}))
    no = gates.back_off_is_over(view, FLEET)
    assert no.until == "2026-11-30T12:05:00Z"
    assert no.in_s == 300
    assert "ml/train-0" in no.message


def test_the_node_is_tried_again_when_its_back_off_is_over():
    long_ago = Tried(count=1, at="2026-11-30T11:55:00Z", reason=Reason.DrainBlocked, message="ml/train-0")
    assert gates.may_start(a_view(S.REQUIRED, record=a_record(S.REQUIRED, tried={"drain": long_ago})), FLEET) is None


RECOVERY_CHAIN = [
    ({}, {"halted": PAUSED}, Reason.Paused),
    ({"labels": {names.HEALTH: "unhealthy"}}, {}, Reason.CordonedByOthers),
    ({"unschedulable": True}, {}, Reason.CordonedByOthers),
    ({}, {"breaker": No(Reason.TooManyUnhealthy, "too many")}, Reason.TooManyUnhealthy),
    ({"recovery": recovery_policy()}, {}, Reason.WaitsForApproval),
    ({"ready": "Unknown"}, {}, Reason.NodeNotReady),
    ({"up_since": "2026-11-30T11:55:00Z"}, {}, Reason.UptimeTooShort),
    (
        {"record": a_record(None, Purpose.RECOVERY, tried={"drain": DRAINED})},
        {},
        Reason.DrainBlocked,
    ),
    ({}, {"window": CLOSED}, Reason.WaitsForWindow),
    ({"held": ()}, {}, Reason.WaitsForSlot),
]


@pytest.mark.parametrize(("node", "fleet", "reason"), RECOVERY_CHAIN, ids=[str(row[2]) for row in RECOVERY_CHAIN])
def test_a_recovery_has_gates_of_its_own(node, fleet, reason):
    fields = {"recovery": recovery_policy(autoRecover=True), "found": found("25.5.0", recovery=SICK), **node}
    view = a_view(None, Purpose.RECOVERY, **fields)
    no = gates.may_start(view, Fleet(**fleet))
    assert no is not None
    assert no.reason == reason


def test_an_upgrades_obstacles_do_not_keep_a_node_from_being_cured():
    view = a_view(
        None,
        Purpose.RECOVERY,
        found=found("25.5.0", recovery=SICK, staged=()),
        recovery=recovery_policy(autoRecover=True),
        annotations={names.UPGRADE_SKIP: "true"},
        image=NO_IMAGE,
        firmware=OLD_FIRMWARE,
    )
    assert gates.may_start(view, Fleet(failures=FAILURES, canaries={"pool-1": CANARY})) is None


def test_somebodys_word_for_a_recovery_does_not_wait_for_the_window():
    record = a_record(None, Purpose.RECOVERY, recovery_approval=Approval(given="recovery", at=EARLIER))
    view = a_view(None, Purpose.RECOVERY, record=record, found=found("25.5.0", recovery=SICK))
    assert gates.may_start(view, Fleet(window=CLOSED)) is None


def test_a_rollback_waits_for_the_window_only_where_the_node_still_serves():
    record = a_record(S.REQUIRED, Purpose.ROLLBACK)
    out = a_view(S.REQUIRED, Purpose.ROLLBACK, record=record, unschedulable=True, cordon_is_ours=True)
    serving = a_view(S.REQUIRED, Purpose.ROLLBACK, record=record)
    fleet = Fleet(window=CLOSED, halted=PAUSED, failures=FAILURES)
    assert gates.may_start(out, fleet) is None
    assert gates.may_start(serving, fleet) == CLOSED


def test_staging_asks_only_what_matters_for_staging():
    view = a_view(S.REQUIRED, driver_pod=a_driver_pod("25.3.RC1"), **UNAPPROVED)
    assert gates.first_of(gates.STAGING_GATES, view, Fleet(window=CLOSED, failures=FAILURES)) is None
    assert gates.first_of(gates.STAGING_GATES, view, Fleet(halted=PAUSED)) == PAUSED


def test_a_node_whose_attempt_is_not_recorded_yet_does_not_start():
    view = a_view(S.REQUIRED, record=a_record(S.REQUIRED, attempt=None), policy=policy(autoUpgrade=True))
    assert gates.may_start(view, FLEET).reason == Reason.Waiting


def test_a_slot_of_another_attempt_is_no_slot():
    record = a_record(S.REQUIRED, attempt=an_attempt(id="try-2"))
    view = a_view(S.REQUIRED, held=a_view(S.REQUIRED).held, record=record)
    assert gates.may_start(view, FLEET).reason == Reason.WaitsForSlot
