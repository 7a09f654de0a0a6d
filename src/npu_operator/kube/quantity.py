"""Kubernetes quantities: `500m`, `0.5`, `1Gi`, `1e3`. The server rewrites them, so they are compared by value."""

import re
from decimal import Decimal

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(n|u|m|k|Ki|Mi|Gi|Ti|Pi|Ei|[MGTPE]))?")
_FACTOR = {
    **{suffix: Decimal(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def quantity(text: str | float) -> Decimal:
    """The value; JSON numbers are quantities too. Raises ValueError."""
    found = _FORM.fullmatch(str(text).strip())
    if found is None:
        raise ValueError(f"{text!r} is no quantity; write for example 500m, 2 or 1Gi")
    number, exponent, suffix = found.groups()
    return Decimal(number + (exponent or "")) * _FACTOR.get(suffix or "", Decimal(1))


def is_same_quantity(one: object, other: object) -> bool:
    """Are both quantities, and of the same value?"""
    if not isinstance(one, str | int | float) or not isinstance(other, str | int | float):
        return False
    try:
        return quantity(one) == quantity(other)
    except ValueError:
        return False
