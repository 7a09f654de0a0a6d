"""Quantities (`500m`, `1Gi`) in the one spelling that the API server keeps.

The server rewrites `1000m` to `1` and `0.5` to `500m`. An object that we apply has to hold what the server will answer,
or it would look changed for ever. Source: apimachinery `pkg/api/resource`, `Quantity.CanonicalizeBytes`.
"""

import decimal
import re

# Numbers have at most 13 or so digits; 60 keep every step below exact.
_EXACT = decimal.Context(prec=60)
_PARTS = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {-3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_EXPONENT_OF = {"n": -9, "u": -6, **{suffix: exponent for exponent, suffix in _DECIMAL.items()}}
_SMALLEST = decimal.Decimal("1e-3")  # core/v1 rounds requests and limits up to thousandths


def canonical(text: str | int) -> str:
    """The spelling that the API server gives back. Raises ValueError when `text` is no quantity."""
    parts = _PARTS.fullmatch(str(text))
    if parts is None:
        raise ValueError(f"{text!r} is no quantity; write for example 500m, 2 or 1Gi")
    number, suffix = decimal.Decimal(parts[1]), parts[2] or ""
    if suffix in _BINARY[1:]:
        return _binary(_EXACT.multiply(number, decimal.Decimal(1024) ** _BINARY.index(suffix)))
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return _with_exponent(_EXACT.scaleb(number, int(suffix[1:])))
    return _decimal(_EXACT.scaleb(number, _EXPONENT_OF[suffix]))


def _binary(value: decimal.Decimal) -> str:
    """With a binary suffix; below 1024, and for fractions of a byte, the server falls back to decimal ones."""
    if -1024 < value < 1024 or value != value.to_integral_value():
        return _decimal(value)
    power, whole = 0, int(value)
    while power < len(_BINARY) - 1 and whole % 1024 == 0:
        power, whole = power + 1, whole // 1024
    return f"{whole}{_BINARY[power]}"


def _decimal(value: decimal.Decimal) -> str:
    whole, exponent = _shortest(value)
    while exponent > max(_DECIMAL):
        whole, exponent = whole * 1000, exponent - 3
    return f"{whole}{_DECIMAL[exponent]}"


def _with_exponent(value: decimal.Decimal) -> str:
    whole, exponent = _shortest(value)
    return f"{whole}e{exponent}" if exponent else str(whole)


def _shortest(value: decimal.Decimal) -> tuple[int, int]:
    """(whole number, exponent) with the largest exponent that is a multiple of 3; finer than 1e-3 is rounded up."""
    whole = int((value / _SMALLEST).to_integral_value(decimal.ROUND_CEILING))
    if whole == 0:
        return 0, 0
    exponent = -3
    while whole % 1000 == 0:
        whole, exponent = whole // 1000, exponent + 3
    return whole, exponent
