"""Conditions: the time of transition moves only with the status, and order stays."""

from npu_operator.kube.conditions import Condition, find, set_condition

THEN, NOW = 1_767_225_600.0, 1_767_229_200.0
READY = Condition("Ready", "True", "AllReady", "12 of 12 nodes", observed_generation=1)
OTHER = Condition("Progressing", "False", "Done")


def test_a_first_condition_is_stamped_now():
    assert set_condition((), READY, THEN)[0].last_transition_time == "2026-01-01T00:00:00Z"


def test_an_unchanged_condition_leaves_everything_as_it_is():
    before = set_condition(set_condition((), READY, THEN), OTHER, THEN)
    assert set_condition(before, READY, NOW) == before


def test_a_new_message_keeps_the_time_and_a_new_status_moves_it():
    before = set_condition((), READY, THEN)
    (said,) = set_condition(
        before, Condition("Ready", "True", "AllReady", "13 of 13 nodes", observed_generation=2), NOW
    )
    assert (said.message, said.last_transition_time) == ("13 of 13 nodes", "2026-01-01T00:00:00Z")
    assert said.observed_generation == 2
    (flipped,) = set_condition(before, Condition("Ready", "False", "NodeDown"), NOW)
    assert flipped.last_transition_time == "2026-01-01T01:00:00Z"


def test_conditions_keep_their_places_and_new_ones_come_last():
    before = set_condition(set_condition((), READY, THEN), OTHER, THEN)
    after = set_condition(set_condition(before, Condition("Ready", "False"), NOW), Condition("New", "True"), NOW)
    assert [condition.type for condition in after] == ["Ready", "Progressing", "New"]
    assert find(after, "New").status == "True"
    assert find(after, "Nope") is None
