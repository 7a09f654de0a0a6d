"""The restart of a container runtime: a slot, a record, once per attempt, and no reboot."""

import msgspec
import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.npunode import RuntimeRestart
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import runtime
from npu_operator.plan.lifecycle.record import Phase, Record, Tried
from tests.unit.plan.lifecycle.nodes import (
    EARLIER,
    FLEET,
    NEW,
    S,
    a_failure,
    a_holder,
    a_record,
    a_target,
    a_view,
    after,
    an_attempt,
    found,
    record_after,
    step,
)

SLOT = a_holder(purpose=Purpose.RUNTIME, attempt="run-1")
ATTEMPT = an_attempt(Purpose.RUNTIME, id="run-1", phase=Phase.RUNNING, made_at="2026-11-30T11:59:00Z")


def asks(done: str = "", *, wanted: bool = True):
    return found(NEW, runtime_restart=RuntimeRestart(wanted=wanted, done_attempt=done))


def a_runtime_view(**changes):
    return a_view(None, purpose=None, **{"found": asks(), "held": (), **changes})


def test_an_agent_that_asks_waits_for_a_slot():
    view = a_runtime_view()
    assert runtime.is_wanted(view)
    assert step(view, FLEET).patch is None


def test_with_the_slot_its_record_is_written_and_nothing_else():
    view = a_runtime_view(held=(SLOT,))
    there = after(view, step(view, FLEET))
    attempt = there.record.attempt
    assert (attempt.id, attempt.purpose, attempt.phase) == ("run-1", Purpose.RUNTIME, Phase.RUNNING)
    assert not there.node.labels
    assert not there.node.unschedulable


@pytest.mark.parametrize("report", [asks("run-1"), asks(wanted=False)], ids=["done", "not needed any more"])
def test_when_the_agent_has_answered_the_record_goes(report):
    view = a_runtime_view(record=Record(attempt=ATTEMPT), held=(SLOT,), found=report)
    there = after(view, step(view, FLEET))
    assert there.record.attempt is None
    assert there.record.left == "run-1"
    gone = msgspec.structs.replace(there, held=())
    assert after(gone, step(gone, FLEET)).record.is_empty


def test_an_answer_about_another_attempt_is_none():
    view = a_runtime_view(record=Record(attempt=ATTEMPT), held=(SLOT,), found=asks("run-0"))
    assert step(view, FLEET).patch is None


def test_a_silent_agent_is_waited_for():
    view = a_runtime_view(record=Record(attempt=ATTEMPT), held=(SLOT,), found=None)
    found_step = step(view, FLEET)
    assert found_step.patch is None
    assert found_step.look_again_s == 540


def test_a_restart_that_does_not_come_gives_its_slot_back_and_is_tried_later():
    view = a_runtime_view(record=Record(attempt=ATTEMPT), held=(SLOT,), now="2026-11-30T12:09:00Z")
    found_step = step(view, FLEET)
    there = after(view, found_step)
    assert there.record.attempt is None
    assert there.record.tried["runtime"].count == 1
    assert {note.reason for note in found_step.notes} == {"RuntimeRestartNeeded"}
    assert not runtime.is_wanted(there)
    later = msgspec.structs.replace(there, now="2026-11-30T12:19:00Z")
    assert runtime.is_wanted(later)


def test_success_forgets_that_it_was_late():
    late = Tried(count=1, at=EARLIER, reason=Reason.RuntimeRestartNeeded, message="late")
    record = Record(attempt=ATTEMPT, tried={"runtime": late})
    assert record_after(a_runtime_view(record=record, held=(SLOT,), found=asks("run-1"))).tried == {}


@pytest.mark.parametrize(
    "record",
    [
        a_record(S.DRAIN),
        a_record(S.REQUIRED),
        a_record(None, Purpose.RECOVERY),
        a_record(S.REQUIRED, Purpose.ROLLBACK),
        a_record(S.DONE, attempt=None),
    ],
    ids=["in an upgrade", "before one", "before a recovery", "before a rollback", "at an end"],
)
def test_never_while_the_node_has_another_attempt(record):
    view = a_runtime_view(record=record, held=(SLOT,))
    assert not runtime.is_wanted(view)
    assert not runtime.is_granted(view)


@pytest.mark.parametrize("record", [Record(), Record(ended=a_failure()).entered(S.FAILED, EARLIER)])
def test_nodes_that_serve_may_have_it(record):
    assert runtime.is_wanted(a_runtime_view(record=record))


def test_no_approval_is_used_for_it():
    view = a_runtime_view(record=Record(attempt=ATTEMPT), held=(SLOT,), annotations={names.APPROVE_REBOOT: "true"})
    assert step(view, FLEET).patch is None


def test_a_failed_node_starts_nothing_else_meanwhile():
    record = Record(ended=a_failure(), attempt=ATTEMPT).entered(S.FAILED, EARLIER)
    view = a_view(S.FAILED, purpose=None, record=record, held=(SLOT,), wanted=a_target("25.7"), found=asks())
    assert step(view, FLEET).to is S.FAILED


def test_another_version_in_the_meantime_does_not_end_it():
    record = Record(attempt=ATTEMPT, target=a_target()).entered(S.REQUIRED, EARLIER)
    view = a_view(S.REQUIRED, record=record, held=(SLOT,), wanted=a_target("25.7"), found=asks())
    there = record_after(view)
    assert there.attempt.id == "run-1"
    assert there.target is None


def test_a_slot_is_not_used_twice():
    assert not runtime.is_granted(a_runtime_view(held=(SLOT,), found=asks("run-1")))
    assert not runtime.is_granted(a_runtime_view(held=(SLOT,), record=Record(left="run-1")))


def test_an_upgrade_begins_only_after_it():
    view = a_runtime_view(
        record=Record(attempt=ATTEMPT), held=(SLOT,), found=found(runtime_restart=RuntimeRestart(wanted=True))
    )
    assert step(view, FLEET).to is None
