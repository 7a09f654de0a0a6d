"""What the operator makes of an `NPUOperatorCtl` as somebody wrote it."""

import json
from typing import Any

import msgspec
import pytest

from npu_operator.model.chips import ChipFamily
from npu_operator.model.ctl import Mode, RebootMethod, Spec
from npu_operator.model.reading import ParsedCtl, describe, parse_ctl
from npu_operator.model.reasons import Reason
from tests.unit.model.wrong_specs import OPERATOR_ONLY, UNKNOWN, UPGRADE, WRONG, recovery, upgrade


def read(spec: Any) -> ParsedCtl:
    return parse_ctl({"metadata": {"name": "npuoperatorctl-sample", "namespace": "npu-operator"}, "spec": spec})


@pytest.mark.parametrize("case", (WRONG | OPERATOR_ONLY).items(), ids=lambda case: case[0])
def test_a_wrong_value_is_named_with_its_place_and_a_way_out(case: Any) -> None:
    _, (spec, path, words) = case
    [problem] = read(spec).errors
    assert problem.path.startswith(path)
    assert words in str(problem)
    assert problem.reason is Reason.InvalidSpec


@pytest.mark.parametrize("case", UNKNOWN.items(), ids=lambda case: case[0])
def test_an_unknown_field_is_named_with_the_nearest_known_one(case: Any) -> None:
    _, (spec, path, words) = case
    [problem] = read(spec).errors
    assert problem.path == path
    assert words in str(problem)
    assert problem.reason is Reason.UnknownField


def test_a_wrong_field_does_not_take_its_neighbours_with_it() -> None:
    found = read({
        "mode": "Paused",
        "driver": {
            "version": "2 5",
            "perChip": {"911": {"version": "1"}, "950": {"version": "25.7.RC1"}},
            "reboot": {"method": "systemctl"},
            "upgradePolicy": {"maxFailures": "many", "autoUpgrade": True, "order": ["zone", "a b", "rack"]},
        },
    })  # fmt: skip
    assert len(found.errors) == 4
    assert found.spec.mode is Mode.PAUSED
    assert found.spec.driver.version == "25.5.0"
    assert list(found.spec.driver.per_chip) == [ChipFamily.ASCEND_950]
    assert found.spec.driver.reboot.method is RebootMethod.SYSTEMCTL
    assert found.spec.driver.upgrade_policy.auto_upgrade is True
    assert found.spec.driver.upgrade_policy.max_failures == 1
    assert found.spec.driver.upgrade_policy.order == ("zone", "rack")


def test_the_usual_spelling_means_the_same_as_the_reference_one() -> None:
    usual = read({
        "driver": {
            "upgradePolicy": {
                "drain": {"enable": False, "timeoutSeconds": 7},
                "podDeletion": {"gracePeriodSeconds": 3},
                "deadlines": {"rebootUpSeconds": 77},
                "canary": {"nodes": 1, "soakSecond": 5},
            },
            "recoveryPolicy": {"probeSeconds": 9, "drainSpec": {"timeoutSeconds": 11}},
        }
    })  # fmt: skip
    reference = read({
        "driver": {
            "upgradePolicy": {
                "drainSpec": {"enable": False, "timeoutSecond": 7},
                "podDeletion": {"gracePeriodSecond": 3},
                "deadlines": {"rebootUpSecond": 77},
                "canary": {"nodes": 1, "soakSeconds": 5},
            },
            "recoveryPolicy": {"probeSecond": 9, "drain": {"timeoutSecond": 11}},
        }
    })  # fmt: skip
    assert usual.spec == reference.spec
    assert usual.problems == reference.problems == ()
    assert usual.spec.driver.upgrade_policy.drain_spec.timeout_second == 7


def test_with_both_spellings_the_reference_one_counts_until_one_is_removed() -> None:
    found = read(upgrade(drain={"timeoutSecond": 1}, drainSpec={"timeoutSecond": 2}))
    assert found.spec.driver.upgrade_policy.drain_spec.timeout_second == 2
    assert "until then drainSpec counts" in describe(found.errors)


def test_null_means_not_given() -> None:
    found = read({"driver": None, "exporter": {"enabled": None}} | upgrade(podDeletion={"gracePeriodSecond": None}))
    assert found.problems == ()
    assert found.spec == Spec()


@pytest.mark.parametrize("spec", [None, {}])
def test_an_object_without_a_spec_is_all_defaults(spec: Any) -> None:
    assert read(spec).spec == Spec()


@pytest.mark.parametrize("spec", [[1], "x", 7, True])
def test_a_spec_that_is_no_object_is_told(spec: Any) -> None:
    found = read(spec)
    assert "but must be an object" in describe(found.errors)
    assert not found.may_disrupt


@pytest.mark.parametrize(
    "spec",
    [upgrade(maxUnavailble=1), upgrade(maxUnavailable="300%"), {"mode": "paused"}],
    ids=["typo", "value", "mode"],
)
def test_no_node_goes_out_of_service_while_the_policy_is_misread(spec: Any) -> None:
    assert not read(spec).may_disrupt


def test_a_mistake_in_the_exporter_stops_no_upgrade() -> None:
    found = read({"exporter": {"falvor": "native"}})
    assert found.errors
    assert found.may_disrupt


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (upgrade(maxParallelUpgrades=4, maxUnavailable=2), f"{UPGRADE}.maxParallelUpgrades"),
        (upgrade(canary={"soakSeconds": 60}), f"{UPGRADE}.canary.soakSeconds"),
        (upgrade(order=["zone", "zone"]), f"{UPGRADE}.order"),
        ({"driver": {"enabled": False, "upgradePolicy": {"autoUpgrade": True}}}, f"{UPGRADE}.autoUpgrade"),
        (
            {"driver": {"enabled": False, "recoveryPolicy": {"autoRecover": True}}},
            "spec.driver.recoveryPolicy.autoRecover",
        ),
        (recovery(healer="mindcluster", autoRecover=True), "spec.driver.recoveryPolicy.autoRecover"),
        ({"driver": {"reboot": {"command": ["reboot"]}}}, "spec.driver.reboot.command"),
    ],
)
def test_settings_that_contradict_each_other_are_questioned_but_used(spec: Any, path: str) -> None:
    found = read(spec)
    [problem] = found.problems
    assert problem.path == path
    assert problem.reason is Reason.QuestionableSpec
    assert found.errors == ()
    assert found.may_disrupt


def test_a_limit_in_percent_does_not_contradict_a_number() -> None:
    assert read(upgrade(maxParallelUpgrades=4, maxUnavailable="1%")).problems == ()


def test_errors_come_before_doubts() -> None:
    found = read(upgrade(maxParallelUpgrades=4, maxUnavailable=2) | {"exporter": {"enabled": "no"}})
    assert [problem.is_error for problem in found.problems] == [True, False]


def test_many_problems_are_cut_short_and_counted() -> None:
    text = describe(read({f"field{number}": 1 for number in range(8)}).problems, at_most=2)
    assert len(text.splitlines()) == 3
    assert text.endswith("and 6 more")


def test_an_object_is_read_from_the_bytes_of_the_api_server() -> None:
    raw = json.dumps({
        "apiVersion": "npu-operator.alauda.io/v1",
        "kind": "NPUOperatorCtl",
        "metadata": {"name": "a", "namespace": "npu-operator", "uid": "u", "resourceVersion": "7", "generation": 3},
        "spec": {"driver": {"version": "25.3.RC1"}},
        "status": {"observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]},
    }).encode()  # fmt: skip
    found = parse_ctl(msgspec.Raw(raw))
    assert (found.metadata.name, found.metadata.uid, found.metadata.generation) == ("a", "u", 3)
    assert found.spec.driver.version == "25.3.RC1"
    ready = found.status.condition("Ready")
    assert ready is not None
    assert ready.status == "True"


def test_a_status_of_another_version_does_not_hide_the_spec() -> None:
    found = parse_ctl({"metadata": {"name": "a"}, "spec": {"mode": "Plan"}, "status": {"conditions": "all good"}})
    assert found.spec.mode is Mode.PLAN
    assert found.status.conditions == ()


def test_long_values_are_shown_short() -> None:
    [problem] = read({"driver": {"version": "x" * 5000}}).errors
    assert len(str(problem)) < 300
