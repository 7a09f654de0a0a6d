"""Creating, reading and patching single objects."""

import pytest

from npu_operator.kube import api
from npu_operator.kube.api import Conflict, Invalid, NotFound
from tests.contract.backends import Line, causes, in_both, refused
from tests.contract.bodies import a_daemon_set


@in_both
async def test_a_new_object_gets_an_identity_and_a_version(c: Line) -> None:
    made = await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}, "data": {"a": "b"}})
    meta = made["metadata"]
    assert len(meta["uid"]) == 36
    assert meta["resourceVersion"].isdecimal()
    assert meta["creationTimestamp"].endswith("Z")
    assert meta["namespace"] == c.namespace
    assert "generation" not in meta
    assert await c.get(api.CONFIG_MAPS, "one") == made


@in_both
async def test_a_taken_name_is_refused_as_already_exists(c: Line) -> None:
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    error = await refused(c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}}))
    assert isinstance(error, Conflict)
    assert error.reason == "AlreadyExists"
    assert 'configmaps "one" already exists' in str(error)


@in_both
async def test_a_generated_name_begins_with_its_stem(c: Line) -> None:
    made = await c.create(api.CONFIG_MAPS, {"metadata": {"generateName": "stem-"}})
    assert made["metadata"]["name"].startswith("stem-")
    assert len(made["metadata"]["name"]) == len("stem-") + 5
    assert made["metadata"]["generateName"] == "stem-"


@in_both
async def test_an_unknown_name_is_not_found(c: Line) -> None:
    for call in (
        c.get(api.DAEMON_SETS, "none"),
        c.patch(api.DAEMON_SETS, "none", {"metadata": {"labels": {"a": "b"}}}),
        c.delete(api.DAEMON_SETS, "none"),
    ):
        error = await refused(call)
        assert isinstance(error, NotFound)
        assert error.reason == "NotFound"
        assert 'daemonsets.apps "none" not found' in str(error)


@in_both
async def test_an_unknown_resource_is_not_found_without_a_reason(c: Line) -> None:
    unknown = api.Resource("nobody.example.com", "v1", "things", "Thing")
    for call in (c.get(unknown, "x"), c.list(unknown), c.create(unknown, {"metadata": {"name": "x"}})):
        error = await refused(call)
        assert isinstance(error, NotFound)
        assert error.reason == ""


@in_both
async def test_a_namespace_must_exist(c: Line) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    error = await refused(c.cluster.create(api.CONFIG_MAPS, body, "nowhere", manager="m"))
    assert isinstance(error, NotFound)
    assert 'namespaces "nowhere" not found' in str(error)


@in_both
async def test_reading_in_a_missing_namespace_finds_nothing(c: Line) -> None:
    assert [page.items async for page in c.cluster.list_pages(api.CONFIG_MAPS, "nowhere")] == [()]


@in_both
async def test_a_body_of_another_namespace_is_refused(c: Line) -> None:
    error = await refused(c.create(api.CONFIG_MAPS, {"metadata": {"name": "one", "namespace": "default"}}))
    assert (error.status, error.reason) == (400, "BadRequest")


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "dot.", "a" * 254, ""])
def test_a_name_that_is_no_subdomain_is_refused(backend, name: str) -> None:
    async def scenario(c: Line) -> None:
        error = await refused(c.create(api.CONFIG_MAPS, {"metadata": {"name": name}}))
        assert isinstance(error, Invalid)
        assert {field for _, field in causes(error)} == {"metadata.name"}

    backend.run(scenario)


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("labels", "a", "x" * 64),
        ("labels", "a", "has space"),
        ("labels", "a", "-dash"),
        ("labels", "a/b/c", ""),
        ("labels", "Upper.example.com/a", ""),
        ("labels", "x" * 64, ""),
        ("labels", "", ""),
        ("annotations", "a b", "any text is fine"),
        ("annotations", "/a", ""),
    ],
)
def test_a_bad_label_or_annotation_is_refused(backend, part: str, key: str, value: str) -> None:
    async def scenario(c: Line) -> None:
        error = await refused(c.create(api.CONFIG_MAPS, {"metadata": {"name": "one", part: {key: value}}}))
        assert isinstance(error, Invalid)
        assert causes(error) == {("FieldValueInvalid", f"metadata.{part}")}

    backend.run(scenario)


@in_both
async def test_good_labels_are_taken(c: Line) -> None:
    labels = {"a": "", "example.com/B_c.d": "x" * 63, "n": "1.2-3_4"}
    made = await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one", "labels": labels}})
    assert made["metadata"]["labels"] == labels


@in_both
async def test_a_label_that_is_no_text_is_refused(c: Line) -> None:
    error = await refused(c.create(api.CONFIG_MAPS, {"metadata": {"name": "one", "labels": {"a": 1}}}))
    assert (error.status, error.reason) == (400, "BadRequest")
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    error = await refused(c.patch(api.CONFIG_MAPS, "one", {"metadata": {"labels": {"a": 1}}}))
    assert isinstance(error, Invalid)
    assert causes(error) == {("FieldValueInvalid", "patch")}


@in_both
async def test_a_merge_patch_changes_only_what_it_names(c: Line) -> None:
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one", "labels": {"l": "1"}}, "data": {"a": "1", "b": "2"}})
    patched = await c.patch(api.CONFIG_MAPS, "one", {"data": {"b": None, "c": "3"}})
    assert patched["data"] == {"a": "1", "c": "3"}
    assert patched["metadata"]["labels"] == {"l": "1"}


@in_both
async def test_each_change_raises_the_version_and_no_change_does_not(c: Line) -> None:
    made = await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}, "data": {"a": "1"}})
    same = await c.patch(api.CONFIG_MAPS, "one", {"data": {"a": "1"}, "metadata": {"labels": {"gone": None}}})
    assert same == made
    changed = await c.patch(api.CONFIG_MAPS, "one", {"data": {"a": "2"}})
    assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


@in_both
async def test_a_guarded_patch_is_refused_when_the_object_has_changed(c: Line) -> None:
    made = await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    version = made["metadata"]["resourceVersion"]
    await c.patch(api.CONFIG_MAPS, "one", {"metadata": {"resourceVersion": version}, "data": {"a": "1"}})
    error = await refused(
        c.patch(api.CONFIG_MAPS, "one", {"metadata": {"resourceVersion": version}, "data": {"a": "2"}})
    )
    assert isinstance(error, Conflict)
    assert error.reason == "Conflict"
    assert "the object has been modified; please apply your changes to the latest version" in str(error)


@in_both
async def test_a_guard_of_another_uid_is_refused(c: Line) -> None:
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    error = await refused(c.patch(api.CONFIG_MAPS, "one", {"metadata": {"uid": "other"}, "data": {"a": "2"}}))
    assert isinstance(error, Invalid)
    assert causes(error) == {("FieldValueInvalid", "metadata.uid")}


@in_both
async def test_a_patch_cannot_rename(c: Line) -> None:
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    error = await refused(c.patch(api.CONFIG_MAPS, "one", {"metadata": {"name": "two"}}))
    assert (error.status, error.reason) == (400, "BadRequest")


@in_both
async def test_marks_of_deletion_cannot_be_patched(c: Line) -> None:
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    for key, value in (("deletionTimestamp", "2026-01-01T00:00:00Z"), ("deletionGracePeriodSeconds", 3)):
        error = await refused(c.patch(api.CONFIG_MAPS, "one", {"metadata": {key: value}}))
        assert isinstance(error, Invalid)
        assert causes(error) == {("FieldValueInvalid", f"metadata.{key}")}


@in_both
async def test_what_the_server_counts_cannot_be_patched(c: Line) -> None:
    made = await c.create(api.DAEMON_SETS, a_daemon_set("one"))
    for key, value in (("creationTimestamp", "2026-01-01T00:00:00Z"), ("generation", 7), ("uid", None)):
        patched = await c.patch(api.DAEMON_SETS, "one", {"metadata": {key: value}})
        assert patched["metadata"][key] == made["metadata"][key]


@in_both
async def test_identity_in_a_new_body_is_ignored(c: Line) -> None:
    meta = {"name": "one", "uid": "mine", "generation": 7, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    made = await c.create(api.DAEMON_SETS, {**a_daemon_set("one"), "metadata": meta})
    assert made["metadata"]["uid"] != "mine"
    assert made["metadata"]["generation"] == 1
    assert "deletionTimestamp" not in made["metadata"]


@in_both
async def test_a_new_body_with_a_version_is_refused(c: Line) -> None:
    error = await refused(c.create(api.CONFIG_MAPS, {"metadata": {"name": "one", "resourceVersion": "1"}}))
    assert error.status == 500


@in_both
async def test_unknown_fields_of_built_in_kinds_are_dropped(c: Line) -> None:
    made = await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one", "zone": "x"}, "datum": {"a": "b"}})
    assert "datum" not in made
    assert "zone" not in made["metadata"]
    assert await c.patch(api.CONFIG_MAPS, "one", {"datum": {"a": "b"}}) == made


@in_both
async def test_a_body_of_another_kind_is_refused(c: Line) -> None:
    error = await refused(
        c.cluster.create(
            api.CONFIG_MAPS,
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}},
            c.namespace,
            manager="m",
        )
    )
    assert error.status == 400
    error = await refused(
        c.cluster.create(
            api.CONFIG_MAPS,
            {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "one"}},
            c.namespace,
            manager="m",
        )
    )
    assert error.status == 400
