"""Custom resources: pruning, defaults and validation by the structural schema of their definition.

Not done here: CEL rules (`x-kubernetes-validations`), `oneOf` and friends, and formats other than date-time. The
cluster tests try those on a real API server. Messages are those of kube-apiserver 1.34 (kube-openapi's validator).
"""

import math
from collections.abc import Iterator
from typing import Any, Final

from npu_operator.sim.server import fields, refusals
from npu_operator.sim.server.fields import ABSENT
from npu_operator.sim.server.refusals import Cause
from npu_operator.sim.server.shapes import MAP, SET, Shape
from npu_operator.sim.server.typed import TIME

INTEGER_LIMITS: Final = {"int32": 2**31 - 1, "int64": 2**63 - 1}


def prune(value: Any, shape: Shape, old: Any = ABSENT, *, nulls: bool = True) -> Any:
    """`value` without fields the schema does not know and without nulls it does not allow; defaults filled in.

    Unchanged parts (`value is old`) are returned as they are. `nulls=False` leaves nulls where there is no default: the
    server does not look for them in what an apply has merged.
    """
    if value is old or shape.type == "any":
        return value
    if isinstance(value, dict) and shape.type == "object":
        before = old if isinstance(old, dict) else {}
        out = {}
        for key, inner in value.items():
            below = shape.field(key)
            if below is None:
                continue
            if inner is None and not below.nullable and below.type != "any" and (nulls or below.has_default):
                continue
            out[key] = prune(inner, below, before.get(key, ABSENT), nulls=nulls)
        for key, below in shape.fields.items():
            if below.has_default and key not in out:
                out[key] = prune(below.default, below, nulls=nulls)
        same = len(out) == len(value) and all(out.get(key, ABSENT) is inner for key, inner in value.items())
        return value if same else out
    if isinstance(value, list) and shape.type == "array" and shape.items is not None:
        before_ids = {id(item) for item in old} if isinstance(old, list) else set()
        items = [item if id(item) in before_ids else prune(item, shape.items, nulls=nulls) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value


def complaints(value: Any, shape: Shape, old: Any, path: str) -> Iterator[Cause]:
    """What is wrong with `value`; parts that are still the same are not looked at again (as the server does)."""
    if value is old or shape.type == "any":
        return
    if value is None:
        if not shape.nullable:
            yield refusals.wrong_type(path, "null", shape.type)
        return
    found, wanted = _type_name(value), shape.type.replace("int-or-string", "integer,string")
    if not _fits(value, shape.type):
        yield refusals.wrong_type(path, found, wanted)
        yield from _outside_enum(value, shape, path)
    elif isinstance(value, dict):
        yield from _in_map(value, shape, old if isinstance(old, dict) else {}, path)
    elif isinstance(value, list):
        yield from _in_list(value, shape, old if isinstance(old, list) else [], path)
    else:
        yield from _in_scalar(value, shape, path)


def _type_name(value: Any) -> str:
    names = {bool: "boolean", str: "string", dict: "object", list: "array", int: "integer"}
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return names.get(type(value), "number")


def _fits(value: Any, type_: str) -> bool:
    name = _type_name(value)
    if type_ == "int-or-string":
        return name in ("integer", "string")
    return name == type_ or (type_ == "number" and name == "integer")


def _in_map(value: dict[str, Any], shape: Shape, old: dict[str, Any], path: str) -> Iterator[Cause]:
    limit = shape.schema.get("maxProperties")
    if limit is not None and len(value) > limit:
        yield refusals.too_many(path, len(value), limit)
    least = shape.schema.get("minProperties")
    if least is not None and len(value) < least:
        yield refusals.wrong(path, len(value), f"{path} in body should have at least {least} properties")
    for key in shape.required:
        if key not in value:
            yield refusals.required(_below(path, key))
    for key, inner in value.items():
        below = shape.field(key)
        if below is not None:
            yield from complaints(inner, below, old.get(key, ABSENT), _below(path, key))


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _in_list(value: list[Any], shape: Shape, old: list[Any], path: str) -> Iterator[Cause]:
    limit, least = shape.schema.get("maxItems"), shape.schema.get("minItems")
    if limit is not None and len(value) > limit:
        yield refusals.too_many(path, len(value), limit)
    if least is not None and len(value) < least:
        yield refusals.wrong(path, len(value), f"{path} in body should have at least {least} items")
    assert shape.items is not None, "a list has items"
    before = {id(item) for item in old}
    for index, item in enumerate(value):
        if id(item) not in before:
            yield from complaints(item, shape.items, ABSENT, f"{path}[{index}]")
    yield from _repeated(value, shape, path)


def _repeated(value: list[Any], shape: Shape, path: str) -> Iterator[Cause]:
    if shape.relation not in (MAP, SET):
        return
    seen = set()
    for index, item in enumerate(value):
        try:
            key = fields.element(shape, item)
        except KeyError:
            continue  # a required key is missing; that is reported
        if key in seen:
            shown = item if shape.relation == SET else {name: item.get(name) for name in shape.keys}
            yield refusals.duplicate(f"{path}[{index}]", shown)
        seen.add(key)


def _in_scalar(value: Any, shape: Shape, path: str) -> Iterator[Cause]:
    if isinstance(value, str):
        yield from _in_text(value, shape, path)
    elif not isinstance(value, bool):
        yield from _in_number(value, shape, path)
    yield from _outside_enum(value, shape, path)


def _outside_enum(value: Any, shape: Shape, path: str) -> Iterator[Cause]:
    enum = shape.schema.get("enum")
    if enum is not None and value not in enum:
        yield refusals.unsupported(path, value, enum)


def _in_text(value: str, shape: Shape, path: str) -> Iterator[Cause]:
    limit, least = shape.schema.get("maxLength"), shape.schema.get("minLength")
    if limit is not None and len(value) > limit:
        yield refusals.too_long(path, limit)
    if least is not None and len(value) < least:
        yield refusals.wrong(path, value, f"{path} in body should be at least {least} chars long")
    if shape.pattern is not None and not shape.pattern.search(value):
        yield refusals.wrong(path, value, f"{path} in body should match '{shape.schema['pattern']}'")
    if shape.schema.get("format") == "date-time" and not TIME.fullmatch(value):
        yield refusals.wrong_type(path, value, "date-time")


def _in_number(value: float, shape: Shape, path: str) -> Iterator[Cause]:
    limit = INTEGER_LIMITS.get(shape.schema.get("format", ""))
    if limit is not None and not -limit - 1 <= value <= limit:
        yield refusals.wrong(path, value, f"{path} in body must be of type {shape.schema['format']}")
    most, least = shape.schema.get("maximum"), shape.schema.get("minimum")
    if most is not None and value > most:
        yield refusals.wrong(path, value, f"{path} in body should be less than or equal to {most}")
    if least is not None and value < least:
        yield refusals.wrong(path, value, f"{path} in body should be greater than or equal to {least}")
    step = shape.schema.get("multipleOf")
    if step is not None and not math.isclose(value / step, round(value / step)):
        yield refusals.wrong(path, value, f"{path} in body should be a multiple of {step}")
