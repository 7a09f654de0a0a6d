"""The sub-commands of npu-smi: keys and values, lists, mappings, topologies."""

import pytest

from npu_operator.ascend.smi import reader
from npu_operator.ascend.smi.readings import Details, ErrorKind, Value


def details(text: str) -> Details:
    found = reader.read(text)
    assert isinstance(found, Details)
    return found


def values(text: str) -> dict[str, Value]:
    return details(text).values


COMMON = """\
$ npu-smi info -t common -i 2944
\tNPU ID                         : 2944
\tChip Count                     : 2

\tChip ID                        : 0
\tAicore Usage Rate(%)           : 3
\tTemperature(C)                 : 45

\tChip ID                        : 1
\tAicore Usage Rate(%)           : 4
\tTemperature(C)                 : 47

\tChip Name                      : mcu
\tTemperature(C)                 : 48
\tNPU Real-time Power(W)         : 42.8
"""


def test_a_key_printed_once_has_its_value_and_one_printed_again_a_list():
    found = values(COMMON)
    assert found["NPU ID"] == 2944
    assert found["Chip ID"] == [0, 1]
    assert found["Temperature(C)"] == [45, 47, 48]
    assert found["NPU Real-time Power(W)"] == 42.8


def test_sections_keep_the_values_of_each_chip_together():
    chips = [section for section in details(COMMON).sections if "Chip ID" in section]
    assert [(chip["Chip ID"], chip["Temperature(C)"]) for chip in chips] == [(0, 45), (1, 47)]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("HBM Capacity(MB)               : 65536", 65536),
        ("Voltage(V)                     : 0.72", 0.72),
        ("Temperature(C)                 : -5", -5),
        ("Board ID                       : 0x02", "0x02"),
        ("PCIe Bus Info                  : 0000:C1:00.0", "0000:C1:00.0"),
        ("Firmware Version               : 7.5.0.3.220", "7.5.0.3.220"),
        ("Software Version               : 25.5", "25.5"),
        ("Serial Number                  : 000000000000", "000000000000"),
        ("NPU Name                       : 9392", "9392"),
        ("VDie ID                        : 00000000 00000001", "00000000 00000001"),
        ("PCB ID                         : NA", None),
        ("Model                          :", None),
        ("Class ID                       : -", None),
        ("Error Code                     : NA", []),
        ("Error Code                     : 80E01801 80E18005", ["80E01801", "80E18005"]),
        ("System Time(local)             : Thu Apr  9 10:03:04 2026", "Thu Apr  9 10:03:04 2026"),
        ("Chip Phy-ID                   :3", 3),
    ],
)
def test_a_value_has_the_type_that_its_key_asks_for(line: str, wanted: Value):
    (found,) = values(f"$ npu-smi info -t board -i 0\n\t{line}\n").values()
    assert found == wanted


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("npu-smi info -t health -i 0 -c 0", ("info", "health")),
        ("npu-smi info -i 0 -c 0 -t board", ("info", "board")),
        ("npu-smi info -l", ("info", "-l")),
        ("npu-smi info -m", ("info", "-m")),
        ("npu-smi info watch -i 0 -s pt", ("info", "watch")),
        ("npu-smi info | grep 910", ("info", "")),
        ("timeout 30 npu-smi info; echo rc=$?", ("info", "")),
        ("npu-smi set -t reset -i 0 -c 0 -m 1", ("set", "reset")),
        ("npu-smi upgrade -b vrd -i 0", ("upgrade", "vrd")),
        ("npu-smi -v", ("", "-v")),
        ("npu-smi info --help", ("info", "-h")),
        ("npu-smi info -t", ("info", "")),
    ],
)
def test_a_command_line_tells_what_was_asked(command: str, wanted: tuple[str, str]):
    assert reader.type_of(command) == wanted


@pytest.mark.parametrize("prompt", ["$ ", "# ", "[root@a7 ~]# ", "root@a7:/home/x# ", "(base) root@a7:~$ "])
def test_the_command_is_found_behind_any_prompt(prompt: str):
    assert details(f"{prompt}npu-smi info -t health -i 0\nHealth : OK\n").type == "health"


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("Health Status : OK\nError Code : NA", "health"),
        ("NPU ID : 0\nHealth : OK", "health"),
        ("NPU ID : 0\nChip Count : 1\nNPU Real-time Power(W) : 103.5", "power"),
        ("NPU ID : 0\nPCI Device ID : 0xD802", "board"),
        ("HBM Capacity(MB) : 65536\nHBM Clock Speed(MHz) : 1600", "memory"),
        ("HBM Capacity(MB) : 65536\nHBM Usage Rate(%) : 5", "usages"),
        ("HBM Single Bit Error Count : 0", "ecc"),
        ("NPU Temperature (C) : 39", "temp"),
        ("Card Count : 1\n\nNPU ID : 0\nChip Count : 4", "-l"),
        ("NPU ID  Chip ID  Chip Logic ID  Chip Name\n0  0  0  Ascend 310P3", "-m"),
        ("      NPU0  NPU1\nNPU0  X  HCCS\nNPU1  HCCS  X", "topo"),
        ("Fault Event Count : 0", "current-fault-event"),
    ],
)
def test_without_a_command_the_keys_tell_the_type(lines: str, wanted: str):
    assert details(lines).type == wanted


def test_the_list_of_cards_has_one_entry_per_card():
    text = "$ npu-smi info -l\n\tCard Count : 2\n\n\tNPU ID : 4\n\tChip Count : 4\n\n\tNPU ID : 7\n\tChip Count : 4\n"
    found = values(text)
    assert (found["Card Count"], found["NPU ID"], found["Chip Count"]) == (2, [4, 7], [4, 4])


def test_the_mapping_tells_chips_from_their_controller():
    text = """\
$ npu-smi info -m
\tNPU ID                         Chip ID                        Chip Logic ID                  Chip Name
\t4                              0                              0                              Ascend 310P3
\t4                              1                              -                              Mcu
"""
    assert values(text)["rows"] == [
        {"npu": 4, "chip": 0, "logic": 0, "physical": None, "name": "Ascend 310P3"},
        {"npu": 4, "chip": 1, "logic": None, "physical": None, "name": "Mcu"},
    ]


def test_the_mapping_of_950_has_slots_and_no_logic_ids():
    text = "$ npu-smi info -m\nNPU ID  Slot ID  Chip ID  Chip Phy-ID  Chip Name\n3  5  0  12  Ascend950PR\n"
    assert values(text)["rows"] == [
        {"npu": 3, "slot": 5, "chip": 0, "logic": None, "physical": 12, "name": "Ascend950PR"}
    ]


def test_a_topology_without_affinity_says_so():
    text = (
        "$ npu-smi info -t topo\n      Phy-ID0  Phy-ID1\nPhy-ID0  X  SIO\nPhy-ID1  SIO  X\n\nLegend:\n  X    = Self\n"
    )
    assert values(text) == {"NPU": ["Phy-ID0", "Phy-ID1"], "matrix": [["X", "SIO"], ["SIO", "X"]], "CPU Affinity": None}


def test_processes_of_a_device_have_pid_name_and_memory():
    text = "$ npu-smi info -t proc-mem -i 0\n\tProcess id:17 Process name:VLLM Worker     Process memory(MB):56684\n"
    assert values(text)["processes"] == [{"pid": 17, "name": "VLLM Worker", "memory_mib": 56684}]


def test_a_device_without_processes_has_a_message():
    found = details("$ npu-smi info -t proc-mem -i 0\n\tNo process in device.\n")
    assert (found.values["processes"], found.message) == ([], "No process in device.")


def test_samples_of_watch_are_rows_by_their_header():
    text = "$ npu-smi info watch\n NpuID(Idx)  Pwr(W)  AI Core(%) Memory BW(%)\n 0  290.4  7  3\n 1  NA  0  0\n"
    assert values(text)["rows"] == [
        {"NpuID(Idx)": 0, "Pwr(W)": 290.4, "AI Core(%)": 7, "Memory BW(%)": 3},
        {"NpuID(Idx)": 1, "Pwr(W)": None, "AI Core(%)": 0, "Memory BW(%)": 0},
    ]


@pytest.mark.parametrize(
    "text",
    [
        "This device does not support querying p2p-enable.",
        "Another user is resetting the NPU(s). Please try again later.",
        "This command cannot be executed on a VM or container.",
    ],
)
def test_a_refusal_is_the_message(text: str):
    assert details(f"$ npu-smi info -t p2p-enable -i 0\n{text}\n").message == text


def test_a_sub_command_that_fails_has_the_error_and_no_values():
    found = details("$ npu-smi info -t health -i 0\ndcmi module initialize failed. ret is -8005\nrc=187\n")
    assert found.error is not None
    assert (found.error.kind, found.values, found.exit_status) == (ErrorKind.DRIVER_NOT_READY, {}, 187)


def test_a_missing_library_is_not_taken_for_a_key():
    text = (
        "$ npu-smi info -l\nnpu-smi: error while loading shared libraries: libdcmi.so: cannot open shared object file\n"
    )
    found = details(text)
    assert found.error is not None
    assert (found.error.kind, found.values) == (ErrorKind.MISSING_LIBRARY, {})


def test_several_commands_in_one_text_give_several_readings():
    text = "".join(
        f"$ npu-smi info -t health -i {card} -c 0\n\tHealth Status : {word}\n"
        for card, word in enumerate(["OK", "Alarm"])
    )
    found = reader.read_all(text)
    assert [reading.values["Health Status"] for reading in found if isinstance(reading, Details)] == ["OK", "Alarm"]


def test_a_help_text_is_kept_as_a_message():
    found = details(
        "$ npu-smi info -h\nUsage: npu-smi info  [Options...]\n\nCommands:\n       watch          Show all\n"
    )
    assert found.type == "-h"
    assert "watch" in (found.message or "")
