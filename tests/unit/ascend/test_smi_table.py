"""The table of npu-smi: every layout, and what pastes, documents and half-dead chips make of it."""

from collections.abc import Sequence

import msgspec
import pytest

from npu_operator.ascend.smi import reader
from npu_operator.ascend.smi.layouts import LAYOUTS, Layout
from npu_operator.ascend.smi.readings import Chip, InfoTable, Process
from tests.unit.ascend.tables import draw, layout, rows


def an_a2_chip(card: int = 0, **changes: object) -> Chip:
    chip = Chip(
        card=card,
        chip=0,
        name="910B3",
        health="OK",
        bus_id=f"0000:C{card}:00.0",
        power_w=93.5,
        temp_c=41,
        aicore_pct=7,
        hbm_used_mib=3312,
        hbm_total_mib=65536,
        mem_used_mib=0,
        mem_total_mib=0,
    )
    return msgspec.structs.replace(chip, **changes)


def an_inference_chip(card: int = 0, **changes: object) -> Chip:
    chip = Chip(
        card=card,
        chip=0,
        logic=0,
        name="310P3",
        health="OK",
        bus_id="0000:81:00.0",
        temp_c=44,
        aicore_pct=0,
        mem_used_mib=1851,
        mem_total_mib=21527,
    )
    return msgspec.structs.replace(chip, **changes)


def an_a3_die(card: int, chip: int, **changes: object) -> Chip:
    power = 171.5 if chip == 0 else None
    die = an_a2_chip(
        card, chip=chip, physical=2 * card + chip, name="Ascend910", power_w=power, bus_id=f"0000:9{chip}:00.0"
    )
    return msgspec.structs.replace(die, **changes)


def a_950(card: int = 0, **changes: object) -> Chip:
    chip = an_a2_chip(card, chip=None, name="Ascend950PR", hbm_total_mib=131072, bus_id="0000:71:00.0")
    return msgspec.structs.replace(chip, **changes)


def chips_for(form: Layout) -> list[Chip]:
    if form.name == "L5":
        return [a_950(0), a_950(6, health="Warning"), a_950(7, bus_id=None)]
    if "Device" in form.second[0]:
        return [an_inference_chip(4), an_inference_chip(32768, logic=1, health="Alarm", power_w=16.3)]
    return [an_a2_chip(0), an_a2_chip(5, health="Critical", power_w=0.5), an_a2_chip(9, hbm_used_mib=65012)]


def table(text: str) -> InfoTable:
    found = reader.read(text)
    assert isinstance(found, InfoTable)
    return found


def read_rows(text: str) -> tuple[Chip, ...]:
    return table(text).chips


@pytest.mark.parametrize("form", LAYOUTS, ids=lambda form: f"{form.name}-{form.width}")
def test_what_a_release_draws_is_what_is_read(form: Layout):
    chips = chips_for(form)
    found = table(draw(form, chips, tool="24.1.rc3.7", driver="24.1.0"))
    assert (found.layout, found.tool_version, found.driver_version) == (form.name, "24.1.rc3.7", "24.1.0")
    assert found.chips == tuple(chips)
    assert found.error is None


@pytest.mark.parametrize("form", [form for form in LAYOUTS if form.process], ids=lambda form: form.name)
def test_processes_are_read_in_every_layout_that_has_them(form: Layout):
    chip = None if form.name == "L5" else 0
    processes = (
        Process(card=0, chip=chip, pid=4711, name="python3.11", memory_mib=30780),
        Process(card=0, chip=chip, pid=4712, name=None, memory_mib=1),
    )
    found = table(draw(form, chips_for(form), processes=processes, idle=[5]))
    assert found.processes == processes
    assert found.idle_cards == (5,)


def test_both_dies_of_an_a3_package_are_chips_of_their_own():
    dies = [an_a3_die(card, chip) for card in (0, 7) for chip in (0, 1)]
    found = table(draw(layout("L2"), dies))
    assert found.chips == tuple(dies)
    assert [die.physical for die in found.chips] == [0, 1, 14, 15]
    assert found.chips[1].power_w is None


def test_only_the_sick_die_of_a_package_is_critical():
    dies = [an_a3_die(0, 0), an_a3_die(0, 1, health="Critical")]
    assert [die.health for die in read_rows(draw(layout("L2"), dies))] == ["OK", "Critical"]


def test_two_chips_of_a_duo_card_share_one_bus_id():
    chips = [an_inference_chip(1), an_inference_chip(1, chip=1, logic=1)]
    found = read_rows(draw(layout("L3", ddr=True), chips))
    assert [(chip.card, chip.chip, chip.logic, chip.bus_id) for chip in found] == [
        (1, 0, 0, "0000:81:00.0"),
        (1, 1, 1, "0000:81:00.0"),
    ]


def test_four_chips_of_a_310_card_have_their_own_bus_ids_and_dashed_rules():
    text = """\
+------------------------------------------------------------------------------+
| npu-smi 21.0.3.1                 Version: 21.0.3.1                           |
+-------------------+-----------------+----------------------------------------+
| NPU     Name      | Health          | Power(W)          Temp(C)              |
| Chip    Device    | Bus-Id          | AICore(%)         Memory-Usage(MB)     |
+===================+=================+========================================+
| 20      310       | OK              | 12.8              43                   |
| 0       0         | 0000:16:00.0    | 0                 2457 / 8192          |
+-------------------+-----------------+----------------------------------------+
| 20      310       | OK              | 12.8              45                   |
| 1       1         | 0000:17:00.0    | 0                 2457 / 8192          |
+===================+=================+========================================+
"""
    found = table(text)
    assert (found.layout, found.tool_version) == ("L0", "21.0.3.1")
    assert [(chip.card, chip.chip, chip.logic, chip.bus_id, chip.mem_used_mib) for chip in found.chips] == [
        (20, 0, 0, "0000:16:00.0", 2457),
        (20, 1, 1, "0000:17:00.0", 2457),
    ]


def test_a_station_without_pci_has_no_bus_id():
    chip = an_inference_chip(0, name="310B1", bus_id=None, power_w=0.0)
    assert read_rows(draw(layout("L3", ddr=True), [chip])) == (chip,)


def test_a_narrow_table_of_a_developer_kit_is_read():
    text = """\
+----------------------------------------------------------------------------------------+
| npu-smi 23.0.rc3                 Version: 23.0.rc3                                     |
+-------------------+-----------------+--------------------------------------------------+
| NPU     Name      | Health          | Power(W)     Temp(C)       Hugepages-Usage(page) |
| Chip    Device    | Bus-Id          | AICore(%)    Memory-Usage(MB)                    |
+===================+=================+==================================================+
| 0       310B4     | Alarm           | 0.0          65            15    / 15            |
| 0       0         | NA              | 0            3628 / 15609                        |
+===================+=================+==================================================+
"""
    (chip,) = read_rows(text)
    assert (chip.name, chip.health, chip.temp_c, chip.mem_total_mib) == ("310B4", "Alarm", 65, 15609)


def test_numbers_that_touch_their_slash_are_two_numbers():
    (chip,) = read_rows(draw(layout("L2"), [an_a2_chip(hbm_used_mib=59356)]).replace("59356/ ", "59356/"))
    assert (chip.hbm_used_mib, chip.hbm_total_mib) == (59356, 65536)


def test_a_masked_bus_id_is_kept_as_it_was_pasted():
    assert [chip.bus_id for chip in read_rows(draw(layout("L2"), [an_a2_chip(bus_id="0000:xx:00.0")]))] == [
        "0000:xx:00.0"
    ]


def test_rows_without_header_and_rules_are_read():
    lines = [line for chip in (an_a3_die(0, 0), an_a3_die(0, 1, health="Warning")) for line in rows(layout("L4"), chip)]
    found = table("\n".join(lines))
    assert [(chip.card, chip.chip, chip.physical, chip.health) for chip in found.chips] == [
        (0, 0, 0, "OK"),
        (0, 1, 1, "Warning"),
    ]
    assert (found.tool_version, found.driver_version, found.layout) == (None, None, "L4")


def test_rows_of_the_310_family_without_header_have_logic_ids():
    (chip,) = read_rows("\n".join(rows(layout("L3", ddr=True), an_inference_chip(7, logic=3))))
    assert (chip.logic, chip.physical, chip.mem_total_mib, chip.hbm_total_mib) == (3, None, 21527, None)


def test_a_950_row_without_header_is_told_by_its_empty_cells():
    (chip,) = read_rows("\n".join(rows(layout("L5"), a_950(2))))
    assert chip == a_950(2)


def test_a_paste_that_begins_with_a_second_row_keeps_the_chips_after_it():
    half = rows(layout("L2"), an_a2_chip(8))[1]
    whole = draw(layout("L2"), [an_a2_chip(9), an_a2_chip(10), an_a2_chip(11)]).splitlines()[6:]
    found = table("\n".join([half, *whole]))
    assert [chip.card for chip in found.chips] == [None, 9, 10, 11]
    assert found.chips[0].bus_id == "0000:C8:00.0"
    assert all(chip.answers for chip in found.chips)


def test_a_paste_cut_after_a_first_row_still_shows_that_chip():
    text = draw(layout("L2"), [an_a2_chip(0), an_a2_chip(1)])
    cut = text[: text.index("| 0 ", text.index("| 1 "))]
    assert [(chip.card, chip.chip, chip.bus_id) for chip in read_rows(cut)] == [(0, 0, "0000:C0:00.0"), (1, None, None)]


def test_a_row_cut_in_the_middle_loses_only_its_own_numbers():
    lines = draw(layout("L2"), [an_a2_chip(0), an_a2_chip(1)]).splitlines()
    for end in range(len("| 0     910B3               | OK"), len(lines[6])):
        first, second = read_rows("\n".join([*lines[:6], lines[6][:end], *lines[7:]]))
        assert (first.card, first.name, first.health, first.bus_id) == (0, "910B3", "OK", "0000:C0:00.0")
        assert second == an_a2_chip(1)


def test_a_missing_bar_between_health_and_numbers_is_no_loss():
    text = draw(layout("L2"), [an_a2_chip(0)]).replace("| OK            | 93.5", "| OK              93.5")
    assert read_rows(text) == (an_a2_chip(0),)


def test_rows_that_a_document_left_out_are_no_chips():
    lines = draw(layout("L2"), [an_a2_chip(0), an_a2_chip(7)]).splitlines()
    for elided in ("...", "......", "| ...   ...                 | ...           | ...         |", "|  …  |  …  |"):
        text = "\n".join([*lines[:9], elided, *lines[9:]])
        assert [chip.card for chip in read_rows(text)] == [0, 7]


def test_a_document_with_misaligned_columns_and_placeholders_is_read():
    text = """\
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
| 3     xxx        | Warning                 | 73.1    37       0    / 0      |
| 0                 | 0000:61:00.0  | 0   920  / 13553      0    / 32768         |
"""
    (chip,) = read_rows(text)
    assert (chip.card, chip.name, chip.health, chip.power_w, chip.temp_c) == (3, "xxx", "Warning", 73.1, 37)
    assert (chip.mem_used_mib, chip.mem_total_mib, chip.hbm_total_mib) == (920, 13553, 32768)


@pytest.mark.parametrize(
    "rule",
    [
        "+===========================+=======–=======+====================================================+",
        "+---------------------------|---------------|----------------------------------------------------+",
        "|===========================|===============|====================================================|",
        "+--------/--------/--------+",
        "",
    ],
)
def test_a_rule_may_be_typed_in_any_way(rule: str):
    lines = [
        rule if line.startswith("+") else line
        for line in draw(layout("L2"), [an_a2_chip(0), an_a2_chip(1)]).splitlines()
    ]
    assert read_rows("\n".join(lines)) == (an_a2_chip(0), an_a2_chip(1))


def test_a_slice_inside_a_container_has_the_card_id_32768():
    chip = an_inference_chip(32768, mem_used_mib=311, mem_total_mib=8192)
    found = table(draw(layout("L3", ddr=True), [chip], idle=[32768]))
    assert found.chips == (chip,)
    assert found.idle_cards == (32768,)


def test_processes_of_cards_that_the_paste_leaves_out_are_kept():
    text = """\
| 7     910B3               | OK            | 95.1        40                0    / 0             |
| 0                         | 0000:42:00.0  | 0           0    / 0          60012/ 65536         |
| 4       0                 | 2204811       |                          | 56684                   |
| 5       0                 | 2204811       | VLLM::Worker             | 56690                   |
"""
    found = table(text)
    assert [chip.card for chip in found.chips] == [7]
    assert [(one.card, one.pid, one.name, one.memory_mib) for one in found.processes] == [
        (4, 2204811, None, 56684),
        (5, 2204811, "VLLM::Worker", 56690),
    ]


def test_process_rows_alone_are_a_table():
    found = table(
        "| 0       1                 | 1777209       | VLLMWorker_PP      | 56684                 | NA       |"
    )
    assert found.processes == (Process(card=0, chip=1, pid=1777209, name="VLLMWorker_PP", memory_mib=56684),)


def test_the_pid_is_the_one_of_the_host_and_not_of_the_container():
    process = Process(card=0, chip=0, pid=351533, memory_mib=2200, container_pid=4109018)
    assert table(draw(layout("L4"), [an_a2_chip()], processes=[process])).processes == (process,)


def test_a_name_longer_than_its_column_is_kept_whole():
    process = Process(card=6, pid=3621066, name="/home/user1/some/long/way/to/worker.py", memory_mib=40000)
    assert table(draw(layout("L5"), [a_950(6)], processes=[process])).processes == (process,)


def test_a_bar_in_a_process_name_does_not_move_its_memory():
    process = Process(card=0, chip=0, pid=17, name="sh -c a|b", memory_mib=512)
    (found,) = table(draw(layout("L2"), [an_a2_chip()], processes=[process])).processes
    assert (found.pid, found.memory_mib) == (17, 512)


def test_a_process_section_may_end_with_a_dashed_rule():
    text = draw(layout("L2"), [an_a2_chip()], processes=[Process(card=0, chip=0, pid=9, name="p", memory_mib=1)])
    assert len(table(text.rstrip().rstrip("=+") + "+---+").processes) == 1


def test_narrow_columns_of_a_document_with_five_process_columns_are_the_wide_layout():
    text = """\
+-----------------------------------------------------------------------------------------------+
| npu-smi xxx.xxx.xxx                Version: xxx.xxx.xxx                                       |
| NPU   Name         | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)      |
| Chip  Phy-ID       | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)              |
| 0     xxx          | OK            | 157.3       32                0    / 0                   |
| 0     0            | 0000:9D:00.0  | 0           0        / 0      3130 / 65536               |
| 0     xxx          | OK            | -           32                0    / 0                   |
| 1     0            | 0000:9D:00.0  | 0           0        / 0      3130 / 65536               |
| NPU     Chip       | Process id    | Process name| Process memory(MB) |Process id in container|
| No running processes found in NPU 0                                                           |
"""
    found = table(text)
    assert found.layout == "L4"
    assert [(chip.chip, chip.physical) for chip in found.chips] == [(0, 0), (1, 0)]


def lost(card: int) -> Chip:
    zeros = {"power_w": 0.0, "temp_c": 0, "aicore_pct": 0, "hbm_used_mib": 0, "hbm_total_mib": 0}
    return an_a2_chip(card, name=None, health="UNKNOWN", bus_id="0000:00:00.0", answers=False, **zeros)


def test_a_zeroed_row_is_a_chip_that_does_not_answer():
    found = table(draw(layout("L2"), [an_a2_chip(0), lost(5), an_a2_chip(7)], idle=[0, 5, 7]))
    assert found.chips == (an_a2_chip(0), lost(5), an_a2_chip(7))


@pytest.mark.parametrize(
    "sign",
    [
        {"health": "UNKNOWN"},
        {"health": "unknown"},
        {"health": None},
        {"name": None},
        {"bus_id": "0000:00:00.0"},
        {"hbm_used_mib": 0, "hbm_total_mib": 0},
    ],
    ids=str,
)
def test_one_sign_is_enough_for_a_chip_that_does_not_answer(sign: dict[str, object]):
    found = read_rows(draw(layout("L2"), [an_a2_chip(3, **sign), an_a2_chip(4)]))
    assert [chip.answers for chip in found] == [False, True]


@pytest.mark.parametrize("word", ["OK", "Warning", "Alarm", "Critical", "Resetting", "Upgrading"])
def test_a_health_word_is_kept_and_says_that_the_chip_answers(word: str):
    found = read_rows(draw(layout("L2"), [an_a2_chip(3, health=word)]))
    assert [(chip.health, chip.answers) for chip in found] == [(word, True)]


def without_first_row(text: str, card: int) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(f"| {card}     "))


def test_a_chip_whose_first_row_vanished_is_there_and_does_not_answer():
    text = without_first_row(draw(layout("L2"), [an_a2_chip(1), an_a2_chip(2), an_a2_chip(3)]), 2)
    found = read_rows(text)
    assert [(chip.card, chip.bus_id, chip.answers) for chip in found] == [
        (1, "0000:C1:00.0", True),
        (None, "0000:C2:00.0", False),
        (3, "0000:C3:00.0", True),
    ]


def test_the_process_table_tells_the_card_of_a_vanished_first_row():
    chips = [an_a2_chip(1), an_a2_chip(2), an_a2_chip(3)]
    text = draw(layout("L2"), chips, idle=[1, 2], processes=[Process(card=3, chip=0, pid=1, name="p", memory_mib=1)])
    assert [chip.card for chip in read_rows(without_first_row(text, 2))] == [1, 2, 3]


def test_a_second_die_without_its_first_row_belongs_to_the_card_before_it():
    text = draw(layout("L2"), [an_a3_die(4, 0), an_a3_die(4, 1), an_a3_die(5, 0)])
    lines = [line for line in text.splitlines() if "| NA  " not in line]
    assert [(chip.card, chip.chip, chip.answers) for chip in read_rows("\n".join(lines))] == [
        (4, 0, True),
        (4, 1, False),
        (5, 0, True),
    ]


@pytest.mark.parametrize(
    "rest", ["| 3      |", "| 3      | Ascend950PR      |", "| 3      | Ascend950PR      | UNKNOWN       |"]
)
def test_a_950_that_lost_its_heartbeat_may_leave_a_row_half_printed(rest: str):
    first, second = draw(layout("L5"), [a_950(0)]), rows(layout("L5"), a_950(4))
    found = read_rows("\n".join([first, rest, *second]))
    assert [(chip.card, chip.answers) for chip in found] == [(0, True), (3, False), (4, True)]


def test_a_warning_below_the_table_is_no_error():
    text = (
        draw(layout("L2"), [an_a2_chip()])
        + "[WARNING]The driver package may not be completely installed, please reinstall it.\n"
    )
    found = table(text)
    assert found.error is None
    assert len(found.warnings) == 1


def test_an_error_code_below_the_table_is_an_error_beside_the_chips():
    text = draw(layout("L2"), [an_a2_chip()]) + "Failed to execute npu-smi info. ret is -8012.\n"
    found = table(text)
    assert found.error is not None
    assert (found.error.code, len(found.chips)) == (-8012, 1)


def test_a_table_is_found_among_a_prompt_and_other_lines():
    text = "[root@a7 ~]# npu-smi info\n" + draw(layout("L2"), [an_a2_chip()]) + "[root@a7 ~]#\n"
    assert read_rows(text) == (an_a2_chip(),)


@pytest.mark.parametrize("ending", ["\r\n", "\n\n", "\x1b[0m\n"], ids=["windows", "doubled", "coloured"])
def test_line_endings_and_colours_do_not_matter(ending: str):
    assert read_rows(draw(layout("L2"), [an_a2_chip()]).replace("\n", ending)) == (an_a2_chip(),)


@pytest.mark.parametrize("margin", ["    ", "\t", "> "], ids=["blanks", "tab", "quote"])
def test_an_indented_or_quoted_table_is_read(margin: str):
    text = "\n".join(margin + line for line in draw(layout("L2"), [an_a2_chip(0), an_a2_chip(1)]).splitlines())
    assert read_rows(text) == (an_a2_chip(0), an_a2_chip(1))


def test_a_header_without_driver_version_gives_the_tool_alone():
    text = draw(layout("L2"), [an_a2_chip()]).replace("Version: 24.1.0", "               ")
    found = table(text)
    assert (found.tool_version, found.driver_version) == ("24.1.0", None)


def test_a_header_without_blank_before_the_version_is_read():
    found = table(
        draw(layout("L1", ddr=True), [an_inference_chip()], driver="22.0.2").replace("Version: 22", "Version:22")
    )
    assert found.driver_version == "22.0.2"


def test_a_header_without_chips_is_a_table_without_chips():
    found = table(draw(layout("L2"), []))
    assert (found.chips, found.error, found.tool_version) == ((), None, "24.1.0")


def shuffled(lines: Sequence[str]) -> str:
    """All pairs of rows in another order, with their rules gone."""
    pairs = [lines[at : at + 2] for at in range(6, len(lines), 3)]
    return "\n".join([*lines[:6], *(line for pair in reversed(pairs) for line in pair)])


def test_the_order_of_chips_is_the_order_of_the_text():
    text = shuffled(draw(layout("L2"), [an_a2_chip(card) for card in range(3)]).splitlines())
    assert [chip.card for chip in read_rows(text)] == [2, 1, 0]
