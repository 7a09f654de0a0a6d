from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_operator.model.policies import Day, Window
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import window

ZONES = {name: ZoneInfo(name) for name in ("UTC", "Asia/Shanghai", "Europe/Berlin")}
NIGHT = Window(start="22:00", end="04:00", days=(Day.SAT,))
"""The night from Saturday to Sunday."""


def objection(windows, text: str):
    return window.objection(windows, datetime.fromisoformat(text), ZONES)


def is_open(windows, text: str) -> bool:
    return objection(windows, text) is None


def test_without_windows_it_is_always_open():
    assert is_open((), "2026-11-30T12:00:00+00:00")


@pytest.mark.parametrize(
    ("moment", "opened"),
    [
        ("2026-12-05T21:59:59+00:00", False),
        ("2026-12-05T22:00:00+00:00", True),
        ("2026-12-06T00:00:00+00:00", True),
        ("2026-12-06T03:59:59+00:00", True),
        ("2026-12-06T04:00:00+00:00", False),
        ("2026-12-06T22:00:00+00:00", False),
        ("2026-12-05T01:00:00+00:00", False),
    ],
)
def test_a_window_across_midnight_belongs_to_the_day_on_which_it_opens(moment, opened):
    assert is_open((NIGHT,), moment) is opened


def test_a_window_without_days_opens_every_day():
    daily = Window(start="01:00", end="02:00")
    assert all(is_open((daily,), f"2026-12-0{day}T01:30:00+00:00") for day in range(1, 8))


def test_times_are_those_of_the_windows_own_zone():
    shanghai = Window(start="22:00", end="23:00", time_zone="Asia/Shanghai")
    assert is_open((shanghai,), "2026-11-30T14:30:00+00:00")
    assert not is_open((shanghai,), "2026-11-30T22:30:00+00:00")


def test_the_message_says_when_the_next_one_opens():
    no = objection((NIGHT, Window(start="10:00", end="11:00", days=(Day.FRI,))), "2026-11-30T12:00:00+00:00")
    assert no.reason == Reason.WaitsForWindow
    assert no.until == "2026-12-04T10:00:00Z"
    assert no.until in no.message
    assert no.in_s == 4 * 86400 - 2 * 3600


def test_one_open_window_is_enough():
    assert is_open((NIGHT, Window(start="11:00", end="13:00")), "2026-11-30T12:00:00+00:00")


def test_a_zone_that_does_not_exist_never_opens_and_is_named():
    no = objection((Window(time_zone="Mars/Olympus"),), "2026-11-30T12:00:00+00:00")
    assert "Mars/Olympus is not known" in no.message
    assert "no maintenance window ever opens" in no.message


def test_a_window_in_an_unknown_zone_does_not_close_the_others():
    windows = (Window(time_zone="Mars/Olympus"), Window(start="00:00", end="23:59"))
    assert is_open(windows, "2026-11-30T12:00:00+00:00")


@pytest.mark.parametrize(
    ("moment", "opened"),
    [
        ("2026-03-29T00:59:00+00:00", False),  # 01:59 winter time
        ("2026-03-29T01:30:00+00:00", False),  # 03:30 summer time: the window's hour did not exist
    ],
)
def test_a_window_in_the_hour_that_is_left_out_does_not_open_that_day(moment, opened):
    assert is_open((Window(start="02:10", end="02:50", time_zone="Europe/Berlin"),), moment) is opened


@pytest.mark.parametrize(
    ("moment", "opened"),
    [
        ("2026-10-25T00:20:00+00:00", True),  # 02:20 summer time
        ("2026-10-25T00:55:00+00:00", True),  # 02:55 summer time, the hour is coming once more
        ("2026-10-25T01:40:00+00:00", True),  # 02:40 winter time
        ("2026-10-25T01:50:00+00:00", False),
        ("2026-10-25T00:05:00+00:00", False),
    ],
)
def test_a_window_in_the_hour_that_comes_twice_is_open_from_first_to_last(moment, opened):
    assert is_open((Window(start="02:10", end="02:50", time_zone="Europe/Berlin"),), moment) is opened


def test_a_window_over_the_clock_change_keeps_its_local_times():
    night = Window(start="22:00", end="04:00", time_zone="Europe/Berlin")
    assert is_open((night,), "2026-03-29T01:59:00+00:00")  # 03:59 summer time
    assert not is_open((night,), "2026-03-29T02:00:00+00:00")


def test_the_end_of_an_open_window_is_known():
    moment = datetime.fromisoformat("2026-12-05T23:00:00+00:00")
    assert window.closes_in_s((NIGHT,), moment, ZONES) == 5 * 3600
    assert window.closes_in_s((NIGHT,), datetime.fromisoformat("2026-12-04T23:00:00+00:00"), ZONES) is None


@given(
    st.datetimes(timezones=st.just(ZONES["UTC"]), min_value=datetime(2026, 1, 1), max_value=datetime(2028, 1, 1)),
    st.sampled_from(sorted(ZONES)),
    st.integers(0, 23),
    st.integers(0, 23),
    st.sets(st.sampled_from(list(Day))),
)
def test_a_closed_window_is_open_at_the_moment_it_names(now, zone, start, end, days):
    one = Window(start=f"{start:02}:00", end=f"{end:02}:30", time_zone=zone, days=tuple(days))
    no = window.objection((one,), now, ZONES)
    if no is not None and no.until:
        assert window.objection((one,), datetime.fromisoformat(no.until), ZONES) is None
