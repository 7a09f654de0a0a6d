"""Shapes: what a schema says about a value, compiled once and walked often.

One form for both worlds: the built-in types (`builtin.json`, taken from what a kube-apiserver 1.34 publishes under
/openapi/v3; a contract test compares) and the schemas of CustomResourceDefinitions. The walkers that use it are
`fields` (field sets), `merging` (apply), `pruning` and `schema` (validation).
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

Schema = Mapping[str, Any]

GRANULAR: Final = "granular"
ATOMIC: Final = "atomic"
MAP: Final = "map"
SET: Final = "set"

SCALARS: Final = ("string", "integer", "number", "boolean", "int-or-string", "quantity")


class Shape:
    """What is known about one value. Made by `compile_schema`; read-only afterwards."""

    __slots__ = (
        "default", "extra", "fields", "has_default", "is_open", "items", "keys", "nullable", "pattern", "relation",
        "required", "schema", "type",
    )  # fmt: skip

    def __init__(self, type_: str, schema: Schema) -> None:
        self.type = type_
        """object, array, one of SCALARS, or any (nothing is known; its form follows the value)."""
        self.schema = schema
        """The raw schema, for limits and formats."""
        self.fields: dict[str, Shape] = {}
        """Declared properties."""
        self.extra: Shape | None = None
        """Shape of undeclared properties; None when there may be none."""
        self.is_open = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        """Undeclared properties are kept."""
        self.items: Shape | None = None
        self.keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        """Of a list of the map type: the fields that name an item."""
        self.relation = _relation(type_, schema)
        self.required: tuple[str, ...] = tuple(schema.get("required", ()))
        self.has_default = "default" in schema
        self.default: Any = schema.get("default")
        self.nullable = bool(schema.get("nullable"))
        self.pattern = re.compile(_python_pattern(schema["pattern"])) if "pattern" in schema else None

    def field(self, name: str) -> "Shape | None":
        """The shape of property `name`, declared or not; None when it has no place here."""
        return self.fields.get(name, self.extra)

    def __repr__(self) -> str:
        return f"Shape({self.type}, {self.relation}, {sorted(self.fields)})"


def _python_pattern(pattern: str) -> str:
    """Go's `$` is the very end; Python's allows a newline after it."""
    return pattern[:-1] + r"\Z" if pattern.endswith("$") and not pattern.endswith(r"\$") else pattern


def _relation(type_: str, schema: Schema) -> str:
    if type_ == "array":
        return str(schema.get("x-kubernetes-list-type", ATOMIC))
    return str(schema.get("x-kubernetes-map-type", GRANULAR))


def _any() -> Shape:
    shape = Shape("any", {"x-kubernetes-preserve-unknown-fields": True})
    shape.extra = shape
    return shape


ANY: Final = _any()
"""Unknown data: objects are granular, lists atomic, as the server deduces it."""


def compile_schema(schema: Schema, types: Mapping[str, Schema] | None = None) -> Shape:
    """The shape of a structural schema; `$ref` names another entry of `types`.

    Types may not contain themselves (no type that we use does).
    """
    if "$ref" in schema:
        assert types is not None, "a CustomResourceDefinition cannot hold $ref"
        schema = {**types[schema["$ref"]], **{key: value for key, value in schema.items() if key != "$ref"}}
    type_ = _type(schema)
    if type_ == "any":
        return ANY
    shape = Shape(type_, schema)
    shape.fields = {key: compile_schema(value, types) for key, value in schema.get("properties", {}).items()}
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping):
        shape.extra = compile_schema(extra, types)
    elif shape.is_open or extra is True:
        shape.extra = ANY
    if type_ == "array":
        shape.items = compile_schema(schema.get("items", {"x-kubernetes-preserve-unknown-fields": True}), types)
    return shape


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return "int-or-string"
    if schema.get("format") == "quantity":
        return "quantity"
    if "type" in schema:
        return str(schema["type"])
    return "object" if schema.get("properties") else "any"


@cache
def builtin(name: str) -> Shape:
    """The shape of a built-in type by its short name, e.g. `api.core.v1.Node`."""
    return compile_schema({"$ref": name}, _types())


@cache
def _types() -> Mapping[str, Schema]:
    text = resources.files(__package__).joinpath("builtin.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, Any]])
