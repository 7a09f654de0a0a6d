"""No text, however broken, makes the reader fail; what is whole in it is found."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_operator.ascend import hccn, kernel_log, lspci, topology
from npu_operator.ascend.smi import reader
from npu_operator.ascend.smi.layouts import LAYOUTS, Layout
from npu_operator.ascend.smi.readings import Chip, InfoTable, Process
from tests.unit.ascend.tables import draw, layout

FRAGMENTS = st.sampled_from(
    [
        "| 0     910B3               | OK            | 93.5        41                0    / 0             |",
        "| 0                         | 0000:C1:00.0  | 0           0    / 0          3312 / 65536         |",
        "| 0      | Ascend950PR      | OK            | 276.0     69     0 / 0   |",
        "|        |                  | NA            | 99        0 / 0  8824 / 131072 |",
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |",
        "| 0       0                 | 139667        | python                   | 30780                   |",
        "| npu-smi 24.1.0                   Version: 24.1.0 |",
        "$ npu-smi info -t topo",
        "NPU0  NPU1  CPU Affinity",
        "NPU0  X  HCCS  0-23",
        "NPU ID  Chip ID  Chip Logic ID  Chip Name",
        "Error Code : 80E01801",
        "dcmi module initialize failed. ret is -8005",
        "rc=187",
        "+====+",
        "...",
    ]
)
LINES = st.one_of(FRAGMENTS, st.text(max_size=40), st.text(alphabet="|+-=/ .:0123456789NAOK", max_size=60))
TEXTS = st.lists(LINES, max_size=12).map("\n".join)

NUMBERS = st.integers(min_value=0, max_value=200_000)


@st.composite
def a_layout_with_chips(draw_from: st.DrawFn) -> tuple[Layout, list[Chip]]:
    form = draw_from(st.sampled_from(LAYOUTS))
    is_950, is_ddr = form.name == "L5", "Device" in form.second[0]
    cards = draw_from(st.lists(st.integers(0, 32768), min_size=1, max_size=5, unique=True))
    chips = [
        Chip(
            card=card,
            chip=None if is_950 else 0,
            logic=draw_from(st.integers(0, 99)) if is_ddr else None,
            name=draw_from(st.sampled_from(["910B3", "310P3", "Ascend910", "910B4-1", "Ascend950DT", "xxx"])),
            health=draw_from(st.sampled_from(["OK", "Warning", "Alarm", "Critical"])),
            bus_id=draw_from(st.sampled_from(["0000:C1:00.0", "0000:00:07.0", "0000:xx:00.0"])),
            power_w=draw_from(st.none() | st.floats(0, 999, allow_nan=False).map(lambda watts: round(watts, 1))),
            temp_c=draw_from(st.integers(0, 120)),
            aicore_pct=draw_from(st.integers(0, 100)),
            mem_used_mib=draw_from(NUMBERS),
            mem_total_mib=draw_from(NUMBERS) + 1,
            hbm_used_mib=None if is_ddr else draw_from(NUMBERS),
            hbm_total_mib=None if is_ddr else draw_from(NUMBERS) + 1,
        )
        for card in cards
    ]
    return form, chips


@given(TEXTS)
def test_any_text_is_read_and_can_be_printed(text: str):
    for reading in (reader.read(text), *reader.read_all(text)):
        json.dumps(reader.as_document(reading))


@given(st.binary(max_size=200))
def test_any_bytes_are_read(raw: bytes):
    reader.read(raw.decode("latin-1"))


@pytest.mark.parametrize("part", ["npu-smi ", "npu-smi", " ", "@", "[driver]", ": ", "0 / ", "| ", "a"])
def test_a_line_without_end_is_given_up_soon(part: str):
    endless = part * 100_000
    found = reader.read("dcmi module initialize failed. ret is -8005\n" + endless)
    assert isinstance(found, InfoTable)
    assert found.error is not None
    assert len(found.error.text) <= reader.LONGEST_LINE
    list(kernel_log.read("[ascend] " + endless))
    hccn.read(endless)


@given(TEXTS)
def test_the_other_readers_take_any_text_as_well(text: str):
    list(kernel_log.read(text))
    topology.read(text.splitlines())
    lspci.read(text.splitlines())
    hccn.read(text)
    hccn.read_conf(text)


@settings(max_examples=200)
@given(a_layout_with_chips())
def test_every_chip_that_is_drawn_is_read(drawn: tuple[Layout, list[Chip]]):
    form, chips = drawn
    found = reader.read(draw(form, chips))
    assert isinstance(found, InfoTable)
    assert found.chips == tuple(chips)


@given(a_layout_with_chips(), st.data())
def test_a_table_cut_anywhere_keeps_the_chips_before_the_cut(drawn: tuple[Layout, list[Chip]], data: st.DataObject):
    form, chips = drawn
    text = draw(form, chips)
    begun = text[: data.draw(st.integers(0, len(text)))]
    rules_drawn = begun.count("\n+==")  # one below the header, one below each chip
    whole = max(rules_drawn - 1, 0)
    found = reader.read(begun)
    assert isinstance(found, InfoTable)
    assert found.chips[:whole] == tuple(chips[:whole])


@given(st.text(alphabet=st.characters(exclude_characters="\n\r|"), max_size=60), st.integers(6, 14))
def test_a_line_of_rubbish_between_chips_costs_no_other_chip(rubbish: str, at: int):
    chips = [
        Chip(card=card, chip=0, name="910B3", health="OK", bus_id=f"0000:C{card}:00.0", temp_c=40) for card in range(3)
    ]
    whole = [
        msgspec.structs.replace(chip, aicore_pct=0, hbm_used_mib=1, hbm_total_mib=2, mem_used_mib=0, mem_total_mib=0)
        for chip in chips
    ]
    lines = draw(layout("L2"), whole).splitlines()
    found = reader.read("\n".join([*lines[:at], rubbish, *lines[at:]]))
    assert isinstance(found, InfoTable)
    assert {chip.bus_id for chip in found.chips} >= {chip.bus_id for chip in chips}
    assert sum(chip in found.chips for chip in whole) >= 2


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=6), st.booleans())
def test_one_pid_may_be_on_several_cards_and_one_card_may_have_several(pids: list[int], is_one_card: bool):
    processes = tuple(
        Process(card=0 if is_one_card else card, chip=0, pid=pid, name="p", memory_mib=card)
        for card, pid in enumerate(pids)
    )
    found = reader.read(draw(layout("L2"), [], processes=processes))
    assert isinstance(found, InfoTable)
    assert found.processes == processes
