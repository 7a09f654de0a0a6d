"""The stand-in for npu-smi: what the chips are is what is read; what fails, fails as the real one does."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from npu_operator.ascend.smi import reader
from npu_operator.ascend.smi.readings import Details, ErrorKind, InfoTable
from npu_operator.model.chips import ChipFamily
from npu_operator.sim.host import hccn_tool, npu_smi, script, table
from npu_operator.sim.host.machine import FakeChip, Machine, Process, machine_of

SAMPLES = Path(__file__).parents[5] / "shared" / "samples" / "npu-smi-info"

LAYOUTS = {
    ChipFamily.ASCEND_310: ("L0", "L1", "L3"),
    ChipFamily.ASCEND_310B: ("L3",),
    ChipFamily.ASCEND_310P: ("L1", "L3"),
    ChipFamily.ASCEND_910: ("L0", "L1", "L2"),
    ChipFamily.ASCEND_910B: ("L2", "L4", "L6"),
    ChipFamily.ASCEND_A3: ("L2", "L4"),
    ChipFamily.ASCEND_950: ("L5",),
}
"""The layouts in which each family's tools have printed."""
EACH = [(family, layout) for family, layouts in LAYOUTS.items() for layout in layouts]


def a_machine(family: ChipFamily = ChipFamily.ASCEND_910B, count: int | None = None, layout: str = "") -> Machine:
    made = machine_of(family, count)
    made.layout = layout or made.layout
    return made


def info(machine: Machine) -> InfoTable:
    found = reader.read(npu_smi.answer(machine, ("info",)).text)
    assert isinstance(found, InfoTable)
    return found


def asked(machine: Machine, *args: str) -> Details:
    text = npu_smi.answer(machine, ("info", *args)).text
    found = reader.read(f"$ npu-smi info {' '.join(args)}\n{text}")
    assert isinstance(found, Details)
    return found


@pytest.mark.parametrize(("family", "layout"), EACH)
def test_what_the_chips_are_is_what_is_read(family: ChipFamily, layout: str) -> None:
    machine = a_machine(family, layout=layout)
    machine.shown[0].health = "Warning"
    found = info(machine)
    assert (found.layout, found.tool_version, found.driver_version) == (
        layout,
        machine.tool_version,
        machine.driver_version,
    )
    assert found.error is None
    assert len(found.chips) == len(machine.chips)
    for chip, read in zip(machine.shown, found.chips, strict=True):
        assert (read.card, read.name, read.health, read.answers) == (chip.card, chip.name, chip.health, True)
        assert read.temp_c == chip.temperature_c
        assert read.aicore_pct == chip.aicore_pct
        assert read.power_w == chip.power_w
        assert read.hbm_total_mib == chip.hbm_total_mib
        assert read.hbm_used_mib == chip.hbm_used_mib
        assert read.mem_total_mib == chip.memory_total_mib
        assert read.bus_id == (None if family is ChipFamily.ASCEND_310B else chip.bus.upper())


def test_each_family_tells_the_ids_that_its_tool_has() -> None:
    numbers = {
        family: [(one.chip, one.logic, one.physical) for one in info(a_machine(family, 2)).chips]
        for family in (ChipFamily.ASCEND_910B, ChipFamily.ASCEND_A3, ChipFamily.ASCEND_310P, ChipFamily.ASCEND_950)
    }
    assert numbers[ChipFamily.ASCEND_910B] == [(0, None, None), (0, None, None)]
    assert numbers[ChipFamily.ASCEND_A3] == [(0, None, 0), (1, None, 1)]
    assert numbers[ChipFamily.ASCEND_310P] == [(0, 0, None), (1, 1, None)]
    assert numbers[ChipFamily.ASCEND_950] == [(None, None, None), (None, None, None)]


@pytest.mark.parametrize("layout", ["L2", "L4"])
def test_processes_are_read_back_and_idle_cards_are_named(layout: str) -> None:
    machine = a_machine(ChipFamily.ASCEND_A3, 4, layout)
    machine.shown[1].processes.append(Process(1777209, "VLLMWorker_PP", 56684, 41))
    found = info(machine)
    assert [(one.card, one.chip, one.pid, one.name, one.memory_mib) for one in found.processes] == [
        (0, 1, 1777209, "VLLMWorker_PP", 56684)
    ]
    assert [one.container_pid for one in found.processes] == [41 if layout == "L4" else None]
    assert found.idle_cards == (1,)


def test_a_chip_that_does_not_answer_is_a_row_of_zeros_and_no_error() -> None:
    machine = a_machine(count=2)
    machine.chip(1).answers = False
    found = npu_smi.answer(machine, ("info",))
    assert found.status == 0
    assert [(one.card, one.name, one.answers) for one in info(machine).chips] == [(0, "910B3", True), (1, None, False)]


def test_a_health_without_a_word_loses_the_first_row_only() -> None:
    machine = a_machine(count=3)
    machine.chip(1).health = "4294967295"
    read = info(machine).chips
    assert [one.answers for one in read] == [True, False, True]
    assert read[1].bus_id == machine.chip(1).bus.upper()
    assert read[1].card == 1  # from the process table


def test_a_lost_chip_is_not_in_the_table_and_a_passed_through_one_neither() -> None:
    machine = a_machine(count=4)
    machine.chip(1).is_on_bus = False
    machine.chip(2).kernel_driver = "vfio-pci"
    assert [one.card for one in info(machine).chips] == [0, 3]


def test_an_incomplete_installation_is_a_warning_below_the_table() -> None:
    machine = a_machine(count=1)
    machine.is_installed_completely = False
    assert len(info(machine).warnings) == 1


@pytest.mark.parametrize("family", list(ChipFamily))
def test_health_and_fault_codes_are_told_for_each_chip(family: ChipFamily) -> None:
    machine = a_machine(family, 2)
    sick = machine.shown[1]
    sick.health, sick.fault_codes = "Critical", ("80E01801", "80E18005")
    chip = () if family is ChipFamily.ASCEND_950 else ("-c", str(sick.chip))
    found = asked(machine, "-t", "health", "-i", str(sick.card), *chip)
    assert found.values["Error Code"] == ["80E01801", "80E18005"]
    assert found.values["Health" if family is ChipFamily.ASCEND_950 else "Health Status"] == "Critical"


def test_a_topology_of_rings_joins_four_chips_each() -> None:
    matrix = asked(a_machine(ChipFamily.ASCEND_910), "-t", "topo").values["matrix"]
    assert isinstance(matrix, list)
    assert matrix[0] == ["X", "HCCS", "HCCS", "HCCS", "SYS", "SYS", "SYS", "SYS"]


def test_the_mapping_has_physical_ids_only_where_the_tool_has_them() -> None:
    rows = {family: asked(a_machine(family, 2), "-m").values["rows"] for family in ChipFamily}
    assert rows[ChipFamily.ASCEND_910B][0]["logic"] == 0  # type: ignore[index,call-overload]
    assert rows[ChipFamily.ASCEND_910B][0]["physical"] is None  # type: ignore[index,call-overload]
    assert rows[ChipFamily.ASCEND_A3][1]["physical"] == 1  # type: ignore[index,call-overload]
    assert rows[ChipFamily.ASCEND_950][1]["physical"] == 1  # type: ignore[index,call-overload]


@pytest.mark.parametrize(
    ("args", "status", "code", "kind"),
    [
        (("frobnicate",), 211, None, ErrorKind.OTHER),
        (("info", "-t", "cpu", "-i", "0"), 215, None, ErrorKind.OTHER),
        (("info", "-t", "health", "-i", "0"), 215, None, ErrorKind.OTHER),
        (("info", "-t", "health", "-i", "77", "-c", "0"), 184, -8008, ErrorKind.OTHER),
    ],
)
def test_wrong_commands_fail_with_the_status_a_shell_sees(
    args: Sequence[str], status: int, code: int | None, kind: ErrorKind
) -> None:
    found = npu_smi.answer(a_machine(count=1), args)
    error = reader.read(found.text).error
    assert found.status == status
    assert error is not None
    assert (error.code, error.kind) == (code, kind)


@pytest.mark.parametrize(
    ("code", "status", "kind"), [(-8005, 187, ErrorKind.DRIVER_NOT_READY), (-8020, 172, ErrorKind.DEVICE_OCCUPIED)]
)
def test_a_library_that_does_not_start_fails_every_known_command(code: int, status: int, kind: ErrorKind) -> None:
    machine = a_machine(count=1)
    machine.failure = code
    for args in (("info",), ("-v",), ("info", "-l")):
        found = npu_smi.answer(machine, args)
        error = reader.read(found.text).error
        assert found.status == status
        assert error is not None
        assert (error.code, error.kind) == (code, kind)


def test_no_cards_are_an_answer() -> None:
    assert "no NPU card" in npu_smi.answer(a_machine(count=0), ("info", "-l")).text


def test_a_table_is_drawn_as_real_ones_are() -> None:
    """Against a real output: what differs may only be the numbers of the chips."""
    sample = SAMPLES / "910B3_26.1.0_8cards_proc.txt"
    if not sample.exists():
        pytest.skip(f"the collection of real outputs is not beside the project: {sample}")
    machine = a_machine(layout="L4")
    machine.tool_version = machine.driver_version = "26.1.0"
    real = sample.read_text().splitlines()
    for chip, first in zip(machine.shown, real[6::3], strict=False):
        words = first.split()
        chip.power_w, chip.temperature_c = float(words[6]), int(words[7])
        chip.hbm_used_mib = int(real[real.index(first) + 1].split()[-4])
    machine.shown[0].processes.append(Process(485946, "pytest", 5175))
    assert table.text(machine).splitlines()[: len(real)] == real


def test_a_port_that_is_set_is_read_back_and_written_down() -> None:
    machine = a_machine(count=1)
    machine.chip(0).port.address = ""
    assert "ipaddr" not in hccn_tool.answer(machine, ("-i", "0", "-ip", "-g")).text
    hccn_tool.answer(machine, ("-i", "0", "-ip", "-s", "address", "192.0.2.7", "netmask", "255.255.255.0"))
    assert hccn_tool.answer(machine, ("-i", "0", "-ip", "-g")).text.splitlines()[0] == "ipaddr:192.0.2.7"
    assert "address_0=192.0.2.7" in hccn_tool.conf(machine)


# --- as an executable file -------------------------------------------------------------------------------------------


def _devices(folder: Path, chips: Sequence[FakeChip], *, manager: bool = True) -> Path:
    numbers = [*(["davinci_manager"] if manager else []), *(f"davinci{chip.physical}" for chip in chips)]
    folder.mkdir(exist_ok=True)
    for name in numbers:
        try:
            os.mknod(folder / name, 0o600 | 0o020000, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root can make device nodes")
    return folder


def _run(program: Path, devices: Path, *args: str) -> tuple[str, int]:
    ran = subprocess.run(
        [program, *args], env={script.DEVICES: str(devices), "PATH": "/usr/bin:/bin"}, capture_output=True, check=False
    )
    assert ran.stderr == b""
    return ran.stdout.decode(), ran.returncode


def _installed(folder: Path, machine: Machine) -> Path:
    program = folder / "npu-smi"
    program.write_bytes(script.render(machine))
    program.chmod(0o755)
    return program


COMMANDS = (
    (),
    ("frobnicate",),
    ("-v",),
    ("info",),
    ("info", "-l"),
    ("info", "-m"),
    ("info", "-t", "topo"),
    ("info", "-t", "health", "-i", "0", "-c", "0"),
    ("info", "-i", "0", "-c", "0", "-t", "health"),
    ("info", "-t", "health", "-i", "0"),
    ("info", "-t", "board", "-i", "0"),
    ("info", "-t", "common", "-i", "0"),
    ("info", "-t", "ecc", "-i", "77", "-c", "0"),
    ("info", "-t", "cpu", "-i", "0"),
    ("info", "-t", "phyid-remap", "-p", "1"),
    ("info", "-t", "device-share"),
    ("info", "-t", "info-vnpu", "-i", "0", "-c", "0"),
)


@pytest.mark.parametrize("family", list(ChipFamily))
def test_the_executable_says_what_the_model_says(tmp_path: Path, family: ChipFamily) -> None:
    machine = a_machine(family, 2)
    machine.shown[0].processes.append(Process(7, "it's a process", 8))
    program, devices = _installed(tmp_path, machine), _devices(tmp_path / "dev", machine.chips)
    for args in COMMANDS:
        expected = npu_smi.answer(machine, args)
        assert _run(program, devices, *args) == (expected.text, expected.status), args


def test_the_executable_tells_only_of_chips_whose_nodes_are_there(tmp_path: Path) -> None:
    machine = a_machine()
    program = _installed(tmp_path, machine)
    devices = _devices(tmp_path / "dev", [machine.chip(3), machine.chip(5)])
    found = reader.read(_run(program, devices, "info")[0])
    assert isinstance(found, InfoTable)
    assert [chip.card for chip in found.chips] == [3, 5]
    assert found.idle_cards == (3, 5)
    assert _run(program, devices, "info", "-t", "health", "-i", "0", "-c", "0")[1] == 184


def test_the_executable_fails_without_the_manager_node(tmp_path: Path) -> None:
    program = _installed(tmp_path, a_machine(count=1))
    text, status = _run(program, _devices(tmp_path / "dev", (), manager=False), "info")
    error = reader.read(text).error
    assert status == 187
    assert error is not None
    assert error.kind is ErrorKind.DRIVER_NOT_READY
