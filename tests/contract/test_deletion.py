"""Deleting: preconditions, finalizers, grace, namespaces, and what becomes of dependents."""

from npu_operator.kube import api
from npu_operator.kube.api import Conflict, Forbidden, Invalid, NotFound, Object, Preconditions
from tests.contract.backends import Line, causes, in_both, refusal, refused
from tests.contract.bodies import a_daemon_set, a_pod, running, widgets_of


@in_both
async def test_a_deleted_object_is_gone_at_once(c: Line) -> None:
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    await c.delete(api.CONFIG_MAPS, "one")
    assert isinstance(await refused(c.get(api.CONFIG_MAPS, "one")), NotFound)


@in_both
async def test_a_precondition_protects_the_successor(c: Line) -> None:
    first = await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    await c.delete(api.CONFIG_MAPS, "one")
    second = await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    stale = Preconditions(uid=first["metadata"]["uid"])
    error = await refused(c.delete(api.CONFIG_MAPS, "one", preconditions=stale))
    assert isinstance(error, Conflict)
    assert error.reason == "Conflict"
    assert "the UID in the precondition" in str(error)
    await c.patch(api.CONFIG_MAPS, "one", {"data": {"a": "1"}})
    old = Preconditions(resource_version=second["metadata"]["resourceVersion"])
    error = await refused(c.delete(api.CONFIG_MAPS, "one", preconditions=old))
    assert isinstance(error, Conflict)
    assert "the ResourceVersion in the precondition" in str(error)
    await c.delete(api.CONFIG_MAPS, "one", preconditions=Preconditions(uid=second["metadata"]["uid"]))


@in_both
async def test_a_finalizer_keeps_a_deleted_object(c: Line) -> None:
    widgets = await widgets_of(c)
    meta = {"name": "one", "finalizers": ["example.com/mine", "example.com/other"]}
    await c.create(widgets, {"metadata": meta, "spec": {"size": 1}})
    await c.delete(widgets, "one")
    leaving = await c.get(widgets, "one")
    assert leaving["metadata"]["deletionTimestamp"].endswith("Z")
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 0
    assert leaving["metadata"]["generation"] == 2
    await c.delete(widgets, "one")
    assert await c.get(widgets, "one") == leaving
    error = await refused(c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": 1}}))
    assert error.reason == "AlreadyExists"
    assert "object is being deleted" in str(error)
    await c.patch(widgets, "one", {"metadata": {"finalizers": ["example.com/other"]}})
    assert (await c.get(widgets, "one"))["metadata"]["finalizers"] == ["example.com/other"]
    last = await c.patch(widgets, "one", {"metadata": {"finalizers": None}})
    assert "finalizers" not in last["metadata"]
    assert isinstance(await refused(c.get(widgets, "one")), NotFound)


@in_both
async def test_an_object_on_its_way_out_takes_no_new_finalizer(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.create(widgets, {"metadata": {"name": "one", "finalizers": ["example.com/mine"]}, "spec": {"size": 1}})
    await c.delete(widgets, "one")
    late = {"metadata": {"finalizers": ["example.com/mine", "example.com/late"]}}
    error = await refused(c.patch(widgets, "one", late))
    assert isinstance(error, Invalid)
    assert causes(error) == {("FieldValueForbidden", "metadata.finalizers")}
    await c.patch(widgets, "one", {"metadata": {"finalizers": []}})


@in_both
async def test_an_object_on_its_way_out_can_still_change(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.create(widgets, {"metadata": {"name": "one", "finalizers": ["example.com/mine"]}, "spec": {"size": 1}})
    await c.delete(widgets, "one")
    assert (await c.patch(widgets, "one", {"spec": {"size": 2}}))["metadata"]["generation"] == 3
    await c.patch(widgets, "one", {"status": {"count": 1}}, subresource="status")
    await c.patch(widgets, "one", {"metadata": {"finalizers": []}})


@in_both
async def test_a_finalizer_has_a_good_name(c: Line) -> None:
    bad = {"metadata": {"name": "one", "finalizers": ["example.com/has space"]}}
    for resource in (api.CONFIG_MAPS, api.LEASES):
        assert causes(await refused(c.create(resource, bad))) == {("FieldValueInvalid", "metadata.finalizers")}
    bare = {"metadata": {"name": "one", "finalizers": ["bare"]}}
    error = await refused(c.create(api.CONFIG_MAPS, bare))
    assert causes(error) == {("FieldValueInvalid", "metadata.finalizers[0]")}
    await c.create(api.LEASES, bare)
    await c.patch(api.LEASES, "one", {"metadata": {"finalizers": None}})


@in_both
async def test_an_unknown_propagation_is_refused(c: Line) -> None:
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    error = await refused(c.delete(api.CONFIG_MAPS, "one", propagation="Sideways"))
    assert isinstance(error, Invalid)
    assert causes(error) == {("FieldValueNotSupported", "propagationPolicy")}


async def a_family(c: Line, *, blocks: bool = False) -> Object:
    """A config map named `child` that a config map named `parent` owns."""
    parent = await c.create(api.CONFIG_MAPS, {"metadata": {"name": "parent"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "parent",
        "uid": parent["metadata"]["uid"],
        **({"blockOwnerDeletion": True} if blocks else {}),
    }
    meta = {"name": "child", "ownerReferences": [reference]}
    await c.create(api.CONFIG_MAPS, {"metadata": meta})
    return reference


@in_both
async def test_dependents_follow_their_owner(c: Line) -> None:
    await a_family(c)
    await c.delete(api.CONFIG_MAPS, "parent")
    assert isinstance(await refused(c.get(api.CONFIG_MAPS, "parent")), NotFound)
    await c.gone(api.CONFIG_MAPS, "child")


@in_both
async def test_in_the_foreground_the_owner_waits_for_its_dependents(c: Line) -> None:
    await a_family(c, blocks=True)
    await c.patch(api.CONFIG_MAPS, "child", {"metadata": {"finalizers": ["example.com/mine"]}})
    await c.delete(api.CONFIG_MAPS, "parent", propagation="Foreground")
    parent = await c.get(api.CONFIG_MAPS, "parent")
    assert parent["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def child_is_leaving() -> bool:
        return "deletionTimestamp" in (await c.get(api.CONFIG_MAPS, "child"))["metadata"]

    await c.eventually(child_is_leaving)
    assert "deletionTimestamp" in (await c.get(api.CONFIG_MAPS, "parent"))["metadata"]
    await c.patch(api.CONFIG_MAPS, "child", {"metadata": {"finalizers": None}})
    await c.gone(api.CONFIG_MAPS, "child")
    await c.gone(api.CONFIG_MAPS, "parent")


@in_both
async def test_orphans_stay_and_forget_their_owner(c: Line) -> None:
    await a_family(c)
    await c.delete(api.CONFIG_MAPS, "parent", propagation="Orphan")
    await c.gone(api.CONFIG_MAPS, "parent")
    assert "ownerReferences" not in (await c.get(api.CONFIG_MAPS, "child"))["metadata"]


@in_both
async def test_an_object_with_another_owner_left_stays(c: Line) -> None:
    reference = await a_family(c)
    other = await c.create(api.CONFIG_MAPS, {"metadata": {"name": "other"}})
    second = {**reference, "name": "other", "uid": other["metadata"]["uid"]}
    await c.patch(api.CONFIG_MAPS, "child", {"metadata": {"ownerReferences": [reference, second]}})
    await c.delete(api.CONFIG_MAPS, "parent")

    async def has_one_owner() -> bool:
        return (await c.get(api.CONFIG_MAPS, "child"))["metadata"]["ownerReferences"] == [second]

    await c.eventually(has_one_owner)


@in_both
async def test_an_object_whose_owner_never_was_goes(c: Line) -> None:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "parent",
        "uid": "00000000-0000-4000-a000-000000000000",
    }
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await c.gone(api.CONFIG_MAPS, "child")


@in_both
async def test_an_owner_reference_is_complete_and_only_one_controls(c: Line) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": "some-uid"}
    for broken in ("apiVersion", "kind", "name", "uid"):
        meta = {"name": "child", "ownerReferences": [{**reference, broken: ""}]}
        assert isinstance(await refused(c.create(api.CONFIG_MAPS, {"metadata": meta})), Invalid), broken
    two = [{**reference, "controller": True}, {**reference, "uid": "other-uid", "controller": True}]
    error = await refused(c.create(api.CONFIG_MAPS, {"metadata": {"name": "child", "ownerReferences": two}}))
    assert causes(error) == {("FieldValueInvalid", "metadata.ownerReferences")}


@in_both
async def test_a_namespace_takes_its_content_along(c: Line) -> None:
    name = c.name("going")
    await c.create(api.NAMESPACES, {"metadata": {"name": name}})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    await c.cluster.create(api.CONFIG_MAPS, body, name, manager="m")
    await c.delete(api.NAMESPACES, name)
    leaving = await c.get(api.NAMESPACES, name)
    assert leaving["status"]["phase"] == "Terminating"
    body["metadata"] = {"name": "two"}
    error = await refused(c.cluster.create(api.CONFIG_MAPS, body, name, manager="m"))
    assert isinstance(error, Forbidden)
    assert causes(error) == {("NamespaceTerminating", "metadata.namespace")}
    assert f"unable to create new content in namespace {name} because it is being terminated" in str(error)
    await c.gone(api.NAMESPACES, name)
    assert await refusal(c.cluster.get(api.CONFIG_MAPS, "one", name)) == 404


@in_both
async def test_system_namespaces_stay(c: Line) -> None:
    assert isinstance(await refused(c.delete(api.NAMESPACES, "kube-system")), Forbidden)


@in_both
async def test_a_running_pod_gets_its_grace_and_a_shorter_one_on_request(c: Line) -> None:
    await c.create(api.PODS, a_pod("one"))
    await c.patch(api.PODS, "one", running(), subresource="status")
    await c.delete(api.PODS, "one")
    leaving = (await c.get(api.PODS, "one"))["metadata"]
    assert (leaving["deletionGracePeriodSeconds"], leaving["generation"]) == (30, 2)
    await c.delete(api.PODS, "one", grace_s=60)
    assert (await c.get(api.PODS, "one"))["metadata"] == leaving
    await c.delete(api.PODS, "one", grace_s=5)
    shorter = (await c.get(api.PODS, "one"))["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert shorter["deletionTimestamp"] < leaving["deletionTimestamp"]
    await c.delete(api.PODS, "one", grace_s=0)
    assert isinstance(await refused(c.get(api.PODS, "one")), NotFound)


@in_both
async def test_a_pods_own_grace_counts(c: Line) -> None:
    await c.create(api.PODS, a_pod("one", terminationGracePeriodSeconds=120))
    await c.patch(api.PODS, "one", running(), subresource="status")
    await c.delete(api.PODS, "one")
    assert (await c.get(api.PODS, "one"))["metadata"]["deletionGracePeriodSeconds"] == 120
    await c.delete(api.PODS, "one", grace_s=0)


@in_both
async def test_a_pod_that_no_node_has_goes_at_once(c: Line) -> None:
    body = a_pod("one")
    del body["spec"]["nodeName"]
    await c.create(api.PODS, body)
    await c.delete(api.PODS, "one")
    assert isinstance(await refused(c.get(api.PODS, "one")), NotFound)


@in_both
async def test_a_finished_pod_goes_at_once(c: Line) -> None:
    await c.create(api.PODS, a_pod("one"))
    await c.patch(api.PODS, "one", {"status": {"phase": "Succeeded"}}, subresource="status")
    await c.delete(api.PODS, "one")
    assert isinstance(await refused(c.get(api.PODS, "one")), NotFound)


@in_both
async def test_a_daemon_set_in_the_foreground_goes_when_nothing_is_left(c: Line) -> None:
    await c.create(api.DAEMON_SETS, a_daemon_set("one"))
    await c.delete(api.DAEMON_SETS, "one", propagation="Foreground")
    await c.gone(api.DAEMON_SETS, "one")
