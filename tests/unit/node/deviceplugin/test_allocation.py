import pytest

from npu_operator.model.chips import ChipFamily, ChipHealth, ChipState
from npu_operator.model.ctl import Injection
from npu_operator.node.deviceplugin import v1beta1_pb2 as api
from npu_operator.node.deviceplugin.allocation import ANNOTATION_PREFIX, Refused, answer, answer_validation
from npu_operator.node.deviceplugin.offers import VALIDATION_DEVICE
from npu_operator.node.state import NodeState
from tests.unit.node.states import a_chip, a_state

WAYS = tuple(Injection)


def given(ids: list[str], injection: Injection, state: NodeState | None = None) -> api.ContainerAllocateResponse:
    (one,) = answer([ids], state or a_state(), injection).container_responses
    return one


def given_to_validator(state: NodeState, injection: Injection = Injection.CDI) -> api.ContainerAllocateResponse:
    (one,) = answer_validation([[VALIDATION_DEVICE]], state, injection).container_responses
    return one


def ways_used(one: api.ContainerAllocateResponse) -> set[Injection]:
    used = {
        Injection.CDI: bool(one.cdi_devices),
        Injection.ANNOTATION: bool(one.annotations),
        Injection.DEVICES: bool(one.devices or one.mounts),
    }
    return {way for way, is_used in used.items() if is_used}


@pytest.mark.parametrize("injection", WAYS)
def test_one_way_of_injection_is_used_and_never_two(injection: Injection) -> None:
    assert ways_used(given(["Ascend910-0", "Ascend910-1"], injection)) == {injection}
    assert ways_used(given_to_validator(a_state(), injection)) == {injection}


@pytest.mark.parametrize("injection", WAYS)
def test_every_way_names_the_physical_ids_in_the_environment(injection: Injection) -> None:
    chips = (a_chip(4, logic=0), a_chip(7, logic=1))
    one = given(["Ascend910-7", "Ascend910-4"], injection, a_state(*chips))
    assert dict(one.envs) == {"ASCEND_VISIBLE_DEVICES": "7,4"}


def test_a_950_is_named_by_its_logic_id_in_the_environment() -> None:
    chips = (a_chip(4, ChipFamily.ASCEND_950, logic=0), a_chip(7, ChipFamily.ASCEND_950, logic=1))
    one = given(["npu-4", "npu-7"], Injection.CDI, a_state(*chips, family=ChipFamily.ASCEND_950))
    assert dict(one.envs) == {"ASCEND_VISIBLE_DEVICES": "0,1"}
    assert [device.name for device in one.cdi_devices] == ["huawei.com/ascend=4", "huawei.com/ascend=7"]


def test_an_annotation_holds_all_devices_under_a_key_of_the_first() -> None:
    one = given(["Ascend910-2", "Ascend910-3"], Injection.ANNOTATION)
    assert dict(one.annotations) == {
        "cdi.k8s.io/npu-device-plugin_Ascend910-2": "huawei.com/ascend=2,huawei.com/ascend=3"
    }


def test_the_longest_annotation_key_is_one_that_kubernetes_takes() -> None:
    longest = f"{ANNOTATION_PREFIX}Ascend310P-9999"
    assert len(longest.partition("/")[2]) <= 63


def test_plain_devices_come_with_what_all_chips_share() -> None:
    one = given(["Ascend910-2"], Injection.DEVICES)
    assert [(device.host_path, device.container_path, device.permissions) for device in one.devices] == [
        ("/dev/davinci2", "/dev/davinci2", "rw"),
        ("/dev/davinci_manager_docker", "/dev/davinci_manager", "rw"),
        ("/dev/devmm_svm", "/dev/devmm_svm", "rw"),
        ("/dev/hisi_hdc", "/dev/hisi_hdc", "rw"),
    ]
    assert [(mount.host_path, mount.container_path, mount.read_only) for mount in one.mounts] == [
        ("/var/lib/Ascend/driver/lib64", "/usr/local/Ascend/driver/lib64", True)
    ]


def test_each_container_of_a_pod_gets_its_own_chips() -> None:
    both = answer([["Ascend910-0"], ["Ascend910-1", "Ascend910-2"]], a_state(), Injection.CDI)
    assert [[device.name for device in one.cdi_devices] for one in both.container_responses] == [
        ["huawei.com/ascend=0"],
        ["huawei.com/ascend=1", "huawei.com/ascend=2"],
    ]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (a_state(a_chip(0, health=ChipHealth.ALARM, message="fault 80E01801")), "health is Alarm: fault 80E01801"),
        (a_state(a_chip(0, state=ChipState.LOST)), "does not answer"),
        (a_state(a_chip(0, state=ChipState.PARTITIONED)), "state is Partitioned"),
        (a_state(isolated=("Ascend910-0",)), "isolated by spec.isolatedChips"),
        (a_state(in_service=False), "not in service"),
    ],
    ids=["sick", "lost", "split", "isolated", "out of service"],
)
def test_a_chip_that_is_not_offered_is_refused_with_the_reason(state: NodeState, words: str) -> None:
    with pytest.raises(Refused, match="device Ascend910-0 on node a7 cannot be given: ") as refused:
        answer([["Ascend910-0"]], state, Injection.CDI)
    assert words in str(refused.value)


def test_an_unknown_id_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Refused, match="no device Ascend910-7 on node a7; there are Ascend910-0, Ascend910-1"):
        answer([["Ascend910-7"]], a_state(count=2), Injection.CDI)


@pytest.mark.parametrize("requests", [[["Ascend910-0", "Ascend910-0"]], [["Ascend910-0"], ["Ascend910-0"]]])
def test_an_id_asked_for_twice_is_refused(requests: list[list[str]]) -> None:
    with pytest.raises(Refused, match="Ascend910-0 was asked for 2 times"):
        answer(requests, a_state(), Injection.CDI)


def test_a_container_that_asks_for_nothing_is_refused() -> None:
    with pytest.raises(Refused, match="no device at all"):
        answer([["Ascend910-0"], []], a_state(), Injection.CDI)


# --- the validator


def test_the_validator_gets_every_chip_that_is_there_by_one_device() -> None:
    chips = (a_chip(0), a_chip(1, health=ChipHealth.CRITICAL), a_chip(2, state=ChipState.LOST), a_chip(3))
    one = given_to_validator(a_state(*chips, in_service=False, isolated=("Ascend910-3",)))
    assert [device.name for device in one.cdi_devices] == ["huawei.com/ascend=all"]
    assert dict(one.envs) == {"ASCEND_VISIBLE_DEVICES": "0,1,3"}


def test_without_a_device_for_all_the_validator_gets_each() -> None:
    one = given_to_validator(a_state(count=2, cdi_devices=("0", "1")))
    assert [device.name for device in one.cdi_devices] == ["huawei.com/ascend=0", "huawei.com/ascend=1"]


def test_the_validator_gets_plain_devices_where_workloads_do() -> None:
    one = given_to_validator(a_state(count=2), Injection.DEVICES)
    assert [device.host_path for device in one.devices][:2] == ["/dev/davinci0", "/dev/davinci1"]


def test_there_is_one_validation_device_and_no_other() -> None:
    with pytest.raises(Refused, match="has one device, validation, and no validation-2"):
        answer_validation([["validation-2"]], a_state(), Injection.CDI)


def test_a_node_whose_chips_are_all_gone_has_nothing_to_validate() -> None:
    with pytest.raises(Refused, match="no chip whose device could be given"):
        given_to_validator(a_state(a_chip(0, state=ChipState.LOST)))
