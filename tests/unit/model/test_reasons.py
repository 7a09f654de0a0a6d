"""The vocabulary of reasons and conditions."""

import re

import pytest

from npu_operator.model.ctl import COMPONENTS
from npu_operator.model.reasons import ConditionType, Reason


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name)
def test_every_reason_has_a_sentence(reason: Reason) -> None:
    assert re.fullmatch(r"[A-Z].{15,160}\.", reason.sentence)


@pytest.mark.parametrize("word", [*Reason, *ConditionType], ids=lambda word: word.name)
def test_every_word_is_one_camelcase_word_and_its_own_name(word: Reason | ConditionType) -> None:
    assert word == word.name
    assert re.fullmatch("([A-Z][a-z]+)+", word)


def test_no_two_reasons_say_the_same() -> None:
    sentences = [reason.sentence for reason in Reason]
    assert len(set(sentences)) == len(sentences)


def test_the_words_that_alerts_and_scripts_know_are_there() -> None:
    assert {
        "ComponentConflict", "UnsupportedByVersion", "WrongNamespace", "Conflict", "HostDriver", "DriverOwnedByUs",
        "RebootByHand", "StageFailed", "ImageMissing", "ImageChanged", "FirmwarePathUnavailable", "NoDriverForKernel",
        "TrialLost", "LoadCrashed", "DrainBlocked", "RecoveryBlocked", "ColdRebootNeeded", "MixedSuperPod",
        "HccnAddressLost", "HccnLinkDown", "ReadOnlyConfig", "Aborted", "UnknownField", "InvalidSpec",
    } <= set(Reason)  # fmt: skip


def test_every_component_has_a_condition_of_its_own() -> None:
    kinds = [ConditionType.of_component(component) for component in COMPONENTS]
    assert kinds[:3] == ["DriverReady", "ContainerRuntimeReady", "DevicePluginReady"]
    assert "MindIOTFTReady" in kinds
