import pytest

from npu_operator.model.chips import ChipFamily, ChipHealth, ChipState
from npu_operator.model.npunode import DriverFound
from npu_operator.model.reasons import Reason
from npu_operator.node.state import NodeState, PortAddress
from npu_operator.node.validator_verdict import (
    LIBRARIES,
    DeviceTried,
    Inconclusive,
    Opened,
    PortTried,
    ToolTried,
    Tried,
    judge,
    validation,
    wanted,
)
from tests.unit.node.containers import an_npu_smi_table
from tests.unit.node.states import BOOT, DIGEST, VERSION, a_chip, a_state


def found(state: NodeState, **about: object) -> Tried:
    """A container in which everything works, but for what is named."""
    usual: dict[str, object] = {
        "devices": tuple(DeviceTried(path, Opened.OPENED) for path in wanted(state).devices),
        "libraries": {name: f"{places[0]}/{name}" for name, places in LIBRARIES.items()},
        "tree_version": VERSION,
        "npu_smi": ToolTried(an_npu_smi_table(len(wanted(state).chips))),
    }
    return Tried(**{**usual, **about})  # type: ignore[arg-type]


def reasons(state: NodeState, tried: Tried) -> list[Reason]:
    return [complaint.reason for complaint in judge(wanted(state), tried)]


def test_a_node_promises_its_devices_and_those_all_share() -> None:
    asked = wanted(a_state(count=2))
    assert asked.devices == (
        "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc", "/dev/davinci0", "/dev/davinci1",
    )  # fmt: skip
    assert asked.chips == (0, 1)


def test_lost_chips_and_those_of_virtual_machines_are_not_promised() -> None:
    chips = (a_chip(0), a_chip(1, state=ChipState.LOST), a_chip(2, state=ChipState.PASSTHROUGH), a_chip(3))
    assert wanted(a_state(*chips)).chips == (0, 3)


def test_a_passing_verdict_names_boot_driver_and_chips() -> None:
    state = a_state()
    verdict = validation(state, found(state), judge(wanted(state), found(state)))
    assert (verdict.passed, verdict.chips, verdict.reason, verdict.message) == (True, 8, "", "")
    assert (verdict.boot_id, verdict.version, verdict.digest) == (BOOT, VERSION, DIGEST)


def test_a_busy_chip_passes_but_is_not_counted_as_opened() -> None:
    state = a_state()
    devices = tuple(
        DeviceTried(path, Opened.BUSY if path.endswith("davinci3") else Opened.OPENED) for path in wanted(state).devices
    )
    tried = found(state, devices=devices)
    verdict = validation(state, tried, judge(wanted(state), tried))
    assert (verdict.passed, verdict.chips) == (True, 7)


def test_chips_in_use_by_somebody_prove_nothing() -> None:
    state = a_state()
    occupied = "dcmi model initialized failed, because the device is used. ret is -8020\n"
    with pytest.raises(Inconclusive, match="because the device is used"):
        judge(wanted(state), found(state, npu_smi=ToolTried(occupied, 172)))


def test_a_sick_chip_says_nothing_against_the_driver() -> None:
    state = a_state(a_chip(0, health=ChipHealth.CRITICAL), a_chip(1))
    critical = an_npu_smi_table(2).replace("OK      ", "Critical", 1)
    assert "Critical" in critical
    assert reasons(state, found(state, npu_smi=ToolTried(critical))) == []


def test_all_that_fails_is_told_and_the_first_gives_the_reason() -> None:
    state = a_state()
    tried = found(
        state,
        devices=(DeviceTried("/dev/davinci3", Opened.FAILED, "Operation not permitted"),),
        libraries={},
        npu_smi=ToolTried(timed_out=True),
    )
    verdict = validation(state, tried, judge(wanted(state), tried))
    assert not verdict.passed
    assert verdict.reason == Reason.ValidationFailed
    assert [part.split(" in ")[0] for part in verdict.message.split("; ")] == [
        "cannot open /dev/davinci3: Operation not permitted",
        "libascend_hal.so is",
        "libdcmi.so is",
        "npu-smi did not answer",
    ]


def test_a_wedged_tool_is_called_by_its_name() -> None:
    state = a_state()
    assert reasons(state, found(state, npu_smi=ToolTried(timed_out=True))) == [Reason.ToolWedged]


@pytest.mark.parametrize("count", [7, 9])
def test_another_number_of_chips_fails(count: int) -> None:
    state = a_state()
    assert reasons(state, found(state, npu_smi=ToolTried(an_npu_smi_table(count)))) == [Reason.ChipLost]


@pytest.mark.parametrize(("told", "passes"), [("25.3.RC1", True), ("25.3.rc1", True), ("25.3.rc2", False)])
def test_versions_are_compared_as_versions(told: str, passes: bool) -> None:
    state = a_state(driver=DriverFound(version="25.3.RC1", loaded=True))
    tried = found(state, npu_smi=ToolTried(an_npu_smi_table(version=told)), tree_version="25.3.RC1")
    assert (reasons(state, tried) == []) is passes


BEFORE = PortAddress(physical=0, address="10.0.0.1")


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (PortTried(0, "10.0.0.1", True), []),
        (PortTried(0, "10.0.0.1", None), []),
        (PortTried(0, "10.0.0.1", False), [Reason.HccnLinkDown]),
        (PortTried(0, "10.0.0.9", True), [Reason.HccnAddressLost]),
        (PortTried(0, None, True), [Reason.HccnAddressLost]),
        (PortTried(0, None, False), [Reason.HccnAddressLost, Reason.HccnLinkDown]),
    ],
    ids=["kept", "link not told", "link down", "another address", "no address", "nothing left"],
)
def test_addresses_must_be_what_they_were(port: PortTried, expected: list[Reason]) -> None:
    state = a_state(addresses=(BEFORE,))
    assert reasons(state, found(state, ports=(port,))) == expected


def test_a_link_that_was_down_before_may_be_down() -> None:
    state = a_state(addresses=(PortAddress(physical=0, address="10.0.0.1", link_up=False),))
    assert reasons(state, found(state, ports=(PortTried(0, "10.0.0.1", False),))) == []


def test_a_node_without_addresses_before_needs_none() -> None:
    state = a_state(family=ChipFamily.ASCEND_310P)
    assert reasons(state, found(state)) == []
