import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from npu_operator.model.chips import ChipHealth, ChipState
from npu_operator.node.exporter import labels
from npu_operator.node.exporter.groups import BELIEVED_S, READINGS, Group
from npu_operator.node.exporter.series import ROWS, rows, take
from npu_operator.node.reader import STALE_S
from npu_operator.node.state import ChipProcess, ChipUse, Readings
from tests.unit.node.exporter.scrapes import (
    NOW_S,
    USE,
    a_measured_chip,
    a_measured_state,
    mindcluster_text_of,
    readings,
    samples,
    text_of,
    values,
)

SAMPLE = Path(__file__).parents[5] / "shared" / "samples" / "metrics" / "npu-exporter_constructed.prom"
HELD = {
    "id": "0",
    "model_name": "910B3",
    "vdie_id": "00000000-00000001-00000002-00000003-0000000A",
    "pcie_bus_info": "0000:C1:00.0",
    "namespace": "ml",
    "pod_name": "train-0",
    "container_name": "main",
}


@pytest.fixture(scope="module")
def full() -> str:
    return text_of(a_measured_state())


# --- names, labels, units


def test_a_chip_metric_has_mindclusters_labels(full: str) -> None:
    assert samples(full)["npu_chip_info_temperature"] == [(HELD, 41.0)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("npu_chip_info_utilization", 35),
        ("npu_chip_info_power", 97.5),
        ("npu_chip_info_hbm_total_memory", 65536),
        ("npu_chip_info_hbm_used_memory", 16384),
        ("npu_chip_info_hbm_utilization", 25),
        ("npu_chip_info_aicore_current_freq", 1800),
        ("npu_chip_info_hbm_ecc_total_double_bit_error_cnt", 1),
        ("npu_chip_info_link_status", 1),
        ("npu_chip_info_network_status", 0),
        ("npu_chip_info_health_status", 1),
        ("npu_chip_optical_tx_power_3", 1.4),
        ("npu_chip_optical_rx_power_1", 0.8),
        ("container_npu_used_memory", 16384),
        ("ascend_npu_utilization_ratio", 0.35),
        ("ascend_npu_temperature_celsius", 41),
        ("ascend_npu_memory_used_bytes", 16384 * 2**20),
        ("ascend_npu_memory_total_bytes", 65536 * 2**20),
        ("ascend_npu_aicore_frequency_hertz", 1.8e9),
        ("ascend_npu_healthy", 1),
        ("machine_npu_nums", 1),
    ],
)
def test_a_number_comes_in_the_unit_of_its_family(full: str, name: str, value: float) -> None:
    assert values(full, name) == pytest.approx([value])


def test_our_own_family_has_the_device_id_as_its_label(full: str) -> None:
    assert samples(full)["ascend_npu_temperature_celsius"] == [({"device": "Ascend910-0"}, 41.0)]


def test_every_row_of_the_table_is_shown_for_a_chip_with_every_number() -> None:
    everything = readings(memory_used_mib=1, memory_total_mib=2, optical_rx_power_mw=(1, 2, 3, 4))
    shown = samples(text_of(a_measured_state(a_measured_chip(readings=everything))))
    assert {row.name for row in ROWS} - shown.keys() == set()


def test_every_source_of_the_table_is_a_field_or_worked_out() -> None:
    for row in ROWS:
        take(row.source)(Readings())


def test_a_wrong_line_of_the_table_is_named() -> None:
    with pytest.raises(ValueError, match=r"series.tsv, line 2: 'tabel'"):
        rows("# comment\nnpu_chip_info_power\ttabel\tpower_w\t1\tPower.")


def test_every_group_says_how_it_is_read_and_how_long_it_is_believed() -> None:
    assert [reading.group for reading in READINGS] == list(Group)
    quick = {Group.TABLE, Group.HEALTH}
    slow = {Group.ECC, Group.BOARD, Group.OPTICS, Group.HCCN}
    assert all(reading.interval_s <= 30 for reading in READINGS if reading.group in quick)
    assert all(reading.interval_s >= 300 for reading in READINGS if reading.group in slow)
    assert all(BELIEVED_S[reading.group] > reading.interval_s for reading in READINGS)


def test_each_series_of_mindclusters_exporter_has_its_twin_here() -> None:
    if not SAMPLE.is_file():
        pytest.skip(f"no sample at {SAMPLE}")
    ours = samples(text_of(a_measured_state(a_measured_chip(fault_codes=("80E01801",)))))
    for family in text_string_to_metric_families(SAMPLE.read_text()):
        for sample in family.samples:
            wanted = set(sample.labels)
            if sample.name == "npu_chip_info_name":
                wanted.discard("model_name")  # the reference has `name` in its place, the sample has both
            assert sample.name in ours
            assert set(ours[sample.name][0][0]) == wanted, sample.name


def test_promtool_has_nothing_to_say() -> None:
    everything = readings(memory_used_mib=1, memory_total_mib=2, optical_rx_power_mw=(1, 2, 3, 4))
    sick = a_measured_chip(1, readings=everything, fault_codes=("80E01801", "80CB8009"), health=ChipHealth.ALARM)
    full = text_of(a_measured_state(a_measured_chip(), sick))
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on the PATH (Debian package prometheus)")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=full, capture_output=True, text=True, timeout=60, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


# --- absent rather than old


def test_a_number_is_left_out_when_its_group_is_too_old() -> None:
    ecc_is_old = {**dict.fromkeys(Group, NOW_S), Group.ECC: NOW_S - BELIEVED_S[Group.ECC] - 1}
    text = text_of(a_measured_state(a_measured_chip(readings=readings(read_at_s=ecc_is_old))))
    assert values(text, "npu_chip_info_hbm_ecc_double_bit_error_cnt") == []
    assert values(text, "ascend_npu_ecc_double_bit_errors") == []
    assert values(text, "npu_chip_info_temperature") == [41]


@pytest.mark.parametrize("group", Group)
def test_exactly_the_series_of_a_group_go_with_it(group: Group) -> None:
    """What a board tells stays the same, so no series goes with that group."""
    stamps = {one: NOW_S for one in Group if one is not group}
    shown = samples(text_of(a_measured_state(a_measured_chip(readings=readings(read_at_s=stamps)))))
    gone = samples(text_of(a_measured_state())).keys() - shown.keys()
    of_group = {row.name for row in ROWS if row.group is group} & samples(text_of(a_measured_state())).keys()
    beside = {
        Group.HEALTH: {"npu_chip_info_error_code", "ascend_npu_fault_codes"},
        Group.TABLE: {"npu_chip_info_process_info"},
    }
    assert gone == of_group | beside.get(group, set())


def test_a_group_is_shown_to_the_last_second() -> None:
    for late_s, shown in ((0, 1), (1, 0)):
        stamps = dict.fromkeys(Group, NOW_S - BELIEVED_S[Group.TABLE] - late_s)
        text = text_of(a_measured_state(a_measured_chip(readings=readings(read_at_s=stamps))))
        assert len(values(text, "npu_chip_info_power")) == shown


def test_a_silent_node_agent_leaves_nothing_but_the_age() -> None:
    text = text_of(a_measured_state(), age_s=STALE_S + 1)
    assert values(text, "npu_state_age_seconds") == [STALE_S + 1]
    assert set(samples(text)) == {"ascend_npu_exporter_info", "npu_state_usable", "npu_state_age_seconds"}


def test_without_a_state_there_is_not_even_an_age() -> None:
    text = text_of(None, problem="there is no file")
    assert set(samples(text)) == {"ascend_npu_exporter_info", "npu_state_usable"}
    assert values(text, "npu_state_usable") == [0]


def test_a_bad_file_is_told_beside_numbers_that_are_still_young() -> None:
    text = text_of(a_measured_state(), problem="it is damaged")
    assert values(text, "npu_state_usable") == [0]
    assert values(text, "npu_chip_info_temperature") == [41]


def test_a_number_that_the_tool_did_not_give_is_left_out_of_one_chip_only() -> None:
    chips = (a_measured_chip(0, readings=readings(power_w=None)), a_measured_chip(1))
    found = samples(text_of(a_measured_state(*chips)))["npu_chip_info_power"]
    assert [told["id"] for told, _ in found] == ["1"]


def test_ddr_is_shown_for_chips_that_have_it_and_hbm_for_those() -> None:
    ddr = readings(memory_used_mib=1500, memory_total_mib=21527, hbm_used_mib=0, hbm_total_mib=0)
    text = text_of(a_measured_state(a_measured_chip(readings=ddr)))
    assert values(text, "npu_chip_info_used_memory") == [1500]
    assert values(text, "npu_chip_info_hbm_used_memory") == []
    assert values(text, "npu_chip_info_hbm_utilization") == []
    assert values(text, "ascend_npu_memory_used_bytes") == [1500 * 2**20]
    assert values(text_of(a_measured_state()), "npu_chip_info_used_memory") == []


def test_no_hbm_in_use_is_zero_and_not_absent() -> None:
    empty = readings(hbm_used_mib=0)
    text = text_of(a_measured_state(a_measured_chip(readings=empty)))
    assert values(text, "npu_chip_info_hbm_used_memory") == [0]
    assert values(text, "npu_chip_info_hbm_utilization") == [0]


# --- health


@pytest.mark.parametrize(
    ("about", "status"),
    [
        ({"health": ChipHealth.OK}, 1),
        ({"health": ChipHealth.WARNING}, 1),
        ({"health": ChipHealth.ALARM}, 0),
        ({"health": ChipHealth.CRITICAL}, 0),
        ({"health": ChipHealth.UNKNOWN}, -1),
        ({"health": ChipHealth.UNKNOWN, "state": ChipState.LOST}, 0),
        ({"state": ChipState.ISOLATED}, 1),
    ],
)
def test_health_is_one_zero_or_minus_one(about: dict[str, Any], status: int) -> None:
    text = text_of(a_measured_state(a_measured_chip(**about)))
    assert values(text, "npu_chip_info_health_status") == [status]
    assert values(text, "ascend_npu_healthy") == [max(status, 0)]


def test_a_node_out_of_service_has_healthy_chips() -> None:
    text = text_of(a_measured_state(in_service=False))
    assert values(text, "npu_chip_info_health_status") == [1]
    assert values(text, "ascend_npu_in_service") == [0]


def test_the_counts_of_the_machine_add_up() -> None:
    chips = (
        a_measured_chip(0, vdie_id=""),
        a_measured_chip(1, vdie_id="", health=ChipHealth.CRITICAL),
        a_measured_chip(2, vdie_id="", health=ChipHealth.UNKNOWN),
        a_measured_chip(3, vdie_id="", state=ChipState.LOST),
    )
    text = text_of(a_measured_state(*chips))
    counts = [values(text, f"machine_{kind}npu_nums") for kind in ("", "healthy_", "unhealthy_", "unknown_")]
    assert counts == [[3], [1], [1], [1]]


def test_a_die_that_shows_twice_counts_once() -> None:
    assert values(text_of(a_measured_state(a_measured_chip(0), a_measured_chip(1))), "machine_npu_nums") == [1]


def test_fault_codes_are_decimal_and_at_most_ten() -> None:
    codes = ("80E01801", *(f"8000000{number:X}" for number in range(12)))
    text = text_of(a_measured_state(a_measured_chip(fault_codes=codes)))
    assert values(text, "npu_chip_info_error_code") == [0x80E01801]
    assert values(text, "npu_chip_info_error_code_1") == [0x80000000]
    assert values(text, "npu_chip_info_error_code_9") == [0x80000008]
    assert values(text, "npu_chip_info_error_code_10") == []
    assert values(text, "ascend_npu_fault_codes") == [13]


def test_a_chip_without_faults_has_code_zero() -> None:
    text = text_of(a_measured_state())
    assert values(text, "npu_chip_info_error_code") == [0]
    assert values(text, "npu_chip_info_error_code_1") == []


def test_a_code_that_is_no_number_spoils_nothing() -> None:
    text = text_of(a_measured_state(a_measured_chip(fault_codes=("odd", "80E01801"))))
    assert values(text, "npu_chip_info_error_code") == [0x80E01801]


# --- who holds a chip


def test_a_chip_that_nobody_holds_has_empty_names() -> None:
    text = text_of(a_measured_state(a_measured_chip(users=(), running=())))
    (told, _) = samples(text)["npu_chip_info_temperature"][0]
    assert {told[name] for name in labels.CHIP[-3:]} == {""}
    assert "ascend_npu_container" not in samples(text)
    assert "container_npu_utilization" not in samples(text)


def test_the_other_page_has_mindclusters_labels_in_camel_case() -> None:
    found = samples(mindcluster_text_of(a_measured_state()))
    ((told, value),) = found["npu_container_info"]
    assert value == 1
    assert told == {
        **{name: text for name, text in HELD.items() if name != "id"},
        "npuID": "0",
        "containerID": "c0ffee",
        "containerName": "ml_train-0_main",
    }
    ((told, _),) = found["node_base_info"]
    assert told["driverVersion"] == "25.5.0"
    assert set(found) == {"npu_container_info", "node_base_info", "npu_exporter_version_info"}


def test_a_process_has_its_container_in_one_word_as_in_mindcluster(full: str) -> None:
    ((told, value),) = samples(full)["npu_chip_info_process_info"]
    assert value == 15000
    assert (told["process_id"], told["container_id"]) == ("4711", "c0ffee")
    assert told["container_name"] == "ml_train-0_main"


def test_a_chip_with_two_containers_has_a_series_for_each() -> None:
    other = ChipUse(namespace="ml", pod="infer-0", container="main", container_id="beef")
    found = samples(text_of(a_measured_state(a_measured_chip(users=(USE, other)))))
    assert [told["pod_name"] for told, _ in found["container_npu_utilization"]] == ["train-0", "infer-0"]
    assert [told["pod_name"] for told, _ in found["npu_chip_info_temperature"]] == [""]


def test_a_process_of_the_host_has_no_container() -> None:
    text = text_of(a_measured_state(a_measured_chip(running=(ChipProcess(pid=1, memory_mib=5),))))
    ((told, _),) = samples(text)["npu_chip_info_process_info"]
    assert (told["container_id"], told["container_name"], told["pod_name"]) == ("", "", "")


def test_names_with_quotes_and_line_ends_do_not_break_the_text() -> None:
    odd = 'a"b\\c\nd'
    text = text_of(a_measured_state(a_measured_chip(model=odd)))
    assert samples(text)["npu_chip_info_temperature"][0][0]["model_name"] == odd


def test_no_series_is_printed_twice(full: str) -> None:
    series = [re.sub(r" \S+$", "", line) for line in full.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))
