"""Merge patches: what is sent changes what differs, and nothing else."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from npu_operator.kube.merge import difference

KEYS = st.sampled_from("abc")
VALUES = st.recursive(
    st.one_of(st.integers(0, 2), st.text("xy", max_size=2), st.booleans(), st.lists(st.integers(0, 2), max_size=2)),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
MAPS = st.dictionaries(KEYS, VALUES, max_size=3)


def merged(target: Any, patch: Any) -> Any:
    """As the server does it (RFC 7386, section 2)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


@given(MAPS, MAPS)
def test_the_patch_leads_from_one_to_the_other(before, after):
    assert merged(before, difference(before, after)) == after


@given(MAPS)
def test_without_a_difference_there_is_nothing_to_send(value):
    assert difference(value, value) == {}


def test_only_what_differs_is_sent():
    before = {"labels": {"a": "1", "b": "2"}, "spec": {"x": [1, 2]}}
    after = {"labels": {"a": "1", "c": "3"}, "spec": {"x": [1]}}
    assert difference(before, after) == {"labels": {"b": None, "c": "3"}, "spec": {"x": [1]}}
