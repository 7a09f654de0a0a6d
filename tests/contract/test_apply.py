"""Server-side apply: what is created, claimed, given up, shared and fought over."""

from typing import Any

from npu_operator.kube import api
from npu_operator.kube.api import Conflict, NotFound, Object
from tests.contract.backends import Line, causes, in_both, refused
from tests.contract.bodies import a_daemon_set, widgets_of


def owned(body: Object, manager: str, *, operation: str = "Apply", subresource: str = "") -> Any:
    """The fields of one manager; None when it has none."""
    for entry in body["metadata"].get("managedFields", []):
        if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (manager, operation, subresource):
            return entry["fieldsV1"]
    return None


def a_widget(**spec: Any) -> Object:
    return {"metadata": {"name": "one"}, "spec": spec}


@in_both
async def test_apply_creates_and_claims_what_it_names(c: Line) -> None:
    widgets = await widgets_of(c)
    made = await c.apply(widgets, a_widget(size=1, items=[{"key": "a"}], tags=["x"], free={"l": [1], "m": {"n": 1}}))
    assert made["spec"]["mode"] == "Quiet"
    assert owned(made, "contract") == {
        "f:spec": {
            "f:size": {},
            "f:items": {'k:{"key":"a"}': {".": {}, "f:key": {}}},
            "f:tags": {'v:"x"': {}},
            "f:free": {"f:l": {}, "f:m": {".": {}, "f:n": {}}},
        }
    }


@in_both
async def test_the_same_apply_again_writes_nothing(c: Line) -> None:
    widgets = await widgets_of(c)
    made = await c.apply(widgets, a_widget(size=1, items=[{"key": "a", "value": "1"}], whole={"a": "b"}))
    assert await c.apply(widgets, a_widget(size=1, items=[{"key": "a", "value": "1"}], whole={"a": "b"})) == made


@in_both
async def test_a_field_that_is_named_no_more_goes(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(
        widgets, a_widget(size=1, name="abc", items=[{"key": "a"}, {"key": "b", "value": "1"}], tags=["x", "y"])
    )
    left = await c.apply(widgets, a_widget(size=1, items=[{"key": "b"}], tags=["y"]))
    assert "name" not in left["spec"]
    assert left["spec"]["items"] == [{"key": "b"}]
    assert left["spec"]["tags"] == ["y"]
    bare = await c.apply(widgets, a_widget(size=1))
    assert "items" not in bare["spec"]
    assert "tags" not in bare["spec"]


@in_both
async def test_a_field_that_another_manager_names_as_well_stays(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(widgets, a_widget(size=1, name="abc", items=[{"key": "a", "value": "1"}]))
    await c.apply(widgets, a_widget(name="abc", items=[{"key": "a"}]), manager="second")
    left = await c.apply(widgets, a_widget(size=1))
    assert left["spec"]["name"] == "abc"
    assert left["spec"]["items"] == [{"key": "a"}]
    assert owned(left, "contract") == {"f:spec": {"f:size": {}}}


@in_both
async def test_lists_of_several_managers_are_merged_by_key(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(widgets, a_widget(size=1, items=[{"key": "b", "value": "1"}], tags=["x"]))
    both = await c.apply(widgets, a_widget(items=[{"key": "a"}, {"key": "b"}], tags=["w", "x"]), manager="second")
    assert both["spec"]["items"] == [{"key": "a"}, {"key": "b", "value": "1"}]
    assert both["spec"]["tags"] == ["w", "x"]
    more = await c.apply(widgets, a_widget(items=[{"key": "c"}]), manager="third")
    assert [item["key"] for item in more["spec"]["items"]] == ["a", "b", "c"]


@in_both
async def test_whole_lists_and_maps_have_one_owner(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(widgets, a_widget(size=1, plain=[1, 2], whole={"a": "1"}))
    error = await refused(c.apply(widgets, a_widget(plain=[3], whole={"b": "1"}), manager="second", force=False))
    assert causes(error) == {("FieldManagerConflict", ".spec.plain"), ("FieldManagerConflict", ".spec.whole")}
    taken = await c.apply(widgets, a_widget(plain=[3], whole={"b": "1"}), manager="second")
    assert (taken["spec"]["plain"], taken["spec"]["whole"]) == ([3], {"b": "1"})
    assert owned(taken, "contract") == {"f:spec": {"f:size": {}}}


@in_both
async def test_another_value_for_a_field_of_others_is_a_conflict(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(widgets, a_widget(size=1))
    await c.patch(widgets, "one", {"spec": {"mode": "Loud"}}, manager="editor")
    error = await refused(c.apply(widgets, a_widget(size=2, mode="Quiet"), manager="second", force=False))
    assert isinstance(error, Conflict)
    assert error.reason == "Conflict"
    assert causes(error) == {("FieldManagerConflict", ".spec.size"), ("FieldManagerConflict", ".spec.mode")}
    assert "Apply failed with 2 conflicts" in str(error)
    assert 'conflicts with "contract": - .spec.size' in str(error)
    assert f'conflicts with "editor" using {widgets.api_version}: - .spec.mode' in str(error)


@in_both
async def test_one_conflict_is_said_in_one_line(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(widgets, a_widget(size=1))
    error = await refused(c.apply(widgets, a_widget(size=2), manager="second", force=False))
    assert 'Apply failed with 1 conflict: conflict with "contract": .spec.size' in str(error)


@in_both
async def test_the_same_value_is_shared_without_a_conflict(c: Line) -> None:
    widgets = await widgets_of(c)
    made = await c.apply(widgets, a_widget(size=1))
    shared = await c.apply(widgets, a_widget(size=1), manager="second", force=False)
    assert owned(shared, "second") == owned(shared, "contract") == {"f:spec": {"f:size": {}}}
    assert shared["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert shared["metadata"]["generation"] == 1
    assert await c.apply(widgets, a_widget(size=1), manager="second", force=False) == shared


@in_both
async def test_force_takes_a_field_from_its_owner(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(widgets, a_widget(size=1, name="abc"))
    taken = await c.apply(widgets, a_widget(size=2), manager="second")
    assert taken["spec"]["size"] == 2
    assert owned(taken, "contract") == {"f:spec": {"f:name": {}}}
    assert owned(taken, "second") == {"f:spec": {"f:size": {}}}


@in_both
async def test_a_patch_takes_what_it_changes_even_from_its_own_apply(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(widgets, a_widget(size=1, name="abc"))
    patched = await c.patch(widgets, "one", {"spec": {"size": 2, "name": "abc"}})
    assert owned(patched, "contract") == {"f:spec": {"f:name": {}}}
    assert owned(patched, "contract", operation="Update") == {"f:spec": {"f:size": {}}}
    error = await refused(c.apply(widgets, a_widget(size=1, name="abc"), force=False))
    assert causes(error) == {("FieldManagerConflict", ".spec.size")}


@in_both
async def test_a_manual_edit_is_reverted_by_the_next_apply(c: Line) -> None:
    await c.apply(api.DAEMON_SETS, a_daemon_set("one"))
    edit = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "other:2"}]}}}}
    await c.patch(api.DAEMON_SETS, "one", edit, manager="somebody")
    fixed = await c.apply(api.DAEMON_SETS, a_daemon_set("one"))
    assert fixed["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/main:1"


@in_both
async def test_a_removed_field_that_was_applied_comes_back(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(widgets, a_widget(size=1, name="abc"))
    gone = await c.patch(widgets, "one", {"spec": {"name": None}}, manager="editor")
    assert owned(gone, "contract") == {"f:spec": {"f:size": {}}}
    assert (await c.apply(widgets, a_widget(size=1, name="abc")))["spec"]["name"] == "abc"


@in_both
async def test_status_and_spec_have_separate_owners(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(widgets, a_widget(size=1))
    body = {**a_widget(size=5), "status": {"count": 1, "conditions": [{"type": "Ready", "status": "True"}]}}
    told = await c.apply(widgets, body, subresource="status")
    assert told["spec"]["size"] == 1
    assert owned(told, "contract") == {"f:spec": {"f:size": {}}}
    assert owned(told, "contract", subresource="status") == {
        "f:status": {
            "f:count": {},
            "f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}},
        }
    }
    ignored = await c.apply(widgets, {**a_widget(size=1), "status": {"count": 9}})
    assert ignored["status"]["count"] == 1


@in_both
async def test_status_of_a_missing_object_cannot_be_applied(c: Line) -> None:
    widgets = await widgets_of(c)
    error = await refused(c.apply(widgets, {"metadata": {"name": "one"}, "status": {"count": 1}}, subresource="status"))
    assert isinstance(error, NotFound)


@in_both
async def test_conditions_of_two_managers_live_side_by_side(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(widgets, a_widget(size=1))

    def ready(type_: str, status: str) -> Object:
        return {"metadata": {"name": "one"}, "status": {"conditions": [{"type": type_, "status": status}]}}

    await c.apply(widgets, ready("Ready", "True"), subresource="status")
    both = await c.apply(widgets, ready("Healthy", "False"), manager="second", subresource="status")
    assert [each["type"] for each in both["status"]["conditions"]] == ["Ready", "Healthy"]


@in_both
async def test_the_parts_of_a_pod_template_are_merged_by_their_keys(c: Line) -> None:
    container = {
        "name": "main",
        "image": "registry.example.com/main:1",
        "env": [{"name": "A", "value": "1"}],
        "ports": [{"containerPort": 80}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
        "args": ["a", "b"],
    }
    body = a_daemon_set("one", containers=[container], volumes=[{"name": "v", "hostPath": {"path": "/v"}}])
    made = await c.apply(api.DAEMON_SETS, body)
    found = made["spec"]["template"]["spec"]["containers"][0]
    assert found["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}
    assert found["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    spec = owned(made, "contract")["f:spec"]["f:template"]["f:spec"]
    assert spec["f:containers"] == {
        'k:{"name":"main"}': {
            ".": {},
            "f:name": {},
            "f:image": {},
            "f:args": {},
            "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
            "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
            "f:volumeMounts": {'k:{"mountPath":"/v"}': {".": {}, "f:mountPath": {}, "f:name": {}}},
            "f:resources": {"f:limits": {"f:cpu": {}, "f:memory": {}}},
        }
    }
    again = await c.apply(api.DAEMON_SETS, body)
    assert (again["spec"], again["metadata"]["generation"]) == (made["spec"], 1)
    second = a_daemon_set("one", containers=[{"name": "main", "env": [{"name": "B", "value": "2"}]}])
    merged = await c.apply(api.DAEMON_SETS, second, manager="second")
    assert [each["name"] for each in merged["spec"]["template"]["spec"]["containers"][0]["env"]] == ["A", "B"]


@in_both
async def test_a_dropped_part_of_a_template_goes(c: Line) -> None:
    def body(env: list[Object], **more: Any) -> Object:
        container = {"name": "main", "image": "registry.example.com/main:1", "env": env, **more}
        return a_daemon_set("one", containers=[container])

    await c.apply(api.DAEMON_SETS, body([{"name": "A", "value": "1"}], resources={"limits": {"cpu": "1"}}))
    changed = await c.apply(api.DAEMON_SETS, body([{"name": "B", "value": "2"}]))
    container = changed["spec"]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": "B", "value": "2"}]
    assert container["resources"] == {}
    assert changed["metadata"]["generation"] == 2


@in_both
async def test_an_apply_that_does_not_fit_the_schema_is_an_internal_error(c: Line) -> None:
    widgets = await widgets_of(c)
    for body, words in (
        (a_widget(size="x"), ".spec.size: expected numeric (int or float), got string"),
        (a_widget(size=1, unknown=1), ".spec.unknown: field not declared in schema"),
        (a_widget(size=1, items={}), ".spec.items: expected list, got &{map[]}"),
        (a_widget(size=1, items=[{"key": "a"}, {"key": "a"}]), '.spec.items: duplicate entries for key [key="a"]'),
        (
            a_widget(size=1, items=[{"value": "a"}]),
            "associative list with keys has an element that omits all key fields",
        ),
    ):
        error = await refused(c.apply(widgets, body))
        assert error.status == 500, body
        assert "failed to create typed patch object" in str(error)
        assert words in str(error)


@in_both
async def test_an_applied_value_is_validated(c: Line) -> None:
    widgets = await widgets_of(c)
    error = await refused(c.apply(widgets, a_widget(size=77)))
    assert (error.status, causes(error)) == (422, {("FieldValueInvalid", "spec.size")})


@in_both
async def test_an_apply_must_name_the_right_kind(c: Line) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one", "namespace": c.namespace}}
    error = await refused(c.cluster.apply(api.CONFIG_MAPS, body, manager="m"))
    assert (error.status, error.reason) == (400, "BadRequest")


@in_both
async def test_a_guarded_apply_is_refused_when_the_object_has_changed(c: Line) -> None:
    widgets = await widgets_of(c)
    made = await c.apply(widgets, a_widget(size=1))
    await c.patch(widgets, "one", {"spec": {"size": 2}})
    version = made["metadata"]["resourceVersion"]
    error = await refused(
        c.apply(widgets, {"metadata": {"name": "one", "resourceVersion": version}, "spec": {"size": 3}})
    )
    assert isinstance(error, Conflict)


@in_both
async def test_an_apply_that_is_meant_for_one_object_does_not_create_another(c: Line) -> None:
    widgets = await widgets_of(c)
    error = await refused(c.apply(widgets, {"metadata": {"name": "one", "uid": "some-uid"}, "spec": {"size": 3}}))
    assert isinstance(error, Conflict)


@in_both
async def test_labels_and_owner_references_are_claimed_one_by_one(c: Line) -> None:
    owner = await c.create(api.CONFIG_MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    meta = {"name": "one", "labels": {"a": "1"}, "ownerReferences": [reference]}
    made = await c.apply(api.CONFIG_MAPS, {"metadata": meta, "data": {"x": "1"}})
    key = f'k:{{"uid":"{owner["metadata"]["uid"]}"}}'
    assert owned(made, "contract") == {
        "f:metadata": {"f:labels": {"f:a": {}}, "f:ownerReferences": {key: {}}},
        "f:data": {"f:x": {}},
    }
    left = await c.apply(api.CONFIG_MAPS, {"metadata": {"name": "one"}, "data": {"x": "1"}})
    assert "labels" not in left["metadata"]
    assert "ownerReferences" not in left["metadata"]


@in_both
async def test_an_object_without_owners_gets_none_before_it_is_applied(c: Line) -> None:
    made = await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    assert "managedFields" not in made["metadata"]
    patched = await c.patch(api.CONFIG_MAPS, "one", {"data": {"a": "1"}})
    assert "managedFields" not in patched["metadata"]
    applied = await c.apply(api.CONFIG_MAPS, {"metadata": {"name": "one"}, "data": {"b": "2"}})
    assert owned(applied, "contract") == {"f:data": {"f:b": {}}}
    assert owned(applied, "before-first-apply", operation="Update") == {"f:data": {".": {}, "f:a": {}}}


@in_both
async def test_the_account_of_a_template_stays_when_it_is_applied_no_more(c: Line) -> None:
    await c.apply(api.DAEMON_SETS, a_daemon_set("one", serviceAccountName="agent"))
    left = await c.apply(api.DAEMON_SETS, a_daemon_set("one"))
    # The server copies it to the deprecated `serviceAccount`, which nobody owns, and back.
    assert left["spec"]["template"]["spec"]["serviceAccountName"] == "agent"


@in_both
async def test_another_spelling_of_a_quantity_is_a_conflict_and_no_change(c: Line) -> None:
    def body(memory: str) -> Object:
        container = {"name": "main", "image": "main:1", "resources": {"limits": {"memory": memory}}}
        return a_daemon_set("one", containers=[container])

    made = await c.apply(api.DAEMON_SETS, body("1024Mi"))
    error = await refused(c.apply(api.DAEMON_SETS, body("1024Mi"), manager="second", force=False))
    limit = '.spec.template.spec.containers[name="main"].resources.limits.memory'
    assert causes(error) == {("FieldManagerConflict", limit)}
    again = await c.apply(api.DAEMON_SETS, body("1024Mi"))
    assert again["metadata"]["generation"] == made["metadata"]["generation"]
    assert again["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] == "1Gi"


@in_both
async def test_a_map_cannot_be_emptied_by_applying_an_empty_one(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.apply(widgets, a_widget(size=1, named={"p": "1"}))
    error = await refused(c.apply(widgets, a_widget(size=1, named={})))
    # The server makes null of a map that loses all its keys, and null is no map. Leaving the map out works.
    assert (error.status, causes(error)) == (422, {("FieldValueTypeInvalid", "spec.named")})
    assert "named" not in (await c.apply(widgets, a_widget(size=1)))["spec"]
