"""Label and field selectors, as they stand in a request's query.

Source: apimachinery `pkg/labels` and `pkg/fields`, and the words of kube-apiserver 1.34.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from npu_operator.sim.server import names
from npu_operator.sim.server.objects import Stored, at
from npu_operator.sim.server.refusals import bad_request, shown

Matches = Callable[[Stored], bool]

_TOKEN = re.compile(r"\s*(?:(==|!=|[=,()!<>])|([^\s=,()!<>]+))")
_OPERATORS: Final = ("in", "notin", "=", "==", "!=", "gt", "lt")


class Requirement(NamedTuple):
    """One term: key, operator and values."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it."""
        found = labels.get(self.key)
        match self.operator:
            case "In":
                return found in self.values
            case "NotIn":
                return found not in self.values
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
        if found is None or not found.lstrip("-").isdecimal():
            return False
        return int(found) > int(self.values[0]) if self.operator == "Gt" else int(found) < int(self.values[0])


Requirements = tuple[Requirement, ...]


@lru_cache(maxsize=4096)
def parse(text: str) -> Requirements:
    """The terms of a label selector. Raises Refused (400) in the server's words."""
    tokens = [match[1] or match[2] for match in _TOKEN.finditer(text)] if text.strip() else []
    terms: list[Requirement] = []
    while tokens:
        term, tokens = _term(tokens)
        terms.append(term)
        if tokens and tokens[0] != ",":
            raise bad_request(f"found '{tokens[0]}', expected: ',' or 'end of string'")
        if tokens and (len(tokens) == 1 or tokens[1] in (",", ")")):
            raise bad_request(f"found '{tokens[1] if len(tokens) > 1 else ''}', expected: identifier after ','")
        tokens = tokens[1:]
    return tuple(terms)


def _term(tokens: list[str]) -> tuple[Requirement, list[str]]:
    if tokens[0] == "!":
        if len(tokens) < 2:
            raise bad_request("unable to parse requirement: found '', expected: identifier")
        return _checked(Requirement(tokens[1], "DoesNotExist")), tokens[2:]
    key, rest = tokens[0], tokens[1:]
    if not rest or rest[0] == ",":
        return _checked(Requirement(key, "Exists")), rest
    operator, rest = rest[0], rest[1:]
    if operator in ("in", "notin"):
        values, rest = _values(rest)
        return _checked(Requirement(key, "In" if operator == "in" else "NotIn", values)), rest
    if operator in ("=", "==", "!="):
        value = "" if not rest or rest[0] == "," else rest[0]
        rest = rest[1:] if value else rest
        return _checked(Requirement(key, "NotIn" if operator == "!=" else "In", (value,))), rest
    if operator in ("<", ">") and rest:
        return _checked(Requirement(key, "Gt" if operator == ">" else "Lt", (rest[0],))), rest[1:]
    raise bad_request(f"unable to parse requirement: found '{operator}', expected: {', '.join(_OPERATORS)}")


def _values(tokens: list[str]) -> tuple[tuple[str, ...], list[str]]:
    if not tokens or tokens[0] != "(":
        raise bad_request(f"unable to parse requirement: found '{tokens[0] if tokens else ''}' expected: '('")
    if ")" not in tokens:
        raise bad_request("unable to parse requirement: found '', expected: ',' or ')'")
    end = tokens.index(")")
    inside = [value for value in tokens[1:end] if value != ","]
    return tuple(sorted(inside)) or ("",), tokens[end + 1 :]


def _checked(term: Requirement) -> Requirement:
    for why in names.qualified(term.key):
        raise bad_request(f"unable to parse requirement: key: Invalid value: {shown(term.key)}: {why}")
    for index, value in enumerate(term.values):
        for why in names.label_value(value):
            where = f"values[{index}][{term.key}]"
            raise bad_request(f"unable to parse requirement: {where}: Invalid value: {shown(value)}: {why}")
    return term


def of_object(selector: Mapping[str, Any] | None) -> Requirements | None:
    """The terms of a LabelSelector object; None selects nothing, an empty one everything."""
    if selector is None:
        return None
    by_value = tuple(Requirement(key, "In", (value,)) for key, value in selector.get("matchLabels", {}).items())
    return by_value + tuple(
        Requirement(term["key"], term["operator"], tuple(term.get("values", ())))
        for term in selector.get("matchExpressions", ())
    )


def selects(terms: Sequence[Requirement] | None, labels: Mapping[str, str]) -> bool:
    """Whether all terms hold."""
    return terms is not None and all(term.holds(labels) for term in terms)


class Selection(NamedTuple):
    """What a list or watch is limited to."""

    namespace: str | None
    labels: Requirements
    fields: tuple[tuple[str, bool, str], ...]
    """Field, whether it must equal, value."""

    def __call__(self, stored: Stored) -> bool:
        """Whether the object is in it."""
        if self.namespace is not None and stored.namespace != self.namespace:
            return False
        if self.fields and not all((field_of(stored, name) == value) is equal for name, equal, value in self.fields):
            return False
        return not self.labels or all(term.holds(stored.labels) for term in self.labels)

    @property
    def is_everything(self) -> bool:
        """No limit at all."""
        return self.namespace is None and not self.labels and not self.fields

    def wanted(self, field: str) -> str | None:
        """The one value that `field` must have, if the selection says so."""
        return next((value for name, equal, value in self.fields if name == field and equal), None)


def selection(
    namespace: str | None, labels: str | None, fields: str | None, own: Sequence[str] | None = None
) -> Selection:
    """Read the query of a list or watch. Raises Refused (400).

    `own` are the kind's fields beside name and namespace; None for kinds that only know those two.
    """
    return Selection(
        namespace or None, parse(labels or ""), _parse_fields(fields or "", None if own is None else tuple(own))
    )


@lru_cache(maxsize=16384)
def _parse_fields(text: str, own: tuple[str, ...] | None) -> tuple[tuple[str, bool, str], ...]:
    terms = []
    for part in filter(None, text.split(",")):
        found = re.fullmatch(r"([^=!]+)(==|!=|=)(.*)", part)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        if found[1] not in ("metadata.name", "metadata.namespace", *(own or ())):
            raise bad_request(
                f'"{found[1]}" is not a known field selector: only "metadata.name", "metadata.namespace"'
                if own is None
                else f"field label not supported: {found[1]}"
            )
        terms.append((found[1], found[2] != "!=", found[3]))
    return tuple(terms)


def field_of(stored: Stored, name: str) -> str:
    """The value that a field selector compares; empty when it is not set."""
    value = at(stored.tree, *name.split("."))
    if value is None:
        return "false" if name == "spec.unschedulable" else ""
    return str(value).lower() if isinstance(value, bool) else str(value)
