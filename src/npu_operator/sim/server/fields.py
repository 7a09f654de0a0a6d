"""Field sets: which fields of an object somebody owns, as server-side apply counts them.

A set is a tree of dictionaries. Keys are path elements in the form of FieldsV1 (`f:name`, `k:{"name":"c"}`, `v:"x"`);
the key `.` says that the path itself is in the set. Sets are values: nobody changes one, and an operation that
changes nothing returns its first operand, so that unchanged owners are recognised by identity.

Source of the rules: KEP-555 and the behaviour of kube-apiserver 1.34, compared by the contract tests.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from npu_operator.sim.server.shapes import ANY, GRANULAR, MAP, SET, Shape

Fields: TypeAlias = dict[str, Any]

SELF: Final = "."
LEAF: Final[Fields] = {SELF: None}
ABSENT: Final = object()
"""In place of a value that is not there; None is JSON's null."""


class Change(NamedTuple):
    """How one object differs from another; a field is in one of the three at most."""

    removed: Fields
    modified: Fields
    added: Fields


SAME: Final = Change({}, {}, {})


def union(a: Fields, b: Fields) -> Fields:
    """Fields in either."""
    if not b or a is b:
        return a
    if not a:
        return b
    out = a
    for key, theirs in b.items():
        ours = a.get(key, ABSENT)
        if ours is ABSENT:
            new = theirs
        elif key == SELF or (new := union(ours, theirs)) is ours:
            continue
        if out is a:
            out = dict(a)
        out[key] = new
    return out


def difference(a: Fields, b: Fields) -> Fields:
    """Fields in `a` that are not in `b`."""
    if not a or not b:
        return a
    out = a
    for key, theirs in b.items():
        ours = a.get(key, ABSENT)
        if ours is ABSENT:
            continue
        new = {} if key == SELF else difference(ours, theirs)
        if new is ours:
            continue
        if out is a:
            out = dict(a)
        if new:
            out[key] = new
        else:
            del out[key]
    return out


def intersection(a: Fields, b: Fields) -> Fields:
    """Fields in both."""
    out: Fields = {}
    for key, ours in a.items():
        theirs = b.get(key, ABSENT)
        if theirs is ABSENT:
            continue
        if key == SELF:
            out[key] = None
        elif new := intersection(ours, theirs):
            out[key] = new
    return out


def without(a: Fields, *prefix: str) -> Fields:
    """All of `a` but what is at or below the path."""
    below = a.get(prefix[0])
    if below is None:
        return a
    new = without(below, *prefix[1:]) if len(prefix) > 1 else {}
    if new is below:
        return a
    out = dict(a)
    if new:
        out[prefix[0]] = new
    else:
        del out[prefix[0]]
    return out


def without_all(a: Fields, names: Iterable[str]) -> Fields:
    """All of `a` but the top-level fields `names` and what is below them."""
    for name in names:
        a = without(a, f"f:{name}")
    return a


def paths(fields: Fields, prefix: str = "") -> Iterator[str]:
    """Every field as people read it: `.spec.containers[name="c"].image`."""
    if SELF in fields:
        yield prefix
    for key in sorted(fields):
        if key != SELF:
            yield from paths(fields[key], prefix + readable(key))


def readable(element: str) -> str:
    """A path element as people read it."""
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "v:":
        return f"[={text}]"
    keys: dict[str, Any] = msgspec.json.decode(text)
    return "[" + ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in keys.items()) + "]"


def to_wire(fields: Fields) -> dict[str, Any]:
    """FieldsV1 as it is sent: a field without children is an empty object."""
    out: dict[str, Any] = {}
    for key in sorted(fields):
        below = fields[key]
        out[key] = {} if key == SELF or (SELF in below and len(below) == 1) else to_wire(below)
    return out


def element(shape: Shape, item: Any) -> str:
    """The path element of a list item. Raises KeyError when all its key fields are missing and none has a default."""
    if shape.relation == SET:
        return f"v:{msgspec.json.encode(item).decode()}"
    assert shape.items is not None, "a list has items"
    keys = {}
    for key in sorted(shape.keys):
        if isinstance(item, dict) and key in item:
            keys[key] = item[key]
        elif (known := shape.items.fields.get(key)) is not None and known.has_default:
            keys[key] = known.default
    if not keys:
        raise KeyError(*shape.keys)
    return f"k:{msgspec.json.encode(keys).decode()}"


def elements(shape: Shape, items: Iterable[Any]) -> dict[str, list[Any]]:
    """The items of an associative list by path element; more than one where they repeat."""
    found: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        try:
            key = element(shape, item)
        except KeyError:  # invalid, and refused later
            key = f"i:{index}"
        found.setdefault(key, []).append(item)
    return found


def is_granular_map(shape: Shape, value: Any) -> bool:
    """Whether the fields of `value` have owners of their own."""
    return isinstance(value, dict) and shape.relation == GRANULAR and shape.type in ("object", "any")


def is_associative(shape: Shape, value: Any) -> bool:
    """Whether the items of `value` have owners of their own."""
    return isinstance(value, list) and shape.relation in (MAP, SET)


def of(value: Any, shape: Shape) -> Fields:
    """The fields that an applied value claims."""
    if is_granular_map(shape, value):
        out: Fields = {}
        for key, inner in value.items():
            below = of(inner, shape.field(key) or ANY)
            if inner is None or inner == {} or key not in shape.fields:
                below = _with_self(below)
            if below:
                out[f"f:{key}"] = below
        return out
    if is_associative(shape, value):
        assert shape.items is not None, "a list has items"
        return {
            key: _with_self(of(same[0], shape.items)) if len(same) == 1 else LEAF
            for key, same in elements(shape, value).items()
        }
    return LEAF


def _with_self(fields: Fields) -> Fields:
    return fields if SELF in fields else {SELF: None, **fields}


def compare(old: Any, new: Any, shape: Shape) -> Change:
    """What became of each field. Cheap where the two share parts: identical parts are not entered."""
    if old is new:
        return SAME
    pairs = _pairs(old, new, shape)
    if pairs is None:
        return _compare_leaf(old, new)
    removed, modified, added = Fields(), Fields(), Fields()
    for key, before, after, below in pairs:
        change = _compare_repeated(before, after) if below is None else compare(before, after, below)
        if change.removed:
            removed[key] = change.removed
        if change.modified:
            modified[key] = change.modified
        if change.added:
            added[key] = change.added
    if old is ABSENT:
        added[SELF] = None
    elif new is ABSENT:
        removed[SELF] = None
    return Change(removed, modified, added)


def _compare_leaf(old: Any, new: Any) -> Change:
    if old is ABSENT:
        return Change({}, {}, LEAF)
    if new is ABSENT:
        return Change(LEAF, {}, {})
    return SAME if old == new else Change({}, LEAF, {})


def _compare_repeated(old: Any, new: Any) -> Change:
    """Items that share a path element count as one leaf."""
    return _compare_leaf(old, new)


def _pairs(old: Any, new: Any, shape: Shape) -> list[tuple[str, Any, Any, Shape | None]] | None:
    """The parts to compare one by one; None when the value is a leaf."""
    known = old if new is ABSENT or new is None else new
    other = new if known is old else old
    empty = other is ABSENT or other is None
    if is_granular_map(shape, known) and (empty or isinstance(other, dict)):
        before, after = _or_empty(old), _or_empty(new)
        if not before and not after:
            return None
        return [
            (f"f:{key}", before.get(key, ABSENT), after.get(key, ABSENT), shape.field(key) or ANY)
            for key in (*after, *(key for key in before if key not in after))
            if before.get(key, ABSENT) is not after.get(key, ABSENT)
        ]
    if is_associative(shape, known) and (empty or isinstance(other, list)):
        left, right = elements(shape, _or_empty(old) or ()), elements(shape, _or_empty(new) or ())
        if not left and not right:
            return None
        return [_item_pair(key, left.get(key, ()), right.get(key, ()), shape.items) for key in {**left, **right}]
    return None


def _item_pair(
    key: str, old: Iterable[Any], new: Iterable[Any], shape: Shape | None
) -> tuple[str, Any, Any, Shape | None]:
    before, after = list(old), list(new)
    if len(before) > 1 or len(after) > 1:
        return key, before or ABSENT, after or ABSENT, None
    return key, before[0] if before else ABSENT, after[0] if after else ABSENT, shape


def _or_empty(value: Any) -> Any:
    return {} if value is ABSENT or value is None else value
