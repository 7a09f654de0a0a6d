"""A built-in object as the server keeps it after reading it into its Go type.

Unknown fields are dropped, nulls and empty values vanish, quantities get their one spelling, declared defaults appear,
and a value of another type is refused. So a patch that says `unschedulable: false` about a node that can be scheduled
changes nothing, as on a real server. Unchanged parts stay the same Python objects.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from npu_operator.components import quantity
from npu_operator.sim.server import fields, refusals
from npu_operator.sim.server.fields import ABSENT
from npu_operator.sim.server.refusals import Cause
from npu_operator.sim.server.shapes import MAP, SET, Shape

KEPT_WHEN_EMPTY: Final = frozenset(
    {"holderIdentity", "preferredHolder", "strategy", "type", "runtimeClassName", "procMount", "appProtocol"}
)
"""Optional text that Go keeps behind a pointer, so that empty and absent differ."""

GONE_WHEN_ZERO: Final = frozenset(
    {
        "unschedulable", "hostNetwork", "hostPID", "hostIPC", "readOnly", "stdin", "stdinOnce", "tty",
        "publishNotReadyAddresses", "observedGeneration", "numberAvailable", "numberUnavailable",
        "updatedNumberScheduled", "hostPort", "minReadySeconds", "nodePort", "readyReplicas", "availableReplicas",
        "updatedReplicas", "unavailableReplicas", "initialDelaySeconds", "timeoutSeconds", "periodSeconds",
        "successThreshold", "failureThreshold",
    }
)  # fmt: skip
"""Numbers and booleans that Go leaves out when zero; all others are pointers or always written."""

TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
TIMES: Final = {
    "date-time": (TIME, "2006-01-02T15:04:05Z07:00"),
    "micro-time": (
        re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)"),
        "2006-01-02T15:04:05.000000Z07:00",
    ),
}
"""Per format of a time: what fits, and how Go's layout names it."""


class Unreadable(ValueError):
    """The object cannot be read into its type; the text is what the server's decoder says."""


def read(value: Any, shape: Shape, old: Any = ABSENT, path: str = "") -> Any:
    """`value` as kept. `old` is the value before, whose unchanged parts are reused. Raises Unreadable."""
    if value is old or shape.type == "any":
        return value
    if shape.type == "object":
        if not isinstance(value, dict):
            raise _unreadable(value, path, "struct" if shape.fields else "map[string]string")
        return _read_map(value, shape, old if isinstance(old, dict) else {}, path)
    if shape.type == "array":
        if not isinstance(value, list):
            raise _unreadable(value, path, "list")
        return _read_list(value, shape, old if isinstance(old, list) else [], path)
    return _read_scalar(value, shape, path)


def _read_map(value: dict[str, Any], shape: Shape, old: dict[str, Any], path: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, inner in value.items():
        below = shape.field(key)
        if below is None or inner is None:
            continue
        kept = read(inner, below, old.get(key, ABSENT), f"{path}.{key}" if path else key)
        if shape.fields and key not in shape.required and _vanishes(key, kept, below):
            continue
        out[key] = kept
    for key, below in shape.fields.items():
        if below.has_default and key not in out:
            out[key] = read(below.default, below)
    same = len(out) == len(value) and all(out.get(key, ABSENT) is inner for key, inner in value.items())
    return value if same else out


def _vanishes(key: str, value: Any, shape: Shape) -> bool:
    if value == "":
        return key not in KEPT_WHEN_EMPTY
    if isinstance(value, list | dict):
        return not value and (shape.type == "array" or shape.extra is not None)
    return not value and key in GONE_WHEN_ZERO


def _read_list(value: list[Any], shape: Shape, old: list[Any], path: str) -> list[Any]:
    assert shape.items is not None, "a list has items"
    before = {id(item) for item in old}
    out = [
        item if id(item) in before else read(item, shape.items, ABSENT, f"{path}[{index}]")
        for index, item in enumerate(value)
    ]
    return value if all(a is b for a, b in zip(out, value, strict=True)) else out


def _read_scalar(value: Any, shape: Shape, path: str) -> Any:
    match shape.type:
        case "string":
            if not isinstance(value, str):
                raise _unreadable(value, path, "string")
            _check_time(value, shape)
        case "boolean" if not isinstance(value, bool):
            raise _unreadable(value, path, "bool")
        case "integer" if not isinstance(value, int) or isinstance(value, bool):
            raise _unreadable(value, path, str(shape.schema.get("format", "int64")))
        case "number" if not isinstance(value, int | float) or isinstance(value, bool):
            raise _unreadable(value, path, "float64")
        case "int-or-string" if not isinstance(value, int | str) or isinstance(value, bool):
            raise _unreadable(value, path, "int32")
        case "quantity":
            return _quantity(value, path)
    return value


def _check_time(value: str, shape: Shape) -> None:
    pattern, layout = TIMES.get(shape.schema.get("format", ""), (None, ""))
    if pattern is not None and value and not pattern.fullmatch(value):
        raise Unreadable(f'parsing time "{value}" as "{layout}": cannot parse it')


def _quantity(value: Any, path: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _unreadable(value, path, "string")
    try:
        return quantity.canonical(str(value))
    except ValueError as error:
        pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise Unreadable(f"quantities must match the regular expression '{pattern}'") from error


def _unreadable(value: Any, path: str, wanted: str) -> Unreadable:
    return Unreadable(f"json: cannot unmarshal {_json_kind(value)} into Go struct field {path} of type {wanted}")


def _json_kind(value: Any) -> str:
    kinds = {bool: "bool", str: "string", dict: "object", list: "array"}
    return kinds.get(type(value), "number")


def complaints(value: Any, shape: Shape, old: Any, path: str, but_not: frozenset[str] = frozenset()) -> Iterator[Cause]:
    """What every type has in common: enumerations, and required text and lists that are empty.

    Parts that are still the same are not looked at again, paths in `but_not` not at all.
    """
    if value is old or path in but_not:
        return
    if isinstance(value, dict) and shape.fields:
        before = old if isinstance(old, dict) else {}
        for key, below in shape.fields.items():
            where = f"{path}.{key}" if path else key
            if key not in value:
                if key in shape.required and below.type in ("array", "string"):
                    yield refusals.required(where)
                continue
            if key in shape.required and value[key] in ("", []):
                yield refusals.required(where)
                continue
            yield from complaints(value[key], below, before.get(key, ABSENT), where, but_not)
    elif isinstance(value, dict) and shape.extra is not None:
        for key, inner in value.items():
            yield from complaints(inner, shape.extra, ABSENT, f"{path}[{key}]", but_not)
    elif isinstance(value, list) and shape.items is not None:
        for index, item in enumerate(value):
            yield from complaints(item, shape.items, ABSENT, f"{path}[{index}]", but_not)
    elif (enum := shape.schema.get("enum")) and value not in enum and value != "":
        yield refusals.unsupported(path, value, enum)


class Undeclared(ValueError):
    """An applied configuration does not fit its schema; the text is what the server says in its 500."""


def applied(value: Any, shape: Shape, path: str = "") -> Any:
    """An applied configuration, if it fits its schema. Raises Undeclared."""
    if value is None or shape.type == "any":
        return value
    if shape.type == "object":
        if not isinstance(value, dict):
            raise Undeclared(f"{path}: expected map, got {_go(value)}")
        out = {}
        for key, inner in value.items():
            below = shape.field(key)
            if below is None:
                raise Undeclared(f"{path}.{key}: field not declared in schema")
            out[key] = applied(inner, below, f"{path}.{key}")
        return out
    if shape.type == "array":
        return _applied_list(value, shape, path)
    wanted = _APPLIED_TYPES.get(shape.type)
    if wanted is not None and (
        not isinstance(value, wanted[0]) or (isinstance(value, bool) and wanted[1] != "boolean")
    ):
        raise Undeclared(f"{path}: expected {wanted[1]}, got {_go(value)}")
    return value


_APPLIED_TYPES: Final[dict[str, tuple[Any, str]]] = {
    "string": (str, "string"),
    "boolean": (bool, "boolean"),
    "integer": ((int, float), "numeric (int or float)"),
    "number": ((int, float), "numeric (int or float)"),
}


def _applied_list(value: Any, shape: Shape, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise Undeclared(f"{path}: expected list, got {_go(value)}")
    assert shape.items is not None, "a list has items"
    if shape.relation in (MAP, SET):
        seen = set()
        for index, item in enumerate(value):
            try:
                key = fields.element(shape, item)
            except KeyError as error:
                listed = " ".join(f'"{key}"' for key in error.args)
                raise Undeclared(
                    f"{path}: element {index}: associative list with keys has an element that omits all key fields "
                    f"[{listed}] (and doesn't have default values for any key fields)"
                ) from None
            if key in seen:
                raise Undeclared(f"{path}: duplicate entries for key {fields.readable(key)}")
            seen.add(key)
    return [applied(item, shape.items, f"{path}[{index}]") for index, item in enumerate(value)]


def _go(value: Any) -> str:
    """How Go prints a value of the wrong type."""
    if isinstance(value, dict):
        return "&{map[" + " ".join(f"{key}:{inner}" for key, inner in sorted(value.items())) + "]}"
    kinds = {list: "list", str: "string", bool: "boolean"}
    return kinds.get(type(value), f"&value.valueUnstructured{{Value:{value}}}")
