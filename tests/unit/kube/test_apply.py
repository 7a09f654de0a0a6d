"""Apply only when needed: zero writes when nothing has changed, and a reason in words when something has."""

import asyncio
import copy
from typing import Any

import msgspec

from npu_operator.kube.api import CONFIG_MAPS, Object, Resource
from npu_operator.kube.apply import CHANGED, MISSING, Applier, digest, marked, needs_apply

MARK = "example.com/applied"
WANTED = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "x", "labels": {"a": "b"}},
    "data": {"one": "1", "two": "2"},
}


class Stubborn:
    """A server that keeps what it is sent, but for the fields that it does not know."""

    def __init__(self, *unknown: str) -> None:
        self.unknown = unknown
        self.sent: list[Object] = []

    async def apply(
        self, resource: Resource, body: Object, *, manager: str, force: bool = True, subresource: str | None = None
    ) -> bytes:
        self.sent.append(body)
        live = copy.deepcopy(body)
        live["data"] = {key: value for key, value in live["data"].items() if key not in self.unknown}
        live["metadata"]["resourceVersion"] = str(len(self.sent))
        return msgspec.json.encode(live)


def applied(applier: Applier, wanted: Object = WANTED) -> dict[str, Any]:
    return msgspec.json.decode(asyncio.run(applier.apply(CONFIG_MAPS, wanted)))


def test_an_object_that_is_not_there_is_applied():
    assert needs_apply(WANTED, None, annotation=MARK) == MISSING


def test_an_object_that_is_as_we_left_it_is_left_alone_also_after_a_restart():
    live = applied(Applier(Stubborn(), manager="me", annotation=MARK))
    assert Applier(Stubborn(), manager="me", annotation=MARK).why(WANTED, live) is None


def test_an_edit_of_our_fields_is_reverted_and_named():
    live = applied(Applier(Stubborn(), manager="me", annotation=MARK))
    live["data"]["one"] = "7"
    assert needs_apply(WANTED, live, annotation=MARK) == 'data.one is "7", wanted "1"'


def test_a_field_of_somebody_else_is_left_alone():
    live = applied(Applier(Stubborn(), manager="me", annotation=MARK))
    live["data"]["theirs"] = "3"
    live["metadata"]["annotations"]["theirs"] = "3"
    assert needs_apply(WANTED, live, annotation=MARK) is None


def test_a_field_that_we_want_no_more_is_noticed_though_all_the_rest_is_there():
    live = applied(Applier(Stubborn(), manager="me", annotation=MARK))
    less = {**WANTED, "data": {"one": "1"}}
    assert needs_apply(less, live, annotation=MARK) == CHANGED


def test_an_object_whose_mark_was_removed_is_applied():
    live = applied(Applier(Stubborn(), manager="me", annotation=MARK))
    live["metadata"]["annotations"] = None
    assert needs_apply(WANTED, live, annotation=MARK) == CHANGED


def test_what_the_server_refuses_to_keep_is_applied_once_and_not_for_ever():
    server = Stubborn("two")
    applier = Applier(server, manager="me", annotation=MARK)
    live = applied(applier)
    assert applier.why(WANTED, live) is None
    live["data"]["one"] = "7"
    assert applier.why(WANTED, live) == 'data.one is "7", wanted "1"'
    live["data"] = {"one": "1", "two": "3"}  # kept after all, and edited
    assert applier.why(WANTED, live) == 'data.two is "3", wanted "2"'


def test_what_was_accepted_of_an_older_wish_does_not_excuse_a_new_one():
    applier = Applier(Stubborn("two"), manager="me", annotation=MARK)
    applied(applier)
    newer = {**WANTED, "data": {"two": "2"}}
    live = marked(newer, MARK)
    live["data"] = {}
    assert applier.why(newer, live) == 'data.two is missing, wanted "2"'
    applier.forget(WANTED)
    assert applier.why(WANTED, None) == MISSING


def test_the_mark_lies_beside_our_own_annotations_and_changes_nothing_else():
    wanted = {**WANTED, "metadata": {**WANTED["metadata"], "annotations": {"ours": "1"}}}
    sent = marked(wanted, MARK)
    assert sent["metadata"]["annotations"] == {"ours": "1", MARK: digest(wanted)}
    assert wanted["metadata"]["annotations"] == {"ours": "1"}
    assert marked(wanted, MARK) == sent


def test_the_digest_does_not_depend_on_the_order_of_keys():
    turned = dict(reversed(WANTED.items()))
    assert digest(turned) == digest(WANTED)
    assert digest({**WANTED, "data": {}}) != digest(WANTED)
