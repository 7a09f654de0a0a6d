"""Custom kinds: when they are served, what is pruned, filled in and refused."""

from typing import Any

import pytest

from npu_operator.kube import api
from npu_operator.kube.api import Invalid, NotFound, Resource
from tests.contract.backends import Line, causes, in_both, refused
from tests.contract.bodies import a_definition, widgets_of


@in_both
async def test_a_kind_is_served_once_its_definition_is_established(c: Line) -> None:
    widgets = Resource("contract.example.com", "v1", "gadgets", "Gadget")
    assert isinstance(await refused(c.list(widgets)), NotFound)
    made = await c.create(api.CUSTOM_RESOURCE_DEFINITIONS, a_definition(widgets))
    assert made["spec"]["names"]["singular"] == "gadget"
    assert made["spec"]["names"]["listKind"] == "GadgetList"
    await c.served(widgets)

    async def is_established() -> bool:
        """A real server may serve the kind some milliseconds before its definition says so."""
        found = await c.get(api.CUSTOM_RESOURCE_DEFINITIONS, "gadgets.contract.example.com")
        return ("Established", "True") in {(each["type"], each["status"]) for each in found["status"]["conditions"]}

    await c.eventually(is_established)
    await c.delete(api.CUSTOM_RESOURCE_DEFINITIONS, "gadgets.contract.example.com")
    await c.gone(api.CUSTOM_RESOURCE_DEFINITIONS, "gadgets.contract.example.com")


@in_both
async def test_objects_go_with_their_definition(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": 1}})
    await c.delete(api.CUSTOM_RESOURCE_DEFINITIONS, widgets.name)
    await c.gone(api.CUSTOM_RESOURCE_DEFINITIONS, widgets.name)
    await c.create(api.CUSTOM_RESOURCE_DEFINITIONS, a_definition(widgets))
    await c.served(widgets)
    assert (await c.list(widgets))[0] == []


@in_both
async def test_defaults_appear_and_unknown_fields_go(c: Line) -> None:
    widgets = await widgets_of(c)
    spec = {"size": 3, "unknown": 1, "items": [{"key": "a", "more": 1}], "flag": None, "maybe": None}
    made = await c.create(widgets, {"metadata": {"name": "one"}, "spec": spec, "extra": {}})
    assert made["spec"] == {
        "size": 3,
        "items": [{"key": "a"}],
        "maybe": None,
        "mode": "Quiet",
        "inner": {"a": 1, "b": "x"},
    }
    assert "extra" not in made


@in_both
async def test_fields_below_a_free_one_are_kept(c: Line) -> None:
    widgets = await widgets_of(c)
    free = {"any": [1, {"x": None}], "thing": {"deep": {"er": "y"}}}
    made = await c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": 3, "free": free}})
    assert made["spec"]["free"] == free


@in_both
async def test_a_default_comes_back_when_its_field_is_removed(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": 3, "mode": "Loud", "inner": {"a": 5}}})
    patched = await c.patch(widgets, "one", {"spec": {"mode": None, "inner": None}})
    assert patched["spec"] == {"size": 3, "mode": "Quiet", "inner": {"a": 1, "b": "x"}}


BAD_SPECS: list[tuple[Any, set[tuple[str, str]]]] = [
    ({}, {("FieldValueRequired", "spec.size")}),
    ([], {("FieldValueTypeInvalid", "spec")}),
    ({"size": "3"}, {("FieldValueTypeInvalid", "spec.size")}),
    ({"size": 1.5}, {("FieldValueTypeInvalid", "spec.size")}),
    ({"size": 0}, {("FieldValueInvalid", "spec.size")}),
    ({"size": 11}, {("FieldValueInvalid", "spec.size")}),
    ({"size": 1, "mode": "Mute"}, {("FieldValueNotSupported", "spec.mode")}),
    ({"size": 1, "mode": 1}, {("FieldValueTypeInvalid", "spec.mode"), ("FieldValueNotSupported", "spec.mode")}),
    ({"size": 1, "name": "ABC"}, {("FieldValueInvalid", "spec.name")}),
    ({"size": 1, "name": "a"}, {("FieldValueInvalid", "spec.name")}),
    ({"size": 1, "name": "abcdef"}, {("FieldValueTooLong", "spec.name")}),
    ({"size": 1, "name": "abc\n"}, {("FieldValueInvalid", "spec.name")}),
    ({"size": 1, "share": "5"}, {("FieldValueInvalid", "spec.share")}),
    ({"size": 1, "items": [{"value": "a"}]}, {("FieldValueRequired", "spec.items[0].key")}),
    ({"size": 1, "items": [{"key": "a"}, {"key": "a"}]}, {("FieldValueDuplicate", "spec.items[1]")}),
    ({"size": 1, "items": [{"key": x} for x in "abcd"]}, {("FieldValueTooMany", "spec.items")}),
    ({"size": 1, "tags": ["a", "a"]}, {("FieldValueDuplicate", "spec.tags[1]")}),
    ({"size": 1, "plain": []}, {("FieldValueInvalid", "spec.plain")}),
    ({"size": 1, "plain": ["x"]}, {("FieldValueTypeInvalid", "spec.plain[0]")}),
    ({"size": 1, "named": {"a": "1", "b": "2", "c": "3"}}, {("FieldValueTooMany", "spec.named")}),
    ({"size": 1, "named": {"a": 1}}, {("FieldValueTypeInvalid", "spec.named.a")}),
    ({"size": 1, "flag": "true"}, {("FieldValueTypeInvalid", "spec.flag")}),
    ({"size": 1, "step": 0.3}, {("FieldValueInvalid", "spec.step")}),
    ({"size": 1, "since": "yesterday"}, {("FieldValueTypeInvalid", "spec.since")}),
    ({"size": 1, "inner": {"a": "x"}}, {("FieldValueTypeInvalid", "spec.inner.a")}),
    ({"size": 1, "free": 3}, {("FieldValueTypeInvalid", "spec.free")}),
]


@in_both
async def test_each_breach_of_the_schema_is_named_with_its_field(c: Line) -> None:
    widgets = await widgets_of(c)
    found, wanted = {}, {}
    for spec, expected in BAD_SPECS:
        error = await refused(c.create(widgets, {"metadata": {"name": "one"}, "spec": spec}))
        assert isinstance(error, Invalid), spec
        found[repr(spec)], wanted[repr(spec)] = causes(error), expected
    assert found == wanted


@in_both
async def test_messages_say_what_is_wrong(c: Line) -> None:
    widgets = await widgets_of(c)
    error = await refused(c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": "3", "mode": "Mute"}}))
    text = str(error)
    assert f'{widgets.kind}.{widgets.group} "one" is invalid: ' in text
    assert 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"' in text
    assert 'spec.mode: Unsupported value: "Mute": supported values: ' in text


@in_both
async def test_whole_numbers_may_be_written_as_decimals(c: Line) -> None:
    widgets = await widgets_of(c)
    made = await c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": 1.0, "share": "5%"}})
    assert made["spec"]["size"] == 1


@in_both
async def test_a_patch_is_validated_as_a_whole(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": 1}})
    error = await refused(c.patch(widgets, "one", {"spec": {"size": 77}}))
    assert isinstance(error, Invalid)
    assert causes(error) == {("FieldValueInvalid", "spec.size")}
    error = await refused(c.patch(widgets, "one", {"spec": {"size": None}}))
    assert causes(error) == {("FieldValueRequired", "spec.size")}


@in_both
async def test_an_object_of_another_kind_or_version_is_refused(c: Line) -> None:
    widgets = await widgets_of(c)
    body = {"metadata": {"name": "one"}, "spec": {"size": 1}}
    assert (await refused(c.create(widgets, {**body, "kind": "Other"}))).status == 422
    assert (await refused(c.create(widgets, {**body, "apiVersion": f"{widgets.group}/v2"}))).status == 400


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Galaxy"}, "spec.scope"),
        ({"group": "other.example.com"}, "metadata.name"),
    ],
)
def test_a_bad_definition_is_refused(backend, change: dict[str, Any], field: str) -> None:
    async def scenario(c: Line) -> None:
        body = a_definition(Resource("contract.example.com", "v1", "doodads", "Doodad"))
        body["spec"] = {**body["spec"], **change}
        error = await refused(c.create(api.CUSTOM_RESOURCE_DEFINITIONS, body))
        assert isinstance(error, Invalid)
        assert field in {where for _, where in causes(error)}

    backend.run(scenario)


@in_both
async def test_a_schema_must_be_structural(c: Line) -> None:
    widgets = Resource("contract.example.com", "v1", "doodads", "Doodad")
    schema = {"type": "object", "properties": {"spec": {"properties": {"a": {}}}}}
    error = await refused(c.create(api.CUSTOM_RESOURCE_DEFINITIONS, a_definition(widgets, schema=schema)))
    assert isinstance(error, Invalid)
    root = "spec.validation.openAPIV3Schema"
    assert causes(error) == {
        ("FieldValueRequired", f"{root}.properties[spec].type"),
        ("FieldValueRequired", f"{root}.properties[spec].properties[a].type"),
    }


@in_both
async def test_cluster_scoped_kinds_have_no_namespace(c: Line) -> None:
    widgets = await widgets_of(c, namespaced=False)
    made = await c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": 1}})
    assert "namespace" not in made["metadata"]
    await c.delete(widgets, "one")
