"""Server time out of Date headers, and time stamps."""

import pytest

from npu_operator.kube.clock import SystemClock, micro_stamp, seconds_of, stamp

DATE = "Thu, 01 Jan 2026 00:00:{:02d} GMT"
DATE_S = 1_767_225_600.0


class Machine:
    """A machine whose two clocks are set by hand."""

    def __init__(self, *, wrong_by_s: float = 0.0) -> None:
        self.monotonic = 1000.0
        self.jumps: list[float] = []
        self.clock = SystemClock(
            monotonic=lambda: self.monotonic,
            wall=lambda: DATE_S + self.monotonic - 1000.0 + wrong_by_s,
            on_jump=self.jumps.append,
        )

    def hears(self, header: str, *, after_s: float = 0.0) -> None:
        sent = self.monotonic
        self.monotonic += after_s
        self.clock.observe_date(header, sent=sent, received=self.monotonic)


def test_a_right_clock_is_left_alone():
    machine = Machine(wrong_by_s=0.4)
    machine.hears(DATE.format(0))
    assert machine.clock.now() == pytest.approx(DATE_S + 0.4)
    assert machine.jumps == []


def test_a_clock_that_is_hours_off_writes_server_time_after_one_answer():
    machine = Machine(wrong_by_s=-7200.0)
    machine.hears(DATE.format(0))
    assert machine.clock.now() == pytest.approx(DATE_S, abs=1.0)
    assert machine.jumps == [pytest.approx(7200.0, abs=1.0)]


def test_time_settles_within_a_second_and_does_not_jitter_with_whole_seconds():
    machine = Machine(wrong_by_s=30.0)
    seen = []
    for step in range(200):
        machine.monotonic = 1000.0 + step * 0.1
        machine.hears(DATE.format(int(step * 0.1)))
        seen.append(machine.clock.now() - DATE_S - step * 0.1)
    assert all(-1e-6 <= error <= 1.0 + 1e-6 for error in seen)
    assert len({round(error, 6) for error in seen[20:]}) == 1


def test_a_slow_answer_moves_the_clock_no_further_than_it_proves():
    machine = Machine()
    machine.hears(DATE.format(0), after_s=20.0)  # stamped somewhere within these 20 s
    assert machine.clock.now() == pytest.approx(DATE_S + 20.0)


def test_a_date_that_is_none_is_ignored():
    machine = Machine()
    machine.hears("yesterday")
    machine.hears("")
    assert machine.clock.now() == pytest.approx(DATE_S)


def test_a_sleeping_machine_finds_the_time_again_and_says_so():
    machine = Machine()
    machine.hears("Thu, 01 Jan 2026 02:00:00 GMT")
    assert machine.clock.now() == pytest.approx(DATE_S + 7200)
    assert machine.jumps == [pytest.approx(7200)]


def test_stamps_are_read_back_as_they_were_written():
    assert stamp(DATE_S + 0.9) == "2026-01-01T00:00:00Z"
    assert micro_stamp(DATE_S + 0.25) == "2026-01-01T00:00:00.250000Z"
    assert seconds_of("2026-01-01T00:00:00Z") == DATE_S
    assert seconds_of(micro_stamp(DATE_S + 0.25)) == DATE_S + 0.25
