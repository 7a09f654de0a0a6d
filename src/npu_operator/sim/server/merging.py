"""Merging: how an applied configuration and the live object become one, and what is taken out again.

Results share every unchanged part with the live object. Source of the rules: KEP-555; the order of merged lists is
that of structured-merge-diff (items of the configuration keep its order, the others their places).
"""

from typing import Any

from npu_operator.sim.server import fields
from npu_operator.sim.server.fields import ABSENT, SELF, Fields
from npu_operator.sim.server.shapes import ANY, MAP, Shape


def merge_patch(live: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7396); null removes."""
    if not isinstance(patch, dict):
        return patch
    base = live if isinstance(live, dict) else {}
    out = base
    for key, value in patch.items():
        if value is None:
            if key not in out:
                continue
            out = dict(out) if out is base else out
            del out[key]
            continue
        old = base.get(key, ABSENT)
        new = merge_patch(None if old is ABSENT else old, value)
        if new is old or (old is not ABSENT and type(old) is type(new) and old == new):
            continue
        out = dict(out) if out is base else out
        out[key] = new
    return {} if out is base and not isinstance(live, dict) else out


def merge(live: Any, config: Any, shape: Shape) -> Any:
    """The live value with everything that `config` says."""
    if config is ABSENT:
        return live
    if live is ABSENT or live is None:
        return config
    if fields.is_granular_map(shape, config) and isinstance(live, dict):
        return _merge_map(live, config, shape) if live or config else config
    if fields.is_associative(shape, config) and isinstance(live, list):
        return _merge_list(live, config, shape) if live or config else config
    return live if live == config else config


def _merge_map(live: dict[str, Any], config: dict[str, Any], shape: Shape) -> dict[str, Any]:
    out = live
    for key, value in config.items():
        old = live.get(key, ABSENT)
        new = merge(old, value, shape.field(key) or ANY)
        if new is not old:
            out = dict(live) if out is live else out
            out[key] = new
    return out


def _merge_list(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    assert shape.items is not None, "a list has items"
    ours = [fields.element(shape, item) for item in live]
    theirs = {fields.element(shape, item): item for item in config}
    repeated = {key for key in ours if ours.count(key) > 1}
    items = {key: item for key, item in zip(ours, live, strict=True) if key not in repeated}
    merged: list[Any] = []
    waiting = list(theirs)  # what of the configuration has no place yet, in its order
    shared = [key for key in theirs if key in ours]
    for key, item in zip(ours, live, strict=True):
        if key not in theirs:
            merged.append(item)
        elif shared and shared[0] == key:
            shared.pop(0)
            while waiting:  # everything the configuration puts before this item comes before it
                next_ = waiting.pop(0)
                merged.append(merge(items.get(next_, ABSENT), theirs[next_], shape.items))
                if next_ == key:
                    break
    merged += [merge(items.get(key, ABSENT), theirs[key], shape.items) for key in waiting]
    same = len(merged) == len(live) and all(a is b for a, b in zip(merged, live, strict=True))
    return live if same else merged


def remove(value: Any, taken: Fields, shape: Shape) -> Any:
    """`value` without the fields in `taken`. What loses all its parts becomes null, as on a real server."""
    if not taken:
        return value
    if fields.is_granular_map(shape, value):
        out = {}
        for key, inner in value.items():
            below = taken.get(f"f:{key}", {})
            if SELF not in below:
                out[key] = remove(inner, below, shape.field(key) or ANY)
        return out or None
    if fields.is_associative(shape, value):
        assert shape.items is not None, "a list has items"
        kept = []
        for item in value:
            below = taken.get(fields.element(shape, item), {})
            if SELF not in below:
                kept.append(remove(item, below, shape.items))
        return kept or None
    return None if isinstance(value, dict | list) else value


def prune(merged: Any, last: Fields, now: Fields, owned: Fields, shape: Shape) -> Any:
    """Take out what its applier named before (`last`), names no more (`now`), and nobody else owns (`owned`)."""
    if not fields.difference(last, now):
        return merged
    last_named = _with_named(last, shape)
    pruned = remove(merged, last_named, shape)
    all_named = _with_named(fields.of(merged, shape), shape)
    keep = fields.union(_named_of(pruned, shape), _with_named(fields.union(owned, now), shape))
    pruned = remove(merged, fields.difference(all_named, keep), shape)
    gone = fields.difference(all_named, _named_of(pruned, shape))
    return remove(merged, fields.intersection(gone, last_named), shape) or {}


def _named_of(value: Any, shape: Shape) -> Fields:
    return _with_named(fields.of(value, shape), shape)


def _with_named(owned: Fields, shape: Shape) -> Fields:
    """`owned` and every declared field above one of them: who owns `a.b` owns the field `a` as well."""
    out: Fields = {}
    for key, below in owned.items():
        if key == SELF:
            out[key] = None
            continue
        name = key[2:] if key.startswith("f:") else None
        inner = (shape.field(name) or ANY) if name is not None else (shape.items or ANY)
        new = _with_named(below, inner if name is not None or shape.relation == MAP else ANY)
        out[key] = new if name is None or name not in shape.fields or SELF in new else {SELF: None, **new}
    return out
