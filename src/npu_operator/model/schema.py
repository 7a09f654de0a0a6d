"""From API structs to the structural OpenAPI schema of a resource definition.

Kubernetes wants a schema without references and without alternatives, with every list and text bounded (or the cost of
CEL rules cannot be estimated), and with its own extensions. A walk over the types says that more plainly than rewriting
what `msgspec.json.schema` gives.

In a spec each object keeps fields that it does not know, so that the operator can report them by name; the API server
would otherwise drop them in silence.
"""

import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
from msgspec import Meta

from .fields import (
    Distinct,
    FieldInfo,
    IntOrText,
    Keyed,
    Pattern,
    Rule,
    Section,
    bare,
    fields_of,
    notes_of,
    without_none,
)

Schema = dict[str, Any]

UNKNOWN_FIELDS_STAY = "x-kubernetes-preserve-unknown-fields"
VALIDATIONS = "x-kubernetes-validations"


def of_struct(kind: type[msgspec.Struct], *, description: str = "") -> Schema:
    """The schema of an object. Without `description` the struct's docstring tells what it is."""
    properties: dict[str, Schema] = {}
    for field in fields_of(kind):
        properties[field.name] = _of_field(kind, field)
        for alias in field.aliases:
            second = f"Another spelling of {field.name}; set only one of them."
            properties[alias] = {**of_type(field.type), "description": second}
    schema: Schema = {"type": "object", "description": description or (kind.__doc__ or "").strip()}
    if properties:
        schema["properties"] = properties
    if required := [field.name for field in fields_of(kind) if field.default is msgspec.NODEFAULT]:
        schema["required"] = required
    if issubclass(kind, Section):
        schema[UNKNOWN_FIELDS_STAY] = True
        if rules := (*kind.rules, *_one_spelling_rules(kind)):
            schema[VALIDATIONS] = [{"rule": rule.cel, "message": rule.message} for rule in rules]
    return schema


def of_type(hint: Any, *, description: str = "") -> Schema:
    """The schema of a value of the type `hint`, bounded and worded by its annotations."""
    hint, optional = without_none(hint)
    schema = _of_kind(hint, description)
    if optional:
        schema = _or_null(schema)
    if description:
        schema["description"] = description
    if rules := [note for note in notes_of(hint) if isinstance(note, Rule)]:
        schema.setdefault(VALIDATIONS, []).extend({"rule": rule.cel, "message": rule.message} for rule in rules)
    return schema


def _or_null(schema: Schema) -> Schema:
    """The same, or null. An API server never takes null for one of an enum, not even when null is listed in it."""
    words = schema.pop("enum", None)
    if words is not None:
        one_of = ", ".join(words)
        rule = f"self in [{', '.join(map(_quoted, words))}]"
        schema.update({"maxLength": max(map(len, words)), VALIDATIONS: [_spoken(rule, f"must be one of {one_of}")]})
    return {**schema, "nullable": True}


def _of_field(owner: type[msgspec.Struct], field: FieldInfo) -> Schema:
    by_server = issubclass(owner, Section) and owner.server_defaults
    default = server_default(field) if by_server else None
    words = field.description
    if issubclass(owner, Section) and not by_server and (told := _told(field.default)):
        words = f"{words} Default: {told}."
    schema = of_type(field.type, description=words)
    if default is not None:
        schema["default"] = default
    return schema


def server_default(field: FieldInfo) -> Any:
    """The default that the API server fills in; None where empty is as good.

    An object gets an empty one when something inside has a default, since the server looks inside only what is there.
    """
    inner = bare(field.type)
    if isinstance(inner, type) and issubclass(inner, Section):
        fills = inner.server_defaults and any(server_default(below) is not None for below in fields_of(inner))
        return {} if fills and field.default is not msgspec.NODEFAULT else None
    if field.default is msgspec.NODEFAULT or field.default is None or field.default in ("", (), {}):
        return None
    return msgspec.to_builtins(field.default)


def _told(default: Any) -> str:
    """A default in words for the description; empty where it goes without saying."""
    if default is msgspec.NODEFAULT or default is None or isinstance(default, msgspec.Struct | Mapping | tuple):
        return ""
    value = msgspec.to_builtins(default)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_kind(hint: Any, description: str) -> Schema:
    kind, container = bare(hint), typing.get_origin(bare(hint))
    if kind is Any:
        return {UNKNOWN_FIELDS_STAY: True}
    if container is tuple:
        return _of_list(hint)
    if container is dict:
        return _of_map(hint)
    if container is not None:
        return _of_int_or_text(hint)
    if issubclass(kind, Enum):
        return {"type": "string", "enum": [member.value for member in kind]}
    if issubclass(kind, msgspec.Struct):
        return of_struct(kind, description=description)
    return _of_scalar(kind, hint)


def _of_scalar(kind: type, hint: Any) -> Schema:
    schema: Schema = {"type": {bool: "boolean", int: "integer", str: "string"}[kind]}
    if kind is int:
        schema["format"] = "int64"
    words = {"ge": "minimum", "le": "maximum", "min_length": "minLength", "max_length": "maxLength"}
    for note in notes_of(hint):
        if isinstance(note, Meta):
            limits = {word: getattr(note, ours) for ours, word in words.items()}
            schema.update({word: limit for word, limit in limits.items() if limit is not None})
        if isinstance(note, Pattern):
            schema[VALIDATIONS] = [_spoken(f"self.matches({_quoted(_whole(note.regex))})", note.message)]
    return schema


def _of_int_or_text(hint: Any) -> Schema:
    """`int | str`. The sentence is a CEL rule where the value stands alone, else a plain pattern bounds the cost."""
    schema: Schema = {"x-kubernetes-int-or-string": True}
    for note in notes_of(hint):
        if isinstance(note, IntOrText) and note.spoken:
            text = f"self.matches({_quoted(_whole(note.regex))})"
            rule = f"type(self) == int ? self >= {note.minimum} : {text}"
            schema[VALIDATIONS] = [{"rule": rule, "message": note.message}]
        elif isinstance(note, IntOrText):
            schema["pattern"] = _whole(note.regex)
    return schema


def _of_list(hint: Any) -> Schema:
    (item, _) = typing.get_args(bare(hint))
    schema: Schema = {"type": "array", "items": of_type(item), "x-kubernetes-list-type": "atomic"}
    for note in notes_of(hint):
        if isinstance(note, Meta) and note.max_length is not None:
            schema["maxItems"] = note.max_length
        if isinstance(note, Keyed):
            schema["x-kubernetes-list-type"] = "map"
            schema["x-kubernetes-list-map-keys"] = [note.by]
        if isinstance(note, Distinct):
            schema["x-kubernetes-list-type"] = "set"
    return schema


def _of_map(hint: Any) -> Schema:
    (_, item) = typing.get_args(bare(hint))
    if bare(item) is Any:
        return {"type": "object", UNKNOWN_FIELDS_STAY: True}
    schema: Schema = {"type": "object", "additionalProperties": of_type(item)}
    for note in notes_of(hint):
        if isinstance(note, Meta) and note.max_length is not None:
            schema["maxProperties"] = note.max_length
    return schema


def _one_spelling_rules(kind: type[msgspec.Struct]) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            f"!(has(self.{field.name}) && has(self.{alias}))",
            f"{field.name} and {alias} are two spellings of one field: set only one of them",
        )
        for field in fields_of(kind)
        for alias in field.aliases
    )


def _spoken(rule: str, message: str) -> Schema:
    """A rule whose complaint shows the value; the API server's own prefix would only say `"string"`."""
    before, after = (msgspec.json.encode(text).decode() for text in ('is "', f'", but {message}'))
    expression = f"{before} + self + {after}"
    return {"rule": rule, "message": message, "messageExpression": expression}


def _whole(regex: str) -> str:
    return f"^({regex})$"


def _quoted(text: str) -> str:
    """A CEL string literal, raw so that backslashes stay."""
    return f"r'{text}'"
