"""Lists, pages, selectors and watches."""

from typing import Any

import pytest

from npu_operator.kube import api
from npu_operator.kube.api import Gone, Object
from tests.contract.backends import Line, in_both, refused
from tests.contract.bodies import a_pod, running, widgets_of


async def some(line: Line, /, **labels_of: dict[str, str]) -> None:
    for name, labels in labels_of.items():
        await line.create(api.CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}})


def names(items: list[Object]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


@in_both
async def test_a_list_is_sorted_by_name_and_has_a_version(c: Line) -> None:
    await some(c, b={}, c={}, a={})
    items, version = await c.list(
        api.CONFIG_MAPS, labels="!kubernetes.io/none", fields="metadata.name!=kube-root-ca.crt"
    )
    assert names(items) == ["a", "b", "c"]
    assert int(version) >= max(int(item["metadata"]["resourceVersion"]) for item in items)


@in_both
async def test_pages_are_of_one_state(c: Line) -> None:
    widgets = await widgets_of(c)
    for name in "abcde":
        await c.create(widgets, {"metadata": {"name": name}, "spec": {"size": 1}})
    found: list[str] = []
    versions, continues = set(), []
    async for page in c.cluster.list_pages(widgets, c.namespace, limit=2):
        if not found:
            await c.delete(widgets, "d")
            await c.create(widgets, {"metadata": {"name": "f"}, "spec": {"size": 1}})
        found += [bytes(item).decode().partition('"name":"')[2][0] for item in page.items]
        versions.add(page.resource_version)
        continues.append(page.continues)
    assert found == ["a", "b", "c", "d", "e"]
    assert len(versions) == 1
    assert continues == [True, True, False]


@in_both
async def test_items_of_built_in_kinds_leave_their_type_to_the_list(c: Line) -> None:
    widgets = await widgets_of(c)
    await some(c, a={"t": "1"})
    await c.create(widgets, {"metadata": {"name": "a"}, "spec": {"size": 1}})
    (built_in,), _ = await c.list(api.CONFIG_MAPS, labels="t")
    (custom,), _ = await c.list(widgets)
    assert "kind" not in built_in
    assert (custom["kind"], custom["apiVersion"]) == (widgets.kind, widgets.api_version)


@in_both
async def test_label_selectors(c: Line) -> None:
    await some(
        c,
        one={"t": "1", "color": "red", "n": "5"},
        two={"t": "1", "color": "blue"},
        three={"t": "1", "size": "", "n": "15"},
    )
    for selector, wanted in {
        "t=1": ["one", "three", "two"],
        "t==1,color=red": ["one"],
        "t,color!=red": ["three", "two"],
        "t,color": ["one", "two"],
        "t,!color": ["three"],
        "t,color in (red, blue)": ["one", "two"],
        "t,color notin (red)": ["three", "two"],
        "t,size=": ["three"],
        "t,size in ()": ["three"],
        "t,n>7": ["three"],
        "t,n<7": ["one"],
        "t=2": [],
    }.items():
        items, _ = await c.list(api.CONFIG_MAPS, labels=selector)
        assert names(items) == wanted, selector


@pytest.mark.parametrize(
    ("selectors", "words"),
    [
        ({"labels": "a in (b"}, "unable to parse requirement: found '', expected: ',' or ')'"),
        ({"labels": "a=b,,c"}, "found ',', expected: identifier after ','"),
        ({"labels": "x=1=2"}, "found '=', expected: ',' or 'end of string'"),
        ({"labels": "a b=c"}, "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ({"labels": "a=" + "y" * 64}, "must be no more than 63 characters"),
        ({"labels": "a b/c"}, "unable to parse requirement"),
        (
            {"fields": "spec.foo=x"},
            '"spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ({"fields": "metadata.name"}, "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
    ],
)
def test_a_selector_that_cannot_be_read_is_a_bad_request(backend, selectors: dict[str, str], words: str) -> None:
    async def scenario(c: Line) -> None:
        error = await refused(c.list(api.CONFIG_MAPS, **selectors))
        assert (error.status, error.reason) == (400, "BadRequest")
        assert words in str(error)

    backend.run(scenario)


@in_both
async def test_field_selectors(c: Line) -> None:
    await c.create(api.PODS, a_pod("one"))
    await c.create(api.PODS, a_pod("two", nodeName="contract-elsewhere"))
    await c.patch(api.PODS, "two", running(), subresource="status")
    for selector, wanted in {
        "metadata.name=one": ["one"],
        "metadata.name!=one": ["two"],
        f"metadata.namespace={c.namespace},metadata.name=two": ["two"],
        "metadata.namespace=elsewhere": [],
        "spec.nodeName=contract-elsewhere": ["two"],
        "spec.nodeName!=contract-elsewhere": ["one"],
        "status.phase=Pending": ["one"],
        "status.phase=Running,spec.nodeName=contract-elsewhere": ["two"],
    }.items():
        items, _ = await c.list(api.PODS, fields=selector)
        assert names(items) == wanted, selector
    for name in ("one", "two"):
        await c.delete(api.PODS, name, grace_s=0)


@in_both
async def test_a_field_that_pods_do_not_have_cannot_be_selected(c: Line) -> None:
    error = await refused(c.list(api.PODS, fields="spec.foo=x"))
    assert (error.status, error.reason) == (400, "BadRequest")
    assert "field label not supported: spec.foo" in str(error)


@in_both
async def test_custom_objects_can_only_be_selected_by_name(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.create(widgets, {"metadata": {"name": "a"}, "spec": {"size": 1}})
    assert names((await c.list(widgets, fields="metadata.name=a"))[0]) == ["a"]
    error = await refused(c.list(widgets, fields="spec.size=1"))
    assert (error.status, error.reason) == (400, "BadRequest")


@in_both
async def test_a_watch_tells_what_happens_after_its_version(c: Line) -> None:
    await some(c, before={})
    _, version = await c.list(api.CONFIG_MAPS)
    await some(c, meanwhile={})
    async with c.watch(api.CONFIG_MAPS, version) as stream:
        type_, body = await stream.next()
        assert (type_, body["metadata"]["name"], body["kind"]) == ("ADDED", "meanwhile", "ConfigMap")
        patched = await c.patch(api.CONFIG_MAPS, "before", {"data": {"a": "1"}})
        assert await stream.next() == ("MODIFIED", patched)
        await c.delete(api.CONFIG_MAPS, "before")
        type_, body = await stream.next()
        assert (type_, body["data"]) == ("DELETED", {"a": "1"})
        assert int(body["metadata"]["resourceVersion"]) > int(patched["metadata"]["resourceVersion"])


@in_both
async def test_a_watch_sees_its_own_namespace_only(c: Line) -> None:
    _, version = await c.list(api.SECRETS)
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "contract-"}}
    elsewhere = await c.cluster.create(api.SECRETS, body, "default", manager="m")
    await c.create(api.SECRETS, {"metadata": {"name": "here"}})
    async with c.watch(api.SECRETS, version) as stream:
        _, found = await stream.next()
    assert found["metadata"]["name"] == "here"
    assert b"contract-" in elsewhere


@in_both
async def test_objects_enter_and_leave_a_selected_watch(c: Line) -> None:
    await some(c, one={})
    _, version = await c.list(api.CONFIG_MAPS)
    async with c.watch(api.CONFIG_MAPS, version, labels="w=1") as stream:
        entered = await c.patch(api.CONFIG_MAPS, "one", {"metadata": {"labels": {"w": "1"}}})
        assert await stream.next() == ("ADDED", entered)
        changed = await c.patch(api.CONFIG_MAPS, "one", {"data": {"a": "1"}})
        assert await stream.next() == ("MODIFIED", changed)
        left = await c.patch(api.CONFIG_MAPS, "one", {"metadata": {"labels": {"w": "2"}}, "data": {"a": "2"}})
        type_, body = await stream.next()
        assert type_ == "DELETED"
        assert body["metadata"]["labels"] == {"w": "1"}
        assert body["data"] == {"a": "1"}
        assert body["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
        await c.patch(api.CONFIG_MAPS, "one", {"data": {"a": "3"}})
        await c.create(api.CONFIG_MAPS, {"metadata": {"name": "two", "labels": {"w": "1"}}})
        type_, body = await stream.next()
        assert (type_, body["metadata"]["name"]) == ("ADDED", "two")


@in_both
async def test_a_watch_of_one_name_sees_no_other(c: Line) -> None:
    _, version = await c.list(api.CONFIG_MAPS)
    await some(c, other={}, mine={})
    async with c.watch(api.CONFIG_MAPS, version, fields="metadata.name=mine") as stream:
        _, body = await stream.next()
    assert body["metadata"]["name"] == "mine"


@in_both
async def test_a_watch_from_nowhere_begins_with_what_there_is(c: Line) -> None:
    widgets = await widgets_of(c)
    await c.create(widgets, {"metadata": {"name": "a"}, "spec": {"size": 1}})
    for version in ("", "0"):
        async with c.watch(widgets, version) as stream:
            type_, body = await stream.next()
        assert (type_, body["metadata"]["name"]) == ("ADDED", "a")


@in_both
async def test_a_watch_from_before_the_history_is_gone(c: Line) -> None:
    widgets = await widgets_of(c)
    made = await c.create(widgets, {"metadata": {"name": "a"}, "spec": {"size": 1}})
    assert int(made["metadata"]["resourceVersion"]) > 1
    async with c.watch(widgets, "1") as stream:
        error = await refused(stream.next())
    assert isinstance(error, Gone)
    assert error.reason == "Expired"
    assert "too old resource version: 1 (" in str(error)


@in_both
async def test_a_version_that_is_no_number_is_refused(c: Line) -> None:
    async with c.watch(api.CONFIG_MAPS, "abc") as stream:
        error = await refused(stream.next())
    assert error.status == 500


@in_both
async def test_a_watch_ends_in_peace_after_its_time_with_a_bookmark(c: Line) -> None:
    widgets = await widgets_of(c)
    _, version = await c.list(widgets)
    await c.create(widgets, {"metadata": {"name": "a"}, "spec": {"size": 1}})
    seen: list[tuple[str, Any]] = []
    # A real server looks for bookmarks that are due once a second; with 10 s the one before the end is never missed.
    async with c.watch(widgets, version, timeout_s=10) as stream:
        async for event in stream.until_the_end():
            seen.append(event)
    types = [type_ for type_, _ in seen]
    assert types[0] == "ADDED"
    assert set(types[1:]) <= {"BOOKMARK"}
    last = seen[-1][1]
    assert int(last["metadata"]["resourceVersion"]) >= int(seen[0][1]["metadata"]["resourceVersion"])


@in_both
async def test_an_unknown_kind_cannot_be_watched(c: Line) -> None:
    unknown = api.Resource("nobody.example.com", "v1", "things", "Thing")
    async with c.watch(unknown, "1") as stream:
        error = await refused(stream.next())
    assert (error.status, error.reason) == (404, "")
