"""Which CANN runs on which driver: the pairs that the vendor lists, and what they say about a wanted pair.

CANN brings its own libraries in the container and calls into the driver's. The vendor keeps a window of about four
releases and lists pairs in release notes; a pair outside those lists is not known to fail, so the answer has three
values and a preflight only warns. "Listed" means: named together in one of the documents in the row's `source`.
"""

from enum import StrEnum

import msgspec

from npu_operator.ascend import versions

Line = tuple[int, int]


class Pairing(StrEnum):
    """What the table says of a pair."""

    LISTED = "listed"
    NOT_LISTED = "not-listed"
    UNKNOWN = "unknown"


class Row(msgspec.Struct, frozen=True):
    """A CANN release line and the HDK lines it is listed with; `source` is the document."""

    cann: Line
    hdk: tuple[Line, ...]
    source: str


_MINDSDK_70 = "MindSDK 7.0.RC1 release notes"
_MINDSDK_72 = "MindSDK 7.1.RC1 and 7.2.RC1 release notes"
_MINDSDK_73 = "MindSDK 7.3.0 compatibility table"
_MATRIX = "MindCluster 26.0.0 and 26.1.0 version matrix"

# 25.6 and 25.7, and 25.1 beside CANN 9.1, are HDK lines of 950 parts only.
TABLE: tuple[Row, ...] = (
    Row((8, 0), ((23, 0), (24, 1), (25, 1)), f"MindCluster 6.0.RC1 release notes; {_MINDSDK_70}; {_MINDSDK_72}"),
    Row(
        (8, 1),
        ((24, 1), (25, 0), (25, 1), (25, 2), (25, 3), (25, 5), (26, 0)),
        f"{_MINDSDK_72}; {_MINDSDK_73}",
    ),
    Row(
        (8, 2),
        ((24, 1), (25, 0), (25, 1), (25, 2), (25, 3), (25, 5), (26, 0)),
        f"MindIE 2.1.RC1 release notes; {_MINDSDK_72}; {_MINDSDK_73}",
    ),
    Row(
        (8, 3),
        ((24, 1), (25, 0), (25, 1), (25, 2), (25, 3), (25, 5), (26, 0)),
        f"ascend-deployer's list; {_MINDSDK_72}; {_MINDSDK_73}",
    ),
    Row(
        (8, 5),
        ((25, 0), (25, 2), (25, 3), (25, 5), (26, 0), (26, 1)),
        f"CANN 8.5.0 release notes, mapping between CANN and driver versions; {_MATRIX}",
    ),
    Row((9, 0), ((25, 5), (26, 0), (26, 1)), _MATRIX),
    Row((9, 1), ((25, 1), (25, 5), (25, 6), (25, 7), (26, 0), (26, 1)), _MATRIX),
)

_ROW_OF = {row.cann: row for row in TABLE}


def pairing(cann: str, hdk: str) -> Pairing:
    """Whether a CANN release is listed with a driver; UNKNOWN when either side is not in the table or no version."""
    inside, driver = versions.try_parse(cann), versions.try_parse(hdk)
    row = _ROW_OF.get(inside.line) if inside is not None else None
    if row is None or driver is None or driver.line not in KNOWN_HDK:
        return Pairing.UNKNOWN
    return Pairing.LISTED if driver.line in row.hdk else Pairing.NOT_LISTED


KNOWN_HDK = frozenset(line for row in TABLE for line in row.hdk)


def drivers_for(cann: str) -> tuple[Line, ...]:
    """The HDK lines listed with a CANN release; empty when the table does not know it."""
    inside = versions.try_parse(cann)
    row = _ROW_OF.get(inside.line) if inside is not None else None
    return row.hdk if row is not None else ()
