"""What a field of an API struct can be told besides its type: a description, a second spelling, a rule with words.

A field reads `name: Annotated[type, "What it is for."] = default`. The same declaration feeds the CRD (`schema`), the
forgiving reader (`lenient`) and `kubectl explain`, so they cannot disagree.
"""

import functools
import re
import types
import typing
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta


class Alias(msgspec.Struct, frozen=True):
    """Another spelling that is accepted for a field, though not both at once."""

    name: str


class Rule(msgspec.Struct, frozen=True):
    """A CEL rule of the CRD and what the API server says when it is broken (one sentence, with an example)."""

    cel: str
    message: str


class Pattern(msgspec.Struct, frozen=True):
    """Text that must match `regex` as a whole (RE2 and Python agree on it), and the sentence for people."""

    regex: str
    message: str

    def accepts(self, text: str) -> bool:
        """Does the whole of `text` match?"""
        return re.fullmatch(self.regex, text) is not None


class IntOrText(msgspec.Struct, frozen=True):
    """For `int | str`: a whole number from `minimum`, or text that matches `regex` as a whole."""

    minimum: int
    regex: str
    message: str
    spoken: bool = True
    """Whether the API server says the message; where the value occurs many times over that would cost too much."""

    def accepts(self, value: int | str) -> bool:
        """Is it such a number or text?"""
        return value >= self.minimum if isinstance(value, int) else re.fullmatch(self.regex, value) is not None


class Keyed(msgspec.Struct, frozen=True):
    """A list whose entries are told apart by one field; no two may have the same."""

    by: str


class Distinct(msgspec.Struct, frozen=True):
    """A list of words, none of them twice."""


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object in a spec. Its docstring is its description; `rules` are checked by the API server."""

    rules: typing.ClassVar[tuple[Rule, ...]] = ()
    server_defaults: typing.ClassVar[bool] = True
    """Whether the API server fills in defaults when the object is written, so that they stay as they are then."""


class Part(Section, frozen=True, kw_only=True):
    """An object that occurs in many places; only the operator knows its defaults, or each object would grow long."""

    server_defaults = False


class Policy(Section, frozen=True, kw_only=True):
    """An object in a policy: only the operator knows its defaults, and `…Second` may also be written `…Seconds`."""

    server_defaults = False


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """An object in a status. Nothing is left out when written, so that a patch can also take a value back."""


class Item(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An entry of a list in a status. The list is written as a whole, so what is empty is left out."""


# --- kinds of values -------------------------------------------------------------------------------------------------

Seconds = Annotated[int, Meta(ge=1, le=2_592_000)]
"""At least one second, at most thirty days."""
SecondsOrNoLimit = Annotated[int, Meta(ge=0, le=2_592_000)]
"""0 means no limit; at most thirty days."""
Count = Annotated[int, Meta(ge=0, le=100_000)]
Share = Annotated[
    int | str,
    Meta(max_length=16),
    IntOrText(1, "([1-9][0-9]?|100)%", 'must be a number of nodes from 1 or a percentage from "1%" to "100%"'),
]
"""A number of nodes, or a percentage of them, rounded up; see `share`."""
Version = Annotated[
    str,
    Meta(min_length=1, max_length=63),
    Pattern(
        "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?",
        "must be a version of letters, digits, dots, underscores and dashes without spaces, for example 25.5.0",
    ),
]
LabelValue = Annotated[str, Meta(max_length=63)]
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Word = Annotated[str, Meta(max_length=63)]
Line = Annotated[str, Meta(max_length=1024)]
Text = Annotated[str, Meta(max_length=4096)]
Stamp = Annotated[str, Meta(max_length=32)]
"""RFC 3339, in UTC, whole seconds."""


class FieldInfo(msgspec.Struct, frozen=True):
    """One field of an API struct, taken apart."""

    name: str
    """As in JSON."""
    attribute: str
    """As in Python."""
    type: Any
    """The type with all its annotations."""
    description: str
    aliases: tuple[str, ...]
    default: Any
    """`msgspec.NODEFAULT` when the field is required."""


@functools.cache
def fields_of(struct: type[msgspec.Struct]) -> tuple[FieldInfo, ...]:
    """The fields of `struct` in the order they are written down."""
    hints = typing.get_type_hints(struct, include_extras=True)
    return tuple(
        FieldInfo(
            name=field.encode_name,
            attribute=field.name,
            type=hints[field.name],
            description=next((note for note in notes_of(hints[field.name]) if isinstance(note, str)), ""),
            aliases=_aliases(struct, field.encode_name, hints[field.name]),
            default=_default(field),
        )
        for field in msgspec.structs.fields(struct)
    )


def notes_of(hint: Any) -> tuple[Any, ...]:
    """What the annotations of a type say, the outermost last; empty for a plain type."""
    return hint.__metadata__ if typing.get_origin(hint) is Annotated else ()


def bare(hint: Any) -> Any:
    """The type without its own annotations."""
    return hint.__origin__ if typing.get_origin(hint) is Annotated else hint


def without_none(hint: Any) -> tuple[Any, bool]:
    """(`X`, True) for `X | None`, else (`hint`, False)."""
    inner = bare(hint)
    if typing.get_origin(inner) in (types.UnionType, typing.Union):
        rest = [part for part in typing.get_args(inner) if part is not types.NoneType]
        if len(rest) < len(typing.get_args(inner)):
            return (rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]), True  # noqa: UP007 - built at run time
    return hint, False


def _aliases(struct: type, name: str, hint: Any) -> tuple[str, ...]:
    written = tuple(note.name for note in notes_of(hint) if isinstance(note, Alias))
    if issubclass(struct, Policy) and name.endswith("Second"):
        return (*written, f"{name}s")
    if issubclass(struct, Policy) and name.endswith("Seconds"):
        return (*written, name.removesuffix("s"))
    return written


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


LABEL_KEY: Final = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LabelKey = Annotated[
    str,
    Meta(min_length=1, max_length=317),
    Pattern(LABEL_KEY, "must be the key of a label, for example topology.kubernetes.io/zone"),
]
