"""Versions of the HDK (driver), the firmware and CANN: reading, ordering, ranges.

Forms seen: `25.5.0`, `25.3.RC1`, `24.1.rc3.7`, `24.1.rc1.b030` (a build), `23.0.2.1`, firmware `7.8.0.6.201`, CANN
`8.0.RC3.beta1` and `8.5.0.alpha001`. Letters do not count by case. Order: alpha < beta < build < rc < the version
itself < its patches, so `24.1.rc1.b030 < 24.1.rc1 < 24.1.rc1.2 < 24.1.rc2 < 24.1.0`. Source: names of releases.
"""

import re

import msgspec

_PART = re.compile(r"(?P<stage>rc|beta|alpha|b)?(?P<number>[0-9]{1,9})", re.IGNORECASE)
_RANKS = {"alpha": -4, "beta": -3, "b": -2, "rc": -1, "": 1}
_END = (0, 0)  # a version that stops here lies above its release candidates and below its patches
_RANGE = re.compile(r"\s*([\[(])\s*([^,\[\]()]+?)\s*,\s*([^,\[\]()]+?)\s*([\])])\s*")
_INNER = re.compile(r"V([0-9]{3})R([0-9]{3})C([0-9]{2,3})(?:SPC([0-9]{3}))?(?:B([0-9]{3}))?", re.IGNORECASE)


class Version(msgspec.Struct, frozen=True, eq=False):
    """A version in the order of releases. `text` is as given; two spellings of one version are equal."""

    text: str
    key: tuple[tuple[int, int], ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __lt__(self, other: "Version") -> bool:
        return (*self.key, _END) < (*other.key, _END)

    def __le__(self, other: "Version") -> bool:
        return not other < self

    def __gt__(self, other: "Version") -> bool:
        return other < self

    def __ge__(self, other: "Version") -> bool:
        return not self < other

    def __str__(self) -> str:
        return self.text

    @property
    def line(self) -> tuple[int, int]:
        """The release line: (25, 5) for 25.5.0, (24, 1) for 24.1.rc3.7. A lone number has minor 0."""
        numbers = [number for rank, number in self.key[:2] if rank == _RANKS[""]]
        return (numbers[0], numbers[1] if len(numbers) > 1 else 0)

    @property
    def is_prerelease(self) -> bool:
        """Whether a part of it is alpha, beta, a build or a release candidate."""
        return any(rank < 0 for rank, _ in self.key)


def parse(text: str) -> Version:
    """Read a version. Raises ValueError, naming the text, when it is none (`xxx`, empty)."""
    found = try_parse(text)
    if found is None:
        raise ValueError(f"not a version: {text!r}; versions look like 25.5.0, 25.3.RC1 or 24.1.rc3.7")
    return found


def try_parse(text: str) -> Version | None:
    """Read a version, or None when the text is none."""
    parts = text.strip().split(".")
    key: list[tuple[int, int]] = []
    for part in parts:
        found = _PART.fullmatch(part)
        if found is None:
            return None
        key.append((_RANKS[(found["stage"] or "").lower()], int(found["number"])))
    return Version(text.strip(), tuple(key)) if key[0][0] == _RANKS[""] else None


class Range(msgspec.Struct, frozen=True):
    """An interval as version.info writes it: `[7.0.0,8.9.9]`; a round bracket leaves its end out.

    A bound counts to its own length: 8.9.9.1 lies inside `[7.0.0,8.9.9]`, as the installer has it.
    """

    low: Version
    high: Version
    low_included: bool = True
    high_included: bool = True

    def __contains__(self, version: Version) -> bool:
        low = _compare(version, self.low)
        high = _compare(version, self.high)
        return (low > 0 or (low == 0 and self.low_included)) and (high < 0 or (high == 0 and self.high_included))

    def __str__(self) -> str:
        left, right = "[" if self.low_included else "(", "]" if self.high_included else ")"
        return f"{left}{self.low},{self.high}{right}"


def parse_range(text: str) -> Range:
    """Read `[low,high]`. Raises ValueError when it is none, or its bounds are no versions or the wrong way round."""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"not a version range: {text!r}; ranges look like [7.0.0,8.9.9]")
    low, high = parse(found[2]), parse(found[3])
    if high < low:
        raise ValueError(f"the range {text!r} ends before it begins")
    return Range(low, high, found[1] == "[", found[4] == "]")


def _compare(version: Version, bound: Version) -> int:
    missing = [(_RANKS[""], 0)] * (len(bound.key) - len(version.key))  # 7.0 stands for 7.0.0
    cut = (*version.key, *missing)[: len(bound.key)]
    return (cut > bound.key) - (cut < bound.key)


class InnerVersion(msgspec.Struct, frozen=True, order=True):
    """The vendor's internal number: `V100R001C23SPC002B212`. Drivers and CANN name each other by its V, R and C."""

    v: int
    r: int
    c: int
    spc: int = 0
    build: int = 0

    @property
    def branch(self) -> "InnerVersion":
        """What compatibility lists name: V, R and C alone."""
        return InnerVersion(self.v, self.r, self.c)


def parse_inner(text: str) -> InnerVersion | None:
    """Read an internal number, with or without brackets around it; None when it is none."""
    found = _INNER.fullmatch(text.strip().strip("[]"))
    return InnerVersion(*(int(part or 0) for part in found.groups())) if found else None
