"""Reading an object that people wrote: whatever can be read is read, whatever cannot is named.

A wrong value costs only its own field, which then has its default; an unknown field is told with the nearest known
one. `msgspec.convert` would stop at the first mistake.
"""

import difflib
import functools
import json
import re
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

import msgspec
from msgspec import Meta

from .fields import FieldInfo, IntOrText, Pattern, bare, fields_of, notes_of, without_none
from .reasons import Reason

S = TypeVar("S", bound=msgspec.Struct)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with what was written: where, what, and what to do about it."""

    path: str
    """For example `spec.driver.version`."""
    message: str
    hint: str = ""
    reason: Reason = Reason.InvalidSpec
    is_error: bool = True
    """False: it can be used, but hardly means what it says."""

    def __str__(self) -> str:
        """One sentence without a full stop."""
        return f"{self.path} {self.message}" + (f"; {self.hint}" if self.hint else "")


class _Unusable(Exception):
    """A value could not be read and `problem` says why. Caught by whoever has a default or can do without."""

    def __init__(self, path: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.problem = Problem(path=path, message=message, hint=hint)


def read(kind: type[S], value: object, path: str) -> tuple[S, tuple[Problem, ...]]:
    """An object of `kind`, all of whose fields have defaults, and everything that is wrong with `value`."""
    reader = _Reader(kind)
    try:
        found = reader.struct(kind, value, path)
    except _Unusable as unusable:
        reader.problems.append(unusable.problem)
        found = kind()
    return found, tuple(reader.problems)


class _Reader:
    """One walk over one object. `problems` fills on the way, in the order of the struct's fields."""

    def __init__(self, root: type[msgspec.Struct]) -> None:
        self.problems: list[Problem] = []
        self._root = root

    def struct(self, kind: type[S], value: object, path: str) -> S:
        if not isinstance(value, Mapping):
            raise _Unusable(path, _is_not(value, "an object"))
        fields = fields_of(kind)
        known = {name for field in fields for name in (field.name, *field.aliases)}
        self.problems += [_unknown(name, known, path, self._root) for name in value if name not in known]
        return kind(**{field.attribute: self._field(field, value, path) for field in fields})

    def _field(self, field: FieldInfo, value: Mapping[str, Any], path: str) -> Any:
        given = [name for name in (field.name, *field.aliases) if value.get(name) is not None]
        if len(given) > 1:
            twice = Problem(
                path=f"{path}.{field.name}",
                message=f"is given twice, as {' and '.join(given)}",
                hint=f"keep one of them; until then {given[0]} counts",
            )
            self.problems.append(twice)
        try:
            if given:
                return self._value(field.type, value[given[0]], f"{path}.{given[0]}")
            if field.default is msgspec.NODEFAULT:
                raise _Unusable(f"{path}.{field.name}", "is missing", f"it must be {wants(field.type)}")
        except _Unusable as unusable:
            if field.default is msgspec.NODEFAULT:
                raise
            self.problems.append(unusable.problem)
        return field.default

    def _value(self, hint: Any, value: Any, path: str) -> Any:
        hint, _ = without_none(hint)
        kind = bare(hint)
        if kind is Any:
            return value
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.struct(kind, value, path)
        if typing.get_origin(kind) is tuple:
            return self._list(hint, value, path)
        if typing.get_origin(kind) is dict:
            return self._map(hint, value, path)
        return _leaf(hint, value, path)

    def _list(self, hint: Any, value: object, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _Unusable(path, _is_not(value, "a list"))
        _check_size(hint, value, path)
        (item, _) = typing.get_args(bare(hint))
        kept: list[Any] = []
        for number, entry in enumerate(value):
            try:
                kept.append(self._value(item, entry, f"{path}[{number}]"))
            except _Unusable as unusable:
                self.problems.append(unusable.problem)
        return tuple(kept)

    def _map(self, hint: Any, value: object, path: str) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise _Unusable(path, _is_not(value, "an object"))
        _check_size(hint, value, path)
        (key_hint, item) = typing.get_args(bare(hint))
        kept: dict[Any, Any] = {}
        for key, entry in value.items():
            try:
                kept[_key(key_hint, key, path)] = self._value(item, entry, _below(path, key))
            except _Unusable as unusable:
                self.problems.append(unusable.problem)
        return kept


def wants(hint: Any) -> str:
    """What a value of this type must be, in words."""
    hint, _ = without_none(hint)
    kind = bare(hint)
    low, high = _limits(hint)
    for note in notes_of(hint):
        if isinstance(note, Pattern | IntOrText):
            return note.message.removeprefix("must be ")
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(str(member) or '""' for member in kind)
    if kind is bool:
        return "true or false"
    if kind is int:
        span = f" from {low} to {high}" if high is not None else "" if low is None else f" from {low}"
        return f"a whole number{span}"
    if kind is str:
        return "text" if high is None else f"text of at most {high} characters"
    if typing.get_origin(kind) is tuple:
        return "a list"
    if typing.get_origin(kind) is dict or isinstance(kind, type):
        return "an object"
    return "a whole number or text"


def _leaf(hint: Any, value: Any, path: str) -> Any:
    kind = bare(hint)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind, value, path)
    wanted = typing.get_args(kind) or (kind,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise _Unusable(path, _is_not(value, wants(hint)))
    for note in notes_of(hint):
        if isinstance(note, Pattern | IntOrText) and not note.accepts(value):
            raise _Unusable(path, f"is {_shown(value)}, but {note.message}")
    low, high = _limits(hint)
    size = value if isinstance(value, int) and kind is int else len(value) if isinstance(value, str) else 0
    if not isinstance(value, bool) and ((low is not None and size < low) or (high is not None and size > high)):
        raise _Unusable(path, _is_not(value, wants(hint) if size or value else f"{wants(hint)}, not empty"))
    return value


def _key(hint: Any, key: Any, path: str) -> Any:
    try:
        return _leaf(hint, key, path)
    except _Unusable as unusable:
        message = unusable.problem.message.replace("is ", "has the key ", 1)
        raise _Unusable(path, message, unusable.problem.hint) from unusable


def _member(kind: type[Enum], value: Any, path: str) -> Enum:
    words = [str(member.value) for member in kind]
    if value in words:
        return kind(value)
    near = _nearest(str(value), words)
    raise _Unusable(path, _is_not(value, wants(kind)), f"did you mean {near}?" if near else "")


def _limits(hint: Any) -> tuple[int | None, int | None]:
    """The lowest and the highest number (or length) that the annotations allow."""
    metas = [note for note in notes_of(hint) if isinstance(note, Meta)]
    lows = [low for meta in metas for low in (meta.ge, meta.min_length) if low is not None]
    highs = [high for meta in metas for high in (meta.le, meta.max_length) if high is not None]
    return (int(max(lows)) if lows else None), (int(min(highs)) if highs else None)


def _check_size(hint: Any, value: Any, path: str) -> None:
    _, high = _limits(hint)
    if high is not None and len(value) > high:
        raise _Unusable(path, f"has {len(value)} entries, but at most {high} are allowed")


def _is_not(value: object, wanted: str) -> str:
    return f"is {_shown(value)}, but must be {wanted}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if re.fullmatch(r"[A-Za-z0-9_-]+", str(key)) else f'{path}["{key}"]'


def _unknown(name: str, known: set[str], path: str, root: type[msgspec.Struct]) -> Problem:
    places = _places(root)
    if near := _nearest(name, known):
        hint = f"did you mean {near}?"
    elif (elsewhere := _nearest(name, places)) and len(places[elsewhere]) == 1:
        hint = f"did you mean {path.partition('.')[0]}.{places[elsewhere][0]}?"
    else:
        hint = f"known here: {', '.join(sorted(known))}"
    return Problem(path=_below(path, name), message="is not a known field", hint=hint, reason=Reason.UnknownField)


def _nearest(word: str, known: typing.Iterable[str]) -> str | None:
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[close[0]] if close else None


@functools.cache
def _places(root: type[msgspec.Struct]) -> dict[str, tuple[str, ...]]:
    """Where in `root` a field of a given name is, as paths without the root."""
    places: dict[str, tuple[str, ...]] = {}
    for name, path in _walk(root, ""):
        places[name] = (*places.get(name, ()), path)
    return places


def _walk(kind: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, str]]:
    for field in fields_of(kind):
        yield field.name, f"{prefix}{field.name}"
        inner = bare(field.type)
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            yield from _walk(inner, f"{prefix}{field.name}.")
