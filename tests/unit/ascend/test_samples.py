"""Every collected output is read as the people who collected it read it."""

from pathlib import Path
from typing import Any

import pytest

from npu_operator.ascend import hccn, install, kernel_log, lspci
from npu_operator.ascend.smi import layouts, reader
from tests.unit.ascend import samples

pytestmark = pytest.mark.skipif(not samples.SAMPLES.is_dir(), reason=samples.REASON)

TABLES: list[dict[str, Any]] = samples.expected("npu-smi-info.json")
ERRORS: list[dict[str, Any]] = samples.expected("errors.json")
DETAILS: dict[str, dict[str, Any]] = dict(samples.expected("npu-smi-sub.json"))


def document(name: str) -> Any:
    return reader.as_document(reader.read(samples.text(name)))


@pytest.mark.parametrize("wanted", TABLES, ids=lambda wanted: Path(wanted["file"]).stem)
def test_a_collected_table_is_read_as_expected(wanted: dict[str, Any]):
    found = document(wanted["file"])
    for key in ("tool_version", "driver_version", "chips", "processes"):
        assert found[key] == wanted[key]
    assert found["error"] is None
    assert found["layout"] is not None


@pytest.mark.parametrize("wanted", ERRORS, ids=lambda wanted: Path(wanted["file"]).stem)
def test_a_collected_error_is_read_as_expected(wanted: dict[str, Any]):
    found = document(wanted["file"])
    assert {key: found["error"][key] for key in ("code", "kind")} == wanted["error"]
    assert found["chips"] == []
    assert found["error"]["text"] in samples.text(wanted["file"])


@pytest.mark.parametrize("name", DETAILS, ids=lambda name: Path(name).stem)
def test_a_collected_sub_command_is_read_as_expected(name: str):
    found, wanted = document(name), DETAILS[name]
    assert found["type"] == wanted["type"]
    assert found.get("message") == wanted.get("message", found.get("message"))
    for key, value in wanted["values"].items():
        if key == "rows":
            rows = found["values"]["rows"]
            assert [
                {name: row.get(name, "absent") for name in row_wanted}
                for row, row_wanted in zip(rows, value, strict=True)
            ] == value
        else:
            assert found["values"].get(key, "absent") == value


@pytest.mark.parametrize("file", samples.files("npu-smi-sub"), ids=lambda file: file.stem)
def test_every_collected_sub_command_says_something(file: Path):
    found = reader.as_document(reader.read(file.read_text("utf-8")))
    assert found.get("values") or found.get("message") or found.get("chips")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("910A_21.0.2_no_hugepages_col", "L0"),
        ("310P3_tool22.0.0_drv22.0.2_idle", "L1"),
        ("910B3_23.0.1_1card_id4", "L2"),
        ("310P3_25.5.1_2cards_ids4-5", "L3"),
        ("910B3_26.1.0_8cards_proc", "L4"),
        ("950DT_25.6.rc1.b169_4npu_proc", "L5"),
        ("constructed_26_width97_source_layout", "L6"),
    ],
)
def test_a_layout_describes_the_lines_that_the_tool_prints(name: str, form: str):
    lines = samples.text(f"npu-smi-info/{name}.txt").splitlines()
    is_ddr = any("Device" in line for line in lines)
    known = next(one for one in layouts.LAYOUTS if one.name == form and ("Device" in one.second[0]) == is_ddr)
    assert layouts.line_of(known.first, known.widths) in lines
    assert layouts.line_of(known.second, known.widths) in lines
    if known.process and any("Process id" in line for line in lines):
        assert layouts.line_of(known.process, known.process_widths) in lines
    title = next(line for line in lines if "Version:" in line)
    assert title.index("Version:") == len("| npu-smi ") + known.tool_width
    assert known.width == layouts.table_width(lines)


def test_the_collected_topologies_show_their_links():
    found = document("npu-smi-sub/910B3_24.1.rc1_topo_8cards.txt")["values"]
    assert found["matrix"][0][1] == "HCCS"
    assert found["CPU Affinity"][7] == "48-71"


@pytest.mark.parametrize("file", samples.files("hccn"), ids=lambda file: file.stem)
def test_every_collected_hccn_output_says_something(file: Path):
    found = hccn.read(file.read_text("utf-8"))
    assert found.values or found.rows or found.records


@pytest.mark.parametrize(
    ("name", "count", "address"),
    [
        ("lspci_910b_4cards_oe2403sp3", 4, "0000:01:00.0"),
        ("lspci_910b_8cards", 8, "0000:01:00.0"),
        ("lspci_k_910b_vfio_pre25_modules", 1, "0000:c2:00.0"),
        ("lspci_nn_910b", 1, "0000:18:00.0"),
    ],
)
def test_the_collected_lspci_outputs_show_all_a2_chips(name: str, count: int, address: str):
    found = lspci.read(samples.text(f"node/{name}.txt").splitlines())
    assert [one.family for one in found] == ["910b"] * count
    assert found[0].address == address


def test_a_function_given_to_a_virtual_machine_is_seen_in_lspci():
    (found,) = lspci.read(samples.text("node/lspci_k_910b_vfio_pre25_modules.txt").splitlines())
    assert found.is_passthrough


@pytest.mark.parametrize("release", ["24.1.rc1", "24.1.rc2.2", "25.0.rc1.1", "25.3.rc1"])
def test_a_collected_version_info_names_its_release(release: str):
    found = install.read_version_info(samples.text(f"node/version.info_{release}"))
    assert found.version == release
    assert found.inner is not None
    assert found.inner.branch in found.compatible


def test_both_ages_of_install_info_are_read():
    new = install.read_install_info(samples.text("node/ascend_install.info_new"))
    old = install.read_install_info(samples.text("node/ascend_install.info_old"))
    assert (new.user, new.driver_path, new.driver_for_all, new.is_complete) == (
        "HwHiAiUser",
        "/usr/local/Ascend",
        False,
        True,
    )
    assert (old.user, old.driver_path, old.driver_for_all, old.is_complete) == (
        "HwHiAiUser",
        "/usr/local/Ascend",
        True,
        False,
    )


def test_the_collected_kernel_log_tells_of_the_lost_heartbeat_only_once():
    lines = list(kernel_log.read(samples.text("node/kernel_log_ascend_lines.txt")))
    told = [line for line in lines if line.kind is kernel_log.Kind.HEARTBEAT_LOST]
    assert [(line.device, line.fields["lost_count"]) for line in told] == [(1, "4")]
    assert kernel_log.Kind.DEVICE_TABLE_ROW in {line.kind for line in lines}
