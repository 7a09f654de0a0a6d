"""Any valid spec survives the way to JSON and back; any wrong value costs its own field alone."""

import typing
from enum import Enum
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from npu_operator.model import lenient
from npu_operator.model.ctl import Spec
from npu_operator.model.fields import IntOrText, Pattern, bare, fields_of, notes_of, without_none

WORDS = st.text("abcdefgh0123456789-", max_size=12)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type as annotated in the structs."""
    hint, optional = without_none(hint)
    made = _values(hint)
    return st.none() | made if optional else made


def _values(hint: Any) -> st.SearchStrategy[Any]:
    kind, origin, notes = bare(hint), typing.get_origin(bare(hint)), notes_of(hint)
    metas = [note for note in notes if isinstance(note, Meta)]
    longest = min([meta.max_length for meta in metas if meta.max_length is not None], default=12)
    if kind is Any:
        return WORDS
    if origin is tuple:
        return st.lists(values(typing.get_args(kind)[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(*map(values, typing.get_args(kind)), max_size=3)
    for note in notes:
        if isinstance(note, Pattern):
            return st.from_regex(note.regex, fullmatch=True).filter(
                lambda text: text.isascii() and len(text) <= longest
            )
        if isinstance(note, IntOrText):
            text = st.from_regex(note.regex, fullmatch=True).filter(
                lambda text: text.isascii() and len(text) <= longest
            )
            return st.integers(note.minimum, 1000) | text
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    if issubclass(kind, msgspec.Struct):
        return st.builds(kind, **{field.attribute: values(field.type) for field in fields_of(kind)})
    if kind is int:
        low = max((meta.ge for meta in metas if meta.ge is not None), default=0)
        return st.integers(int(low), int(min((meta.le for meta in metas if meta.le is not None), default=9999)))
    if kind is bool:
        return st.booleans()
    return WORDS.map(lambda word: f"x{word}"[: min(longest, 12)])


@settings(max_examples=15, deadline=None)
@given(values(Spec))
def test_a_valid_spec_survives_the_way_to_json_and_back(spec: Spec) -> None:
    written = msgspec.json.decode(msgspec.json.encode(spec))
    assert lenient.read(Spec, written, "spec") == (spec, ())


@settings(max_examples=15, deadline=None)
@given(values(Spec), st.data())
def test_a_wrong_value_costs_its_own_field_alone(spec: Spec, data: st.DataObject) -> None:
    victim = data.draw(st.sampled_from(fields_of(Spec)))
    written = msgspec.json.decode(msgspec.json.encode(spec))
    written[victim.name] = data.draw(
        st.just([{}]) | st.integers() if victim.name != "imagePullSecrets" else st.integers()
    )
    found, problems = lenient.read(Spec, written, "spec")
    assert problems
    assert all(problem.path.startswith(f"spec.{victim.name}") for problem in problems)
    for field in fields_of(Spec):
        wanted = field.default if field.name == victim.name else getattr(spec, field.attribute)
        assert getattr(found, field.attribute) == wanted


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=12,
)
NAMES = st.sampled_from(sorted({name for field in fields_of(Spec) for name in (field.name, *field.aliases)}))


@settings(max_examples=150, deadline=None)
@given(JSON | st.dictionaries(NAMES, JSON, max_size=4))
def test_nothing_that_json_can_say_breaks_the_reader(written: Any) -> None:
    found, problems = lenient.read(Spec, written, "spec")
    assert isinstance(found, Spec)
    for problem in problems:
        assert problem.path.startswith("spec")
        assert str(problem)
