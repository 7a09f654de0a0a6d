"""Reading and ordering versions, and what they say about each other."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_operator.ascend import compat, versions
from npu_operator.ascend.versions import InnerVersion, parse, parse_inner, parse_range, try_parse

# Each line is older than the next.
IN_ORDER = [
    "21.0.2",
    "22.0.4.1",
    "23.0.rc2",
    "23.0.rc2.3",
    "23.0.rc3",
    "23.0.0",
    "23.0.2",
    "23.0.2.1",
    "24.1.rc1.b030",
    "24.1.rc1",
    "24.1.rc2",
    "24.1.rc2.2",
    "24.1.rc3.7",
    "24.1.0.b060",
    "24.1.0",
    "24.1.0.3",
    "25.0.rc1",
    "25.2.0.b060",
    "25.2.0",
    "25.3.RC1",
    "25.3.0",
    "25.5.0",
    "25.5.2",
    "25.6.rc1.b169",
    "25.6.rc1",
    "26.0.rc1",
    "26.1.0",
]


@pytest.mark.parametrize(("older", "newer"), [*itertools.pairwise(IN_ORDER)])
def test_releases_are_in_order(older: str, newer: str):
    assert parse(older) < parse(newer)
    assert not parse(newer) < parse(older)


def test_cann_releases_are_in_order():
    texts = ["8.0.RC3.alpha001", "8.0.RC3.beta1", "8.0.RC3", "8.0.0", "8.1.RC1", "8.5.0.alpha001", "8.5.0"]
    assert sorted(texts, key=parse, reverse=True) == texts[::-1]


def test_letters_do_not_count_by_case():
    assert parse("25.3.RC1") == parse("25.3.rc1")
    assert len({parse("25.3.RC1"), parse("25.3.rc1")}) == 1
    assert str(parse("25.3.RC1")) == "25.3.RC1"


@pytest.mark.parametrize(
    "text", ["", "xxx", "xxx.xxx.xxx", "rc1", "25..0", "25.x", "v25.5.0", "25.5.0-1", "25.5.0.", "latest"]
)
def test_what_is_no_version_is_refused_by_name(text: str):
    assert try_parse(text) is None
    with pytest.raises(ValueError, match="not a version"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "line"), [("25.5.0", (25, 5)), ("24.1.rc3.7", (24, 1)), ("8.0.RC3.beta1", (8, 0)), ("26", (26, 0))]
)
def test_a_version_belongs_to_a_line(text: str, line: tuple[int, int]):
    assert parse(text).line == line


def test_builds_and_candidates_are_not_releases():
    assert parse("24.1.rc1.b030").is_prerelease
    assert parse("25.3.RC1").is_prerelease
    assert not parse("24.1.0.3").is_prerelease


@pytest.mark.parametrize(
    ("version", "is_inside"),
    [
        ("7.0.0", True),
        ("6.9.9", False),
        ("7.8.0.6.201", True),
        ("8.9.9", True),
        ("8.9.9.1", True),
        ("9.0.0", False),
        ("7.0", True),
    ],
)
def test_firmware_lies_in_the_range_that_the_driver_names(version: str, is_inside: bool):
    assert (parse(version) in parse_range("[7.0.0,8.9.9]")) is is_inside


def test_round_brackets_leave_the_end_out():
    assert parse("7.0.0") not in parse_range("(7.0.0, 8.0.0)")
    assert parse("8.0.0") not in parse_range("(7.0.0, 8.0.0)")
    assert str(parse_range("(7.0.0, 8.0.0]")) == "(7.0.0,8.0.0]"


@pytest.mark.parametrize("text", ["", "7.0.0,8.0.0", "[7.0.0]", "[8.0.0,7.0.0]", "[a,b]", "[1.0,2.0"])
def test_what_is_no_range_is_refused(text: str):
    with pytest.raises(ValueError):
        parse_range(text)


def test_inner_versions_are_compared_by_branch():
    inner = parse_inner("V100R001C23SPC002B212")
    assert inner == InnerVersion(100, 1, 23, 2, 212)
    assert inner is not None
    assert inner.branch == parse_inner("[V100R001C23]")
    assert parse_inner("C23") is None


PARTS = st.lists(st.integers(0, 99).map(str), min_size=1, max_size=5)
VERSIONS = st.builds(
    lambda numbers, end: ".".join([*numbers, *end]), PARTS, st.sampled_from([[], ["rc1"], ["RC2", "7"], ["b030"]])
)


@given(VERSIONS, VERSIONS, VERSIONS)
def test_the_order_is_total_and_transitive(one: str, two: str, three: str):
    low, middle, high = sorted([parse(one), parse(two), parse(three)])
    assert low <= middle <= high
    assert low <= high
    assert (low < middle) + (low == middle) + (low > middle) == 1


@pytest.mark.parametrize(
    ("cann", "hdk", "wanted"),
    [
        ("8.5.0", "25.5.0", compat.Pairing.LISTED),
        ("8.5.0", "25.3.RC1", compat.Pairing.LISTED),
        ("8.5.0", "24.1.0", compat.Pairing.NOT_LISTED),
        ("8.2.RC1", "24.1.rc3", compat.Pairing.LISTED),
        ("9.0.0", "25.2.0", compat.Pairing.NOT_LISTED),
        ("9.1.0", "25.7.RC1", compat.Pairing.LISTED),
        ("5.1.RC2", "25.5.0", compat.Pairing.UNKNOWN),
        ("8.5.0", "99.0.0", compat.Pairing.UNKNOWN),
        ("xxx", "25.5.0", compat.Pairing.UNKNOWN),
    ],
)
def test_a_pair_of_cann_and_driver_is_listed_or_not(cann: str, hdk: str, wanted: compat.Pairing):
    assert compat.pairing(cann, hdk) is wanted


def test_the_drivers_for_a_cann_are_told():
    assert (25, 5) in compat.drivers_for("8.5.0.alpha001")
    assert compat.drivers_for("1.0") == ()


def test_every_row_of_the_pairs_has_its_source_and_an_order():
    assert [row.cann for row in compat.TABLE] == sorted({row.cann for row in compat.TABLE})
    for row in compat.TABLE:
        assert row.source
        assert list(row.hdk) == sorted(set(row.hdk))


def test_a_range_prints_as_it_is_read():
    assert versions.parse_range(str(versions.parse_range("[7.0.0,8.9.9]"))) == versions.parse_range("[7.0.0,8.9.9]")
