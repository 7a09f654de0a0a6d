"""The status of an `NPUOperatorCtl`."""

import msgspec

from npu_operator.model.reasons import Reason
from npu_operator.model.status import Condition, CtlStatus, NodeCounts, Truth, with_transition_times

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def ready(status: Truth, message: str = "", since: str | None = None) -> Condition:
    return Condition(type="Ready", status=status, reason=Reason.Ready, message=message, last_transition_time=since)


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    [found] = with_transition_times([ready(Truth.TRUE, "other words")], [ready(Truth.TRUE, since=THEN)], now=NOW)
    assert found.last_transition_time == THEN
    assert found.message == "other words"


def test_a_condition_gets_a_new_time_when_its_status_turns() -> None:
    [found] = with_transition_times([ready(Truth.FALSE)], [ready(Truth.TRUE, since=THEN)], now=NOW)
    assert found.last_transition_time == NOW


def test_a_new_condition_gets_the_time_of_now() -> None:
    [found] = with_transition_times([ready(Truth.TRUE)], [], now=NOW)
    assert found.last_transition_time == NOW


def test_a_number_that_falls_to_zero_is_written_too() -> None:
    written = msgspec.to_builtins(CtlStatus(nodes=NodeCounts(total=3, unhealthy=0)))
    assert written["nodes"]["unhealthy"] == 0


def test_a_status_survives_the_way_through_the_api_server() -> None:
    status = CtlStatus(conditions=(ready(Truth.TRUE, "fine", THEN),), nodes=NodeCounts(total=1, summary="1/1"))
    assert msgspec.json.decode(msgspec.json.encode(status), type=CtlStatus) == status
    assert status.condition("Ready") == status.conditions[0]
    assert status.condition("Degraded") is None
