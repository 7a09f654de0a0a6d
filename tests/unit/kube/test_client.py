"""What the client sends, and what it makes of the answers."""

import asyncio
import socket

import httpx2
import msgspec
import pytest

from npu_operator.kube import api
from npu_operator.kube.api import CONFIG_MAPS, DAEMON_SETS, LEASES, NODES, PODS, ApiError, Preconditions, Unreachable
from npu_operator.sim.clock import VirtualClock
from tests.unit.kube.scripted import (
    Server,
    a_long_watch,
    a_page,
    a_status,
    a_watch,
    an_object,
    answer,
    bookmark,
    cluster_of,
    hangs,
    line,
    refusal,
    run,
)


def body_of(request: httpx2.Request) -> object:
    return msgspec.json.decode(request.content)


async def error_of(awaitable) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await awaitable
    return caught.value


async def pages(cluster, *arguments, **options):
    return [page async for page in cluster.list_pages(*arguments, **options)]


async def events(cluster, **options):
    found = []
    try:
        async for event in cluster.watch(NODES, resource_version="5", timeout_s=300, **options):
            found.append((event.type, msgspec.json.decode(event.object)["metadata"].get("name")))
    except ApiError as error:
        found.append(error)
    return found


def test_each_verb_is_sent_as_kubernetes_wants_it():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        cluster = cluster_of(server, clock)
        server.on("get", answer({}))
        server.on("POST", answer({}, 201), answer({}, 201))
        server.on("PATCH", answer({}), answer({}))
        server.on("DELETE", answer({}))
        await cluster.get(NODES, "a7")
        await cluster.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "x", manager="me")
        await cluster.apply(DAEMON_SETS, {"metadata": {"name": "d", "namespace": "x"}}, manager="me")
        await cluster.patch(NODES, "a7", {"status": {}}, manager="me", subresource="status")
        await cluster.delete(PODS, "p", "x", preconditions=Preconditions(uid="u"), grace_s=0)
        await cluster.evict("p", "x", uid="u")
        get, create, apply, patch, delete, evict = server.requests
        assert (get.method, get.url.path) == ("GET", "/api/v1/nodes/a7")
        assert (create.method, create.url.path) == ("POST", "/api/v1/namespaces/x/configmaps")
        assert create.url.params["fieldManager"] == "me"
        assert apply.url.path == "/apis/apps/v1/namespaces/x/daemonsets/d"
        assert apply.headers["Content-Type"] == "application/apply-patch+yaml"
        assert dict(apply.url.params) == {"fieldManager": "me", "force": "true"}
        assert patch.url.path == "/api/v1/nodes/a7/status"
        assert patch.headers["Content-Type"] == "application/merge-patch+json"
        assert body_of(delete) == {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u"},
        }
        assert evict.url.path == "/api/v1/namespaces/x/pods/p/eviction"
        assert body_of(evict) == {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "p", "namespace": "x"},
            "deleteOptions": {"preconditions": {"uid": "u"}},
        }

    run(main)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (401, api.Unauthorized),
        (403, api.Forbidden),
        (404, api.NotFound),
        (409, api.Conflict),
        (410, api.Gone),
        (422, api.Invalid),
        (429, api.TooManyRequests),
        (500, ApiError),
        (302, ApiError),
    ],
)
def test_a_refusal_is_the_exception_of_its_code(code, expected):
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("PATCH", refusal(code, "because", reason="Why"))
        error = await error_of(cluster_of(server, clock).patch(NODES, "a7", {}, manager="me"))
        assert type(error) is expected
        assert (error.status, error.reason) == (code, "Why")
        assert str(error).startswith("patch nodes a7: ")

    run(main)


def test_a_missing_right_is_named_with_verb_and_resource():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        said = 'nodes "a7" is forbidden: User "u" cannot patch resource "nodes/status" in API group "" at all'
        server.on("PATCH", refusal(403, said, reason="Forbidden"))
        cluster = cluster_of(server, clock)
        error = await error_of(cluster.patch(NODES, "a7", {}, manager="me", subresource="status"))
        assert str(error) == f"patch nodes/status a7: forbidden: {said}; needs verb patch on nodes/status"

    run(main)


def test_a_refusal_by_a_policy_does_not_speak_of_rights():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("PATCH", refusal(403, "policy says no", reason="Forbidden"))
        error = await error_of(cluster_of(server, clock).patch(NODES, "a7", {}, manager="me"))
        assert str(error) == "patch nodes a7: forbidden: policy says no"

    run(main)


def test_a_resource_that_is_not_installed_is_called_so():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("list", answer(b"404 page not found\n", 404))
        error = await error_of(pages(cluster_of(server, clock), DAEMON_SETS))
        assert isinstance(error, api.NotFound)
        assert "list daemonsets.apps: the server has no such resource" in str(error)

    run(main)


def test_an_error_page_of_a_proxy_is_cut_short():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("PATCH", answer(b"<html>" + b"very sorry " * 1000, 502))
        error = await error_of(cluster_of(server, clock).patch(NODES, "a7", {}, manager="me"))
        assert len(str(error)) < 400

    run(main)


def test_an_answer_from_something_else_is_no_success():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("list", answer(b"<html>Please log in</html>"))
        error = await error_of(pages(cluster_of(server, clock), NODES))
        assert "not from an API server" in str(error)

    run(main)


def test_a_list_comes_in_pages_of_one_version():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("list", a_page(an_object("a", 3), version=9, more="t1"), a_page(an_object("b", 4), version=9))
        found = await pages(cluster_of(server, clock), NODES, labels="x=y", limit=1)
        assert [(len(page.items), page.resource_version, page.continues) for page in found] == [
            (1, "9", True),
            (1, "9", False),
        ]
        first, second = server.requests
        assert dict(first.url.params) == {"limit": "1", "labelSelector": "x=y"}
        assert dict(second.url.params) == {"limit": "1", "labelSelector": "x=y", "continue": "t1"}

    run(main)


def test_an_expired_page_is_gone():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("list", a_page(an_object("a", 3), version=9, more="t1"), refusal(410, "expired", reason="Expired"))
        assert isinstance(await error_of(pages(cluster_of(server, clock), NODES)), api.Gone)

    run(main)


def test_a_watch_is_split_into_events_wherever_the_chunks_break():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        stream = line("ADDED", an_object("a", 6)) + line("MODIFIED", an_object("ä", 7)) + b"\n" + bookmark(8)
        for size in (1, 7, len(stream)):
            server.on("watch", a_watch(*(stream[at : at + size] for at in range(0, len(stream), size))))
            found = await events(cluster_of(server, clock))
            assert found == [("ADDED", "a"), ("MODIFIED", "ä"), ("BOOKMARK", None)]
        assert dict(server.requests[0].url.params) == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "5",
            "timeoutSeconds": "300",
        }

    run(main)


@pytest.mark.parametrize(("code", "expected"), [(410, api.Gone), (500, ApiError), (403, api.Forbidden)])
def test_an_error_event_is_raised_as_what_its_status_says(code, expected):
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("watch", a_watch(line("ADDED", an_object("a", 6)), line("ERROR", a_status(code, "too old"))))
        first, error = await events(cluster_of(server, clock))
        assert first == ("ADDED", "a")
        assert type(error) is expected
        assert "watch nodes: " in str(error)
        assert "too old" in str(error)

    run(main)


def test_a_watch_refused_with_410_is_gone():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("watch", refusal(410, "too old resource version", reason="Expired"))
        (error,) = await events(cluster_of(server, clock))
        assert isinstance(error, api.Gone)

    run(main)


def test_a_watch_that_breaks_is_unreachable():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("watch", a_watch(line("ADDED", an_object("a", 6)), then="reset"))
        first, error = await events(cluster_of(server, clock))
        assert first == ("ADDED", "a")
        assert isinstance(error, Unreachable)
        assert "connection reset by peer" in str(error)

    run(main)


def test_a_watch_that_the_server_forgets_to_end_ends_soon_after():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("watch", a_watch(then="silence"))
        (error,) = await events(cluster_of(server, clock))
        assert isinstance(error, Unreachable)
        assert 300 < clock.monotonic() < 310

    run(main)


def test_a_request_that_gets_no_answer_ends_after_its_time_out():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("PATCH", hangs())
        error = await error_of(cluster_of(server, clock).patch(NODES, "a7", {}, manager="me"))
        assert str(error) == "patch nodes a7: no answer within 30 s"
        assert clock.monotonic() == 30

    run(main)


def test_reads_are_tried_again_and_writes_are_not():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        cluster = cluster_of(server, clock)
        server.on("get", refusal(500), httpx2.RemoteProtocolError("hung up"), answer({"a": 1}))
        assert await cluster.get(NODES, "a7") == b'{"a":1}'
        server.on("PATCH", httpx2.RemoteProtocolError("hung up"))
        assert isinstance(await error_of(cluster.patch(NODES, "a7", {}, manager="me")), Unreachable)
        assert len(server.asked("PATCH")) == 1

    run(main)


def test_reads_are_given_up_after_three_tries():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("get", refusal(503), refusal(503), refusal(503, "still no"))
        error = await error_of(cluster_of(server, clock).get(NODES, "a7"))
        assert (error.status, len(server.requests)) == (503, 3)
        assert clock.monotonic() < 2

    run(main)


def test_a_refused_connection_is_told_at_once():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        server.on("get", httpx2.ConnectError("connection refused"))
        error = await error_of(cluster_of(server, clock).get(NODES, "a7"))
        assert isinstance(error, Unreachable)
        assert str(error) == "get nodes a7: no answer: connection refused"

    run(main)


def test_too_many_requests_slow_down_everybody_but_the_lease():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        cluster = cluster_of(server, clock)
        server.on("PATCH", refusal(429, **{"Retry-After": "4"}), answer({}), answer({}))
        error = await error_of(cluster.patch(NODES, "a7", {}, manager="me"))
        assert error.retry_after_s == 4
        await cluster.patch(LEASES, "l", {}, "x", manager="me")
        assert clock.monotonic() == 0
        await cluster.patch(NODES, "a8", {}, manager="me")
        assert 4 <= clock.monotonic() < 5

    run(main)


def test_a_disruption_budget_slows_nobody_down():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        cluster = cluster_of(server, clock)
        details = {
            "retryAfterSeconds": 10,
            "causes": [{"reason": "DisruptionBudget", "message": "The disruption budget b …"}],
        }
        server.on("POST", refusal(429, details=details, **{"Retry-After": "10"}))
        server.on("PATCH", answer({}))
        error = await error_of(cluster.evict("p", "x"))
        assert isinstance(error, api.TooManyRequests)
        assert error.retry_after_s == 10
        await cluster.patch(NODES, "a7", {}, manager="me")
        assert clock.monotonic() == 0

    run(main)


def test_only_so_many_requests_run_at_once_and_watches_come_on_top():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        cluster = cluster_of(server, clock)
        server.on("watch", a_long_watch(), a_long_watch())
        server.on("PATCH", *(hangs(1.0) for _ in range(64)))
        watches = [asyncio.create_task(events(cluster)) for _ in range(2)]
        await asyncio.gather(*(cluster.patch(NODES, f"a{n}", {}, manager="me") for n in range(64)))
        assert clock.monotonic() == 2.0
        assert len(server.asked("watch")) == 2
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    run(main)


def test_a_lease_is_renewed_however_many_writes_wait():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        cluster = cluster_of(server, clock)
        server.on("PATCH", *(hangs(20.0) for _ in range(32)), answer({}), *(answer({}) for _ in range(32)))
        writes = [asyncio.create_task(cluster.patch(NODES, f"a{n}", {}, manager="me")) for n in range(64)]
        await asyncio.sleep(1)
        await cluster.patch(LEASES, "l", {}, "x", manager="me")
        assert clock.monotonic() == 1
        await asyncio.gather(*writes)

    run(main)


def test_the_words_of_the_system_are_kept():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        unknown = httpx2.ConnectError("[Errno -2] Name or service not known")
        unknown.__cause__ = socket.gaierror(-2, "Name or service not known")
        server.on("PATCH", unknown, httpx2.ConnectTimeout(""), httpx2.ReadTimeout(""))
        said = [str(await error_of(cluster_of(server, clock).patch(NODES, "a7", {}, manager="m"))) for _ in range(3)]
        assert said == [
            "patch nodes a7: no answer: name or service not known",
            "patch nodes a7: no answer: the server's address does not react",
            "patch nodes a7: no answer in time",
        ]

    run(main)


def test_requests_are_counted_by_verb_resource_and_code():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        cluster = cluster_of(server, clock)
        server.on("PATCH", answer({}), answer({}), refusal(409), httpx2.ConnectError("no"))
        for _ in range(4):
            try:
                await cluster.patch(NODES, "a7", {}, manager="me", subresource="status")
            except ApiError:
                continue
        counted = {(call.verb, call.resource, call.code): number for call, number in cluster.calls}
        assert counted == {
            ("patch", "nodes/status", 0): 1,
            ("patch", "nodes/status", 200): 2,
            ("patch", "nodes/status", 409): 1,
        }
        assert cluster.calls.total("patch") == cluster.calls.total() == 4
        assert cluster.calls.total("get") == 0

    run(main)


@pytest.mark.parametrize("name", ["../secrets", "a/b", "", "..", "a?watch=true", "a%2fb"])
def test_a_name_that_leads_elsewhere_is_refused_before_it_is_sent(name):
    async def main(clock: VirtualClock) -> None:
        server = Server()
        error = await error_of(cluster_of(server, clock).get(NODES, name))
        assert isinstance(error, api.Invalid)
        assert server.requests == []

    run(main)


def test_a_closed_client_says_so():
    async def main(clock: VirtualClock) -> None:
        cluster = cluster_of(Server(), clock)
        await cluster.close()
        error = await error_of(cluster.get(NODES, "a7"))
        assert isinstance(error, Unreachable)
        assert "closed" in str(error)

    run(main)


def test_the_connection_is_given_back_when_a_reader_stops_in_the_middle():
    async def main(clock: VirtualClock) -> None:
        closed = []

        class Body(httpx2.AsyncByteStream):
            async def __aiter__(self):
                yield line("ADDED", an_object("a", 6))
                await asyncio.sleep(1000)

            async def aclose(self) -> None:
                closed.append(clock.monotonic())

        server = Server()
        server.on("watch", httpx2.Response(200, stream=Body()))
        stream = cluster_of(server, clock).watch(NODES, resource_version="5", timeout_s=300)
        await anext(stream)
        await stream.aclose()
        assert closed == [0.0]

    run(main)


def test_the_time_is_learnt_from_each_answer():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        cluster = cluster_of(server, clock)
        server.on("get", answer({}, Date="Thu, 01 Jan 2026 12:00:00 GMT"))
        await cluster.get(NODES, "a7")
        assert cluster._clock.now() == pytest.approx(1_767_225_600 + 12 * 3600, abs=1)

    run(main)
