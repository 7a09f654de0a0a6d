"""`NPUNode`: what the columns of `kubectl get npunodes` say."""

import msgspec
import pytest

from npu_operator.model import npunode
from npu_operator.model.chips import ChipHealth, ChipState
from npu_operator.model.npunode import Chip


def a_chip(number: int = 0, **more: object) -> Chip:
    return msgspec.convert({"id": f"Ascend910-{number}", "model": "910B3", "physical": number, **more}, Chip)


def test_chips_are_counted_by_model() -> None:
    assert npunode.models(a_chip(number) for number in range(8)) == "8x910B3"


def test_several_models_are_told_the_most_frequent_first() -> None:
    chips = [a_chip(0, model="310P3"), a_chip(1), a_chip(2), a_chip(3, model="")]
    assert npunode.models(chips) == "2x910B3,1x310P3,1x?"


def test_a_node_without_chips_has_empty_columns() -> None:
    assert npunode.models([]) == npunode.healthy([]) == ""


@pytest.mark.parametrize(
    ("health", "state", "is_healthy", "is_offered"),
    [
        (ChipHealth.OK, ChipState.FREE, True, True),
        (ChipHealth.WARNING, ChipState.IN_USE, True, True),
        (ChipHealth.OK, ChipState.ISOLATED, True, False),
        (ChipHealth.OK, ChipState.PASSTHROUGH, True, False),
        (ChipHealth.OK, ChipState.PARTITIONED, True, False),
        (ChipHealth.OK, ChipState.SHARED, True, False),
        (ChipHealth.OK, ChipState.LOST, False, False),
        (ChipHealth.ALARM, ChipState.FREE, False, False),
        (ChipHealth.CRITICAL, ChipState.IN_USE, False, False),
        (ChipHealth.UNKNOWN, ChipState.FREE, False, False),
    ],
)
def test_illness_and_being_taken_are_two_things(
    health: ChipHealth, state: ChipState, is_healthy: bool, is_offered: bool
) -> None:
    chip = a_chip(health=health, state=state)
    assert (chip.is_healthy, chip.is_offered) == (is_healthy, is_offered)


def test_sick_chips_are_missing_from_the_healthy_ones() -> None:
    assert npunode.healthy([a_chip(0), a_chip(1, health="Alarm"), a_chip(2, state="Isolated")]) == "2/3"


def test_an_object_of_a_newer_agent_is_read_as_far_as_it_is_known() -> None:
    raw = b'{"metadata":{"name":"a7","managedFields":[{}]},"status":{"found":{"bootId":"b","mood":"good","chip":"a3"}}}'
    found = npunode.decode(raw)
    assert found.metadata.name == "a7"
    assert found.status.found.boot_id == "b"
    assert found.status.found.chip == "a3"
