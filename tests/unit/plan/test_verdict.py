import pytest

from npu_operator.model import names
from npu_operator.model.chips import ChipFamily, ChipState
from npu_operator.model.ctl import Discovery, Spec
from npu_operator.model.npunode import AgentMessage, DriverFound, ManagedBy, Validation
from npu_operator.model.reasons import Reason
from npu_operator.plan.verdict import CHECKS, NodeState, judge
from tests.unit.plan import fleets

SPEC = Spec()
SERVING = {"allocatable": {"huawei.com/Ascend910": 8}}


def test_a_node_without_any_sign_is_none_of_our_business():
    verdict = judge(fleets.a_node(labels={"nvidia.com/gpu.present": "true"}), None, SPEC)
    assert not verdict.has_npu
    assert verdict.state is NodeState.NONE


@pytest.mark.parametrize(
    "labels",
    [
        {"feature.node.kubernetes.io/pci-1200_19e5.present": "true"},
        {"feature.node.kubernetes.io/pci-19e5.present": "true"},
        {"feature.node.kubernetes.io/pci-1200_19e5_d802.present": "true"},
        {"npu": "true"},
        {"accelerator": "huawei-Ascend910"},
        {"workerselector": "dls-worker-node"},
    ],
    ids=lambda labels: next(iter(labels)),
)
def test_each_known_label_is_a_sign_of_an_npu(labels):
    assert judge(fleets.a_node(labels=labels), None, SPEC).has_npu


def test_our_own_label_alone_is_no_sign_but_keeps_the_node_for_a_while():
    verdict = judge(fleets.a_node(labels={names.NPU_PRESENT: "true"}), None, SPEC)
    assert verdict.has_npu
    assert verdict.sign is None
    assert verdict.state is NodeState.LEAVING


def test_an_npunode_made_by_the_discovery_pod_is_the_sign():
    made = fleets.an_npu_node(by_operator=False)
    assert judge(fleets.a_node(labels={}), made, SPEC).has_npu
    assert not judge(fleets.a_node(labels={}), fleets.an_npu_node(), SPEC).has_npu


def test_with_discovery_off_only_labels_count():
    made = fleets.an_npu_node(by_operator=False)
    assert not judge(fleets.a_node(labels={}), made, Spec(discovery=Discovery.OFF)).has_npu


def test_a_label_that_names_the_device_gives_the_pool_without_waiting_for_the_agent():
    labels = {"feature.node.kubernetes.io/pci-1200_19e5_d803.present": "true"}
    verdict = judge(fleets.a_node(labels=labels), None, SPEC)
    assert verdict.chip is ChipFamily.ASCEND_A3
    assert verdict.pool is not None
    assert verdict.pool.os == "oe2403sp3"


def test_without_os_and_without_a_mark_in_the_kernel_the_pool_waits_for_the_agent():
    labels = {"feature.node.kubernetes.io/pci-1200_19e5_d802.present": "true"}
    node = fleets.a_node(labels=labels, kernel="5.15.0-91-generic")
    assert judge(node, None, SPEC).pool is None
    reported = fleets.found(os_id="ubuntu", os_version="22.04")
    verdict = judge(node, fleets.an_npu_node(reported=reported), SPEC)
    assert verdict.pool is not None
    assert verdict.pool.os == "ubuntu2204"


def test_a_node_that_serves_with_all_chips_is_ready():
    verdict = judge(fleets.a_node(**SERVING), fleets.an_npu_node(reported=fleets.found()), SPEC)
    assert verdict.is_ready
    assert (verdict.chips, verdict.allocatable, verdict.unhealthy) == (8, 8, 0)


def test_a_report_of_an_earlier_boot_counts_for_nothing():
    node = fleets.a_node(boot_id="boot-2", **SERVING)
    verdict = judge(node, fleets.an_npu_node(reported=fleets.found()), SPEC)
    assert verdict.reason is Reason.AgentSilent
    assert verdict.chip is ChipFamily.ASCEND_910B, "which chip it is does not change by a boot"


@pytest.mark.parametrize(
    ("node", "reported", "state", "reason"),
    [
        ({"ready": "Unknown"}, {}, NodeState.UNREACHABLE, Reason.NodeNotReady),
        ({}, {"driver": DriverFound()}, NodeState.INSTALLING, Reason.Installing),
        ({}, {"driver": DriverFound(reason="LoadFailed", message="x")}, NodeState.INSTALLING, Reason.LoadFailed),
        ({}, {"driver": DriverFound(reason="FromTomorrow", message="x")}, NodeState.INSTALLING, Reason.DriverNotReady),
        ({}, {"validation": Validation()}, NodeState.VALIDATING, Reason.NotValidated),
        (
            {},
            {"validation": Validation(passed=True, boot_id=fleets.BOOT, version="24.1.0")},
            NodeState.VALIDATING,
            Reason.NotValidated,
        ),
        (
            {},
            {"validation": Validation(boot_id=fleets.BOOT, version="25.5.0", reason="HccnLinkDown")},
            NodeState.VALIDATING,
            Reason.HccnLinkDown,
        ),
        ({}, {"chips": (fleets.a_chip(3, **fleets.SICK),)}, NodeState.DEGRADED, Reason.ChipUnhealthy),
        ({}, {"chips": (fleets.a_chip(3, **fleets.LOST),)}, NodeState.DEGRADED, Reason.ChipLost),
        ({"allocatable": {"huawei.com/Ascend910": 7}}, {}, NodeState.PUBLISHING, Reason.ChipsNotAllocatable),
        (
            {},
            {"messages": (AgentMessage(agent="toolkit", reason="ReadOnlyConfig", message="x"),)},
            NodeState.DEGRADED,
            Reason.AgentFailed,
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Reason) else "",
)
def test_what_is_missing_is_named(node, reported, state, reason):
    verdict = judge(fleets.a_node(**(SERVING | node)), fleets.an_npu_node(reported=fleets.found(**reported)), SPEC)
    assert (verdict.state, verdict.reason) == (state, reason)
    assert verdict.message
    assert verdict.next


def test_an_objection_hides_the_later_ones():
    reported = fleets.found(driver=DriverFound(), validation=Validation(), chips=(fleets.a_chip(0, **fleets.SICK),))
    told = [CHECKS.index(check) for check in CHECKS]
    assert told == sorted(told)
    verdict = judge(fleets.a_node(), fleets.an_npu_node(reported=reported), SPEC)
    assert verdict.reason is Reason.Installing


def test_a_sick_chip_is_named_with_what_it_reports():
    chips = (fleets.a_chip(0), fleets.a_chip(3, **fleets.SICK))
    verdict = judge(fleets.a_node(**SERVING), fleets.an_npu_node(reported=fleets.found(chips=chips)), SPEC)
    assert verdict.message == "chip Ascend910-3 is Critical (fault 80E18402)"
    assert verdict.unhealthy == 1


def test_a_chip_that_somebody_isolated_is_not_missed():
    chips = (*(fleets.a_chip(number) for number in range(7)), fleets.a_chip(7, state=ChipState.ISOLATED))
    node = fleets.a_node(allocatable={"huawei.com/Ascend910": 7})
    assert judge(node, fleets.an_npu_node(reported=fleets.found(chips=chips)), SPEC).is_ready


def test_a_driver_that_the_host_loads_at_boot_makes_the_node_passthrough():
    host = DriverFound(version="24.1.0", loaded=True, managed_by=ManagedBy.HOST, autoload=True)
    validation = Validation(passed=True, boot_id=fleets.BOOT, version="24.1.0")
    npu_node = fleets.an_npu_node(reported=fleets.found(driver=host, validation=validation))
    verdict = judge(fleets.a_node(**SERVING), npu_node, SPEC)
    assert verdict.has_host_driver
    assert verdict.pool is None
    assert verdict.is_ready
    assert verdict.in_sync, "it is never taken to another version"


def test_the_label_driver_managed_hands_a_host_driver_over():
    host = DriverFound(version="24.1.0", loaded=True, managed_by=ManagedBy.HOST, autoload=True)
    node = fleets.a_node(labels=fleets.NFD | fleets.OS | {names.DRIVER_MANAGED: "true"})
    verdict = judge(node, fleets.an_npu_node(reported=fleets.found(driver=host)), SPEC)
    assert not verdict.has_host_driver
    assert verdict.pool is not None


def test_a_renamed_resource_is_the_one_that_counts():
    spec = fleets.a_ctl(devicePlugin={"resourceNames": {"910b": "huawei.com/Ascend910B"}}).spec
    npu_node = fleets.an_npu_node(reported=fleets.found())
    assert judge(fleets.a_node(**SERVING), npu_node, spec).reason is Reason.ChipsNotAllocatable
    node = fleets.a_node(allocatable={"huawei.com/Ascend910B": 8})
    assert judge(node, npu_node, spec).is_ready


def test_another_version_than_the_wanted_one_is_out_of_sync_but_serves():
    driver = DriverFound(version="25.3.RC1", loaded=True, managed_by=ManagedBy.OPERATOR)
    validation = Validation(passed=True, boot_id=fleets.BOOT, version="25.3.RC1")
    npu_node = fleets.an_npu_node(reported=fleets.found(driver=driver, validation=validation))
    verdict = judge(fleets.a_node(**SERVING), npu_node, SPEC)
    assert verdict.is_ready
    assert not verdict.in_sync
    assert verdict.target == "25.5.0"
