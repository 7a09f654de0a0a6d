import os
from pathlib import Path

import pytest

from npu_operator.node import reader
from npu_operator.node.reader import StateReader
from npu_operator.node.state import SCHEMA
from tests.unit.node.states import BOOT, OTHER_BOOT, a_state, write


class Watch:
    """A state file, a boot id and a clock, and one reader that looks at them."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "npu-state.json"
        self.boot_id_file = folder / "boot_id"
        self.boot_id_file.write_text(f"{BOOT}\n")
        self.now_s = 1000.0
        self.reader = StateReader(self.file, boot_id_file=self.boot_id_file, now=lambda: self.now_s)

    def look(self) -> reader.Seen:
        return self.reader.look()


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path)


def test_a_missing_file_is_told_and_gives_no_state(watch: Watch) -> None:
    seen = watch.look()
    assert seen.state is None
    assert seen.age_s is None
    assert "there is no" in seen.problem
    assert str(watch.file) in seen.problem


def test_a_good_file_gives_the_state_and_its_age(watch: Watch) -> None:
    write(watch.file, a_state(written_at_s=990.0))
    seen = watch.look()
    assert seen.state is not None
    assert len(seen.state.chips) == 8
    assert (seen.problem, seen.age_s, seen.is_stale) == ("", 10.0, False)


def test_the_age_grows_while_the_file_stays_the_same(watch: Watch) -> None:
    write(watch.file, a_state(written_at_s=990.0))
    watch.look()
    watch.now_s += reader.STALE_S
    seen = watch.look()
    assert seen.age_s == 10.0 + reader.STALE_S
    assert seen.is_stale


def test_a_new_file_replaces_what_was_known(watch: Watch) -> None:
    write(watch.file, a_state())
    watch.look()
    write(watch.file, a_state(in_service=False))
    seen = watch.look()
    assert seen.state is not None
    assert not seen.state.in_service


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "damaged or half-written"),
        (b'{"schema": 1, "node": "a7", "bootId":', "damaged or half-written"),
        (b"\x00\xff\x13garbage", "damaged or half-written"),
        (b"[]", "damaged or half-written"),
        (b'{"chips": "eight"}', "damaged or half-written"),
    ],
    ids=["empty", "cut", "bytes", "a list", "wrong type"],
)
def test_garbage_is_told_and_the_last_good_state_kept(watch: Watch, content: bytes, words: str) -> None:
    write(watch.file, a_state())
    watch.look()
    write(watch.file, content)
    seen = watch.look()
    assert seen.state is not None
    assert seen.state.node == "a7"
    assert words in seen.problem


def test_a_file_that_becomes_good_again_heals(watch: Watch) -> None:
    write(watch.file, b"garbage")
    assert watch.look().problem
    write(watch.file, a_state())
    seen = watch.look()
    assert seen.problem == ""
    assert seen.state is not None


def test_a_problem_is_told_again_at_each_look(watch: Watch) -> None:
    write(watch.file, b"garbage")
    assert watch.look().problem == watch.look().problem != ""


def test_a_vanished_file_keeps_the_state_and_says_so(watch: Watch) -> None:
    write(watch.file, a_state())
    watch.look()
    watch.file.unlink()
    seen = watch.look()
    assert seen.state is not None
    assert "there is no" in seen.problem


def test_the_same_file_back_again_ends_the_problem(watch: Watch) -> None:
    write(watch.file, a_state())
    watch.look()
    folder, away = watch.file.parent, watch.file.parent.with_suffix(".away")
    folder.rename(away)
    assert watch.look().problem
    away.rename(folder)
    assert watch.look().problem == ""


def test_a_file_of_another_boot_is_as_good_as_none(watch: Watch) -> None:
    write(watch.file, a_state(boot_id=OTHER_BOOT))
    seen = watch.look()
    assert seen.state is None
    assert OTHER_BOOT in seen.problem
    assert BOOT in seen.problem


def test_a_file_without_a_boot_id_is_refused(watch: Watch) -> None:
    write(watch.file, a_state(boot_id=""))
    assert watch.look().state is None


def test_a_newer_schema_is_refused_with_both_numbers(watch: Watch) -> None:
    write(watch.file, a_state(schema=SCHEMA + 1))
    seen = watch.look()
    assert seen.state is None
    assert f"schema {SCHEMA + 1} is newer than {SCHEMA}" in seen.problem


def test_fields_of_a_later_version_are_passed_over(watch: Watch) -> None:
    write(watch.file, f'{{"schema": {SCHEMA}, "bootId": "{BOOT}", "colour": "red"}}'.encode())
    assert watch.look().state is not None


def test_a_directory_in_its_place_is_told_and_costs_no_descriptors(watch: Watch) -> None:
    watch.file.mkdir()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    problems = {watch.look().problem for _ in range(5)}
    assert problems == {f"{watch.file} cannot be used: Is a directory"}
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_fifo_in_its_place_hangs_nobody(watch: Watch) -> None:
    os.mkfifo(watch.file)
    assert "not a regular file" in watch.look().problem


def test_a_file_beyond_all_bounds_is_not_read(watch: Watch) -> None:
    with watch.file.open("wb") as file:
        file.truncate(reader.MAX_BYTES + 1)
    assert str(reader.MAX_BYTES) in watch.look().problem


def test_without_a_boot_id_no_state_is_believed(watch: Watch) -> None:
    watch.boot_id_file.unlink()
    write(watch.file, a_state())
    seen = watch.look()
    assert seen.state is None
    assert str(watch.boot_id_file) in seen.problem


def test_a_stamp_from_the_future_gives_no_negative_age(watch: Watch) -> None:
    write(watch.file, a_state(written_at_s=2000.0))
    assert watch.look().age_s == 0.0


def test_the_real_boot_id_and_clock_are_the_hosts_own(tmp_path: Path) -> None:
    path = tmp_path / "npu-state.json"
    write(path, a_state(boot_id=reader.BOOT_ID_FILE.read_text().strip(), written_at_s=reader.boot_seconds()))
    seen = StateReader(path).look()
    assert seen.problem == ""
    assert seen.age_s is not None
    assert seen.age_s < 60
