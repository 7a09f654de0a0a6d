"""The status sub-resource, and what counts as a new generation."""

from npu_operator.kube import api
from npu_operator.kube.api import NotFound
from tests.contract.backends import Line, in_both, refused
from tests.contract.bodies import a_daemon_set, a_pod, running, widgets_of


@in_both
async def test_status_cannot_be_written_through_the_main_path(c: Line) -> None:
    widgets = await widgets_of(c)
    made = await c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": 1}, "status": {"count": 1}})
    assert "status" not in made
    patched = await c.patch(widgets, "one", {"status": {"count": 2}})
    assert "status" not in patched
    assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@in_both
async def test_only_status_can_be_written_through_the_status_path(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": 1}})
    patch = {"spec": {"size": 2}, "status": {"count": 2}, "metadata": {"labels": {"a": "b"}}}
    patched = await c.patch(widgets, "one", patch, subresource="status")
    assert patched["spec"]["size"] == 1
    assert patched["status"] == {"count": 2}
    assert "labels" not in patched["metadata"]


@in_both
async def test_labels_of_a_built_in_object_can_be_written_through_the_status_path(c: Line) -> None:
    await c.create(api.DAEMON_SETS, a_daemon_set("one"))
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"minReadySeconds": 5}, "status": {"numberReady": 3}}
    patched = await c.patch(api.DAEMON_SETS, "one", patch, subresource="status")
    assert patched["metadata"]["labels"] == {"a": "b"}
    assert "minReadySeconds" not in patched["spec"]
    assert patched["status"]["numberReady"] == 3


@in_both
async def test_a_kind_without_the_sub_resource_has_no_status_path(c: Line) -> None:
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "one"}})
    error = await refused(c.patch(api.CONFIG_MAPS, "one", {"status": {}}, subresource="status"))
    assert isinstance(error, NotFound)


@in_both
async def test_without_the_sub_resource_status_is_a_field_like_others(c: Line) -> None:
    widgets = await widgets_of(c, has_status=False)
    made = await c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": 1}, "status": {"count": 1}})
    assert made["status"] == {"count": 1}
    patched = await c.patch(widgets, "one", {"status": {"count": 2}})
    assert patched["status"] == {"count": 2}
    assert patched["metadata"]["generation"] == 2


@in_both
async def test_a_new_generation_is_a_change_of_the_spec_only(c: Line) -> None:
    widgets = await widgets_of(c)
    made = await c.create(widgets, {"metadata": {"name": "one"}, "spec": {"size": 1}})
    assert made["metadata"]["generation"] == 1
    labelled = await c.patch(widgets, "one", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    told = await c.patch(widgets, "one", {"status": {"count": 1}}, subresource="status")
    assert told["metadata"]["generation"] == 1
    resized = await c.patch(widgets, "one", {"spec": {"size": 2}})
    assert resized["metadata"]["generation"] == 2


@in_both
async def test_a_daemon_set_counts_its_templates_too(c: Line) -> None:
    made = await c.create(api.DAEMON_SETS, a_daemon_set("one"))
    key = "deprecated.daemonset.template.generation"
    assert (made["metadata"]["generation"], made["metadata"]["annotations"][key]) == (1, "1")
    slower = await c.patch(api.DAEMON_SETS, "one", {"spec": {"minReadySeconds": 5}})
    assert (slower["metadata"]["generation"], slower["metadata"]["annotations"][key]) == (2, "1")
    template = {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}
    changed = await c.patch(api.DAEMON_SETS, "one", template)
    assert (changed["metadata"]["generation"], changed["metadata"]["annotations"][key]) == (3, "2")


@in_both
async def test_nodes_have_no_generation(c: Line) -> None:
    name = c.name("node")
    made = await c.create(api.NODES, {"metadata": {"name": name}})
    cordoned = await c.patch(api.NODES, name, {"spec": {"unschedulable": True}})
    assert "generation" not in made["metadata"]
    assert "generation" not in cordoned["metadata"]
    await c.delete(api.NODES, name)


@in_both
async def test_a_node_that_can_be_scheduled_says_nothing_about_it(c: Line) -> None:
    name = c.name("node")
    await c.create(api.NODES, {"metadata": {"name": name}})
    same = await c.patch(api.NODES, name, {"spec": {"unschedulable": False}})
    assert "unschedulable" not in same["spec"]
    assert (await c.patch(api.NODES, name, {"spec": {"unschedulable": True}}))["spec"]["unschedulable"] is True
    assert "unschedulable" not in (await c.patch(api.NODES, name, {"spec": {"unschedulable": None}}))["spec"]
    await c.delete(api.NODES, name)


@in_both
async def test_a_new_node_is_not_ready_for_pods(c: Line) -> None:
    name = c.name("node")
    made = await c.create(api.NODES, {"metadata": {"name": name}, "status": {"capacity": {"cpu": "4000m"}}})
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert made["status"]["capacity"] == made["status"]["allocatable"] == {"cpu": "4"}
    await c.delete(api.NODES, name)


@in_both
async def test_a_pods_status_is_pending_at_first_and_its_generation_counts(c: Line) -> None:
    made = await c.create(api.PODS, {**a_pod("one"), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"
    assert made["metadata"]["generation"] == 1
    told = await c.patch(api.PODS, "one", running(), subresource="status")
    assert told["status"]["phase"] == "Running"
    assert told["metadata"]["generation"] == 1
    await c.delete(api.PODS, "one", grace_s=0)
