"""`npu-operator parse npu-smi`: files in, JSON out."""

import io
import json
import sys
from pathlib import Path

import pytest

from npu_operator.ascend.smi.readings import Chip
from npu_operator.cli.parse import parse_npu_smi
from tests.unit.ascend.tables import draw, layout

TABLE = draw(layout("L2"), [Chip(card=4, chip=0, name="910B3", health="OK", bus_id="0000:01:00.0", temp_c=40)])
ERROR = "dcmi module initialize failed. ret is -8005\n"

KEYS = {
    "card", "chip", "logic", "physical", "name", "health", "bus_id", "power_w", "temp_c", "aicore_pct",
    "hbm_used_mib", "hbm_total_mib", "mem_used_mib", "mem_total_mib", "answers",
}  # fmt: skip


def a_file(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def test_one_file_gives_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert parse_npu_smi([a_file(tmp_path, "a.txt", TABLE)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"layout", "tool_version", "driver_version", "error", "chips", "processes"}
    assert [set(chip) for chip in found["chips"]] == [KEYS]
    assert (found["layout"], found["error"], found["chips"][0]["card"]) == ("L2", None, 4)


def test_several_files_give_a_list_in_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    health = "$ npu-smi info -t health -i 0\n\tHealth Status : OK\n"
    files = [a_file(tmp_path, f"{at}.txt", text) for at, text in enumerate([ERROR, TABLE, health])]
    assert parse_npu_smi(files) == 0
    error, table, details = json.loads(capsys.readouterr().out)
    assert error["error"] == {"code": -8005, "kind": "driver-not-ready", "text": ERROR.strip()}
    assert len(table["chips"]) == 1
    assert (details["type"], details["values"]) == ("health", {"Health Status": "OK"})


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ERROR.encode())))
    assert parse_npu_smi([Path("-")]) == 0
    assert json.loads(capsys.readouterr().out)["error"]["code"] == -8005


def test_unreadable_files_are_all_named_and_nothing_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert parse_npu_smi([a_file(tmp_path, "a.txt", TABLE), tmp_path / "missing.txt", tmp_path]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("error: cannot read") == 2
    assert "missing.txt: No such file or directory" in printed.err


PROCESSES = (
    TABLE + "| 4       0                 | 17            | 训练                     | 1                       |\n"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_a_file_may_be_in_any_usual_encoding(encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert parse_npu_smi([a_file(tmp_path, "a.txt", PROCESSES.encode(encoding))]) == 0
    assert json.loads(capsys.readouterr().out)["processes"][0]["name"] == "训练"


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF\x02\x01\x01\x00\xff\xfe", bytes(range(256))], ids=["empty", "binary", "all"]
)
def test_a_file_of_anything_is_an_error_of_kind_other(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert parse_npu_smi([a_file(tmp_path, "a.bin", content)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["error"]["kind"], found["chips"]) == ("other", [])
