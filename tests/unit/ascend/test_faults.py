"""Fault codes: their class, what has to be done, and rules over time."""

import pytest

from npu_operator.ascend import faults
from npu_operator.ascend.faults import FaultClass

C = FaultClass


@pytest.mark.parametrize(
    ("code", "of_class", "severity"),
    [
        ("80E01801", C.RestartBusiness, 3),
        ("80E18402", C.SeparateNPU, 3),
        ("80E18005", C.RestartNPU, 2),
        ("80F2180D", C.RestartNPU, 2),
        ("80C98009", C.RestartRequest, 1),
        ("40F84E00", C.RestartNPU, 3),
        ("8C17A005", C.FreeRestartNPU, 1),
        ("81078603", C.NotHandleFault, 1),
        ("80E3A201", C.SeparateNPU, 2),
        ("A2301001", C.SeparateNPU, None),
    ],
)
def test_a_known_code_has_its_class_and_severity(code: str, of_class: FaultClass, severity: int | None):
    found = faults.known(code)
    assert found is not None
    assert (found.fault_class, found.severity) == (of_class, severity)


@pytest.mark.parametrize("spelling", ["80E01801", "0x80e01801", " 80e01801 ", "0X80E01801"])
def test_a_code_is_found_in_any_spelling(spelling: str):
    assert faults.fault_class(spelling) is C.RestartBusiness


def test_the_number_of_an_exporter_is_the_same_code():
    assert faults.from_decimal(0x80E01801) == "80E01801"
    assert faults.normal("21") == "00000021"


def test_the_table_is_whole():
    table = faults.table()
    assert len(table) == 875
    for key, code in table.items():
        assert key == code.code == faults.normal(key)
        assert code.severity is None or 0 <= code.severity <= 3


def test_classes_rise_from_noted_to_taken_out():
    assert list(C) == sorted(C)
    assert C.NotHandleFault < C.RestartNPU < C.PreSeparateNPU < C.SeparateNPU < C.ManuallySeparateNPU


@pytest.mark.parametrize("of_class", C, ids=lambda of_class: of_class.name)
def test_every_class_has_an_action_that_can_be_read(of_class: FaultClass):
    action = faults.ACTIONS[of_class]
    assert action.text
    assert action.keeps_work or not action.takes_new_work
    assert not (action.reboot_cures and action.replace)


@pytest.mark.parametrize(
    ("code", "reboot_cures", "replace"),
    [("80E18005", True, False), ("80E18402", False, True), ("80E01801", False, False)],
)
def test_a_reboot_is_asked_for_only_where_it_helps(code: str, reboot_cures: bool, replace: bool):
    action = faults.action(code)
    assert (action.reboot_cures, action.replace) == (reboot_cures, replace)


@pytest.mark.parametrize(
    ("health", "stays"),
    [("OK", True), ("Warning", True), ("Alarm", False), ("Critical", False), (None, False), ("Odd", False)],
)
def test_for_an_unknown_code_the_health_word_decides(health: str | None, stays: bool):
    assert faults.action("DEADBEEF", health).takes_new_work is stays


def test_the_worst_code_is_the_one_of_the_highest_class():
    assert faults.worst(["81078603", "80E18402", "80E01801"]) == "80E18402"
    assert faults.worst(["DEADBEEF", "81078603"]) == "81078603"
    assert faults.worst([]) is None


HOUR = 3600.0


def test_a_code_that_comes_back_within_a_day_takes_the_chip_out():
    assert faults.escalated("80E01801", [0], now_s=HOUR) is None
    assert faults.escalated("80E01801", [0, 23 * HOUR], now_s=23 * HOUR) is C.ManuallySeparateNPU
    assert faults.escalated("80E01801", [0, 25 * HOUR], now_s=25 * HOUR) is None


def test_a_parity_error_may_come_twice_a_day():
    assert faults.escalated("80E18005", [0, HOUR], now_s=HOUR) is None
    assert faults.escalated("80E18005", [0, HOUR, 2 * HOUR], now_s=2 * HOUR) is C.ManuallySeparateNPU


def test_a_flapping_link_is_released_after_two_quiet_days():
    seen = [HOUR * at for at in range(5)]
    assert faults.escalated(faults.LINK_DOWN, seen, now_s=5 * HOUR) is C.ManuallySeparateNPU
    assert faults.escalated(faults.LINK_DOWN, seen, now_s=53 * HOUR) is None


def test_a_code_without_rule_never_escalates():
    assert faults.escalated("8C17A005", [0.0] * 50, now_s=1) is None


def test_a_link_that_stays_down_gets_no_more_work():
    assert faults.outlasted(faults.LINK_DOWN, 19) is None
    assert faults.outlasted("0x81078603", 20) is C.PreSeparateNPU
    assert faults.outlasted("80E01801", 9999) is None


def test_every_code_of_a_rule_is_in_the_table():
    codes = {code for rule in faults.FREQUENCY_RULES for code in rule.codes} | faults.NETWORK_CODES
    assert codes <= set(faults.table())
    assert {faults.HEARTBEAT_LOST, faults.HBM_ROWS_USED_UP} <= set(faults.table())
