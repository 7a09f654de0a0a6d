"""The syntax of label selectors, as far as it can be wrong. Whoever selects asks the API server."""

import re

from .fields import LABEL_KEY

_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"\s*(!\s*{LABEL_KEY}|{LABEL_KEY}(\s*(=|==|!=)\s*{_VALUE}"
    rf"|\s+(in|notin)\s+\(\s*{_VALUE}(\s*,\s*{_VALUE})*\s*\))?)\s*"
)
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^(]*\))")


def wrong_part(selector: str) -> str | None:
    """The first part of `selector` that no API server would accept, or None; an empty selector is fine."""
    if not selector.strip():
        return None
    parts = _COMMA_OUTSIDE_BRACKETS.split(selector)
    return next((part.strip() or selector for part in parts if not _REQUIREMENT.fullmatch(part)), None)
