"""A user's line to the simulated server: time, faults, hooks, log and watches that go wrong."""

import asyncio
from typing import Any

import msgspec
import pytest

from npu_operator.kube import api
from npu_operator.kube.answers import Ask
from npu_operator.kube.api import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    TooManyRequests,
    Unreachable,
    WatchEvent,
)
from npu_operator.sim.client import SimClient
from npu_operator.sim.cluster import SimCluster
from npu_operator.sim.faults import Faults, Rates, Scripted
from npu_operator.sim.server.access import User, service_account
from tests.sim.builders import in_cluster

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}


async def make(client: SimClient, name: str = "one") -> None:
    body = {**MAP, "metadata": {"name": name}}
    await client.create(api.CONFIG_MAPS, body, "default", manager="test")


async def touch(client: SimClient, value: str, name: str = "one") -> None:
    await client.patch(api.CONFIG_MAPS, name, {"data": {"a": value}}, "default", manager="test")


def value(cluster: SimCluster, name: str = "one") -> str | None:
    found = cluster.find(api.CONFIG_MAPS, name, "default")
    return found.get("data", {}).get("a") if found is not None else None


async def refused(call: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await call
    return caught.value


def test_an_answer_takes_time_and_is_the_servers_bytes() -> None:
    async def test(cluster: SimCluster) -> None:
        client = cluster.client()
        before_s = cluster.clock.monotonic()
        await make(client)
        assert cluster.clock.monotonic() > before_s
        found = msgspec.json.decode(await client.get(api.CONFIG_MAPS, "one", "default"))
        assert (found["kind"], found["metadata"]["name"]) == ("ConfigMap", "one")

    in_cluster(test)


@pytest.mark.parametrize(
    ("fault", "class_", "status", "is_written"),
    [
        ("too_many_requests", TooManyRequests, 429, False),
        ("conflict", Conflict, 409, False),
        ("server_error", ApiError, 500, False),
        ("refused", Unreachable, 0, False),
        ("lost_answer", Unreachable, 0, True),
    ],
)
def test_each_fault_has_its_effect(fault: str, class_: type[ApiError], status: int, is_written: bool) -> None:
    async def test(cluster: SimCluster) -> None:
        await make(cluster.client())
        client = cluster.client(faults=Faults(script=[Scripted(fault, verb="patch")]))
        error = await refused(touch(client, "1"))
        assert type(error) is class_
        assert error.status == status
        assert "patch configmaps default/one" in str(error)
        assert value(cluster) == ("1" if is_written else None)
        await touch(client, "2")
        assert value(cluster) == "2"

    in_cluster(test)


def test_slow_down_says_for_how_long() -> None:
    async def test(cluster: SimCluster) -> None:
        client = cluster.client(faults=Faults(script=[Scripted("too_many_requests")]))
        error = await refused(make(client))
        assert error.retry_after_s == 1

    in_cluster(test)


def test_a_lost_answer_is_waited_for_as_long_as_the_real_client_waits() -> None:
    async def test(cluster: SimCluster) -> None:
        client = cluster.client(faults=Faults(script=[Scripted("lost_answer")]))
        before_s = cluster.clock.monotonic()
        await refused(make(client))
        assert cluster.clock.monotonic() - before_s == pytest.approx(30, abs=0.1)

    in_cluster(test)


def test_a_script_hits_the_call_it_names() -> None:
    async def test(cluster: SimCluster) -> None:
        script = [Scripted("conflict", verb="patch", resource="configmaps", name="two", nth=2, times=2)]
        client = cluster.client(faults=Faults(script=script))
        await make(client)
        await make(client, "two")
        outcomes = []
        for _ in range(4):
            await touch(client, "x", "one")
            try:
                await touch(client, "x", "two")
            except Conflict:
                outcomes.append("conflict")
            else:
                outcomes.append("fine")
        assert outcomes == ["fine", "conflict", "conflict", "fine"]

    in_cluster(test)


def test_faults_by_chance_come_from_the_seed_and_stop_when_calm() -> None:
    async def outcomes(cluster: SimCluster, faults: Faults) -> list[int]:
        client = cluster.client(faults=faults)
        found = []
        for number in range(60):
            try:
                await touch(client, str(number))
            except ApiError as error:
                found.append(error.status)
            else:
                found.append(200)
        return found

    async def test(cluster: SimCluster) -> None:
        await make(cluster.client())
        rates = Rates(conflict=0.2, server_error=0.1, lost_answer=0.1)
        first, second, other = [await outcomes(cluster, Faults(rates, seed=seed)) for seed in (5, 5, 6)]
        assert first == second != other
        assert {200, 409, 500, 0} <= set(first) | set(other)
        calm = Faults(rates, seed=5)
        calm.calm()
        assert set(await outcomes(cluster, calm)) == {200}

    in_cluster(test)


def test_a_server_that_is_down_refuses_everything_until_it_is_back() -> None:
    async def test(cluster: SimCluster) -> None:
        client = cluster.client(faults=Faults())
        client.faults.is_down = True
        assert type(await refused(make(client))) is Unreachable
        client.faults.is_down = False
        await make(client)

    in_cluster(test)


def test_a_closed_client_reaches_nobody() -> None:
    async def test(cluster: SimCluster) -> None:
        client = cluster.client()
        await client.close()
        assert type(await refused(make(client))) is Unreachable
        assert value(cluster) is None

    in_cluster(test)


class Killed(BaseException):
    """A process dies."""


@pytest.mark.parametrize(("hook", "is_written"), [("before_write", False), ("after_write", True)])
def test_a_process_can_die_before_or_after_a_write(hook: str, is_written: bool) -> None:
    seen: list[str] = []

    def die(ask: Ask) -> None:
        seen.append(str(ask))
        if len(seen) == 2:
            raise Killed

    async def test(cluster: SimCluster) -> None:
        client = cluster.client(**{hook: die})  # type: ignore[arg-type]
        await make(client)
        with pytest.raises(Killed):
            await touch(client, "1")
        assert value(cluster) == ("1" if is_written else None)
        assert seen == ["create configmaps default/one", "patch configmaps default/one"]

    in_cluster(test)


def test_a_refused_write_is_no_write_for_the_hooks() -> None:
    asks: list[Ask] = []

    async def test(cluster: SimCluster) -> None:
        client = cluster.client(User("nobody"), before_write=asks.append)
        assert type(await refused(make(client))) is Forbidden
        assert asks == []

    in_cluster(test)


def test_every_call_is_counted_with_its_answer() -> None:
    async def test(cluster: SimCluster) -> None:
        client = cluster.client(User("somebody", ("system:masters",)))
        await make(client)
        await refused(make(client))
        await touch(client, "1")
        await refused(client.get(api.CONFIG_MAPS, "none", "default"))
        async for _ in client.list_pages(api.CONFIG_MAPS):
            pass
        log = cluster.clients.log
        assert log.count(user="somebody") == 5
        assert log.count("create", user="somebody", code=201) == 1
        assert log.count("create", user="somebody", code=409) == 1
        assert log.count(user="somebody", refused=True) == 2
        assert log.writes(user="somebody") == 3
        assert log.count("patch", resource="configmaps") == 1
        assert [call.ask.verb for call in log if call.user == "somebody"] == [
            "create",
            "create",
            "patch",
            "get",
            "list",
        ]

    in_cluster(test)


def test_an_account_has_the_rights_of_its_roles_and_no_more() -> None:
    async def test(cluster: SimCluster) -> None:
        client = cluster.client(service_account("default", "agent"))
        assert type(await refused(make(client))) is Forbidden
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maker"}
        subject = {"kind": "ServiceAccount", "name": "agent", "namespace": "default"}
        await cluster.apply(
            [
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "metadata": {"name": "maker"},
                    "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}],
                },
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": "maker"},
                    "roleRef": reference,
                    "subjects": [subject],
                },
            ]
        )
        await make(client)
        assert type(await refused(touch(client, "1"))) is Forbidden

    in_cluster(test)


def test_a_list_that_takes_too_long_expires() -> None:
    async def test(cluster: SimCluster) -> None:
        for number in range(4):
            await make(cluster.client(), f"map-{number}")
        pages = cluster.client().list_pages(api.CONFIG_MAPS, "default", limit=2)
        await anext(pages)
        await cluster.clock.sleep(301)
        with pytest.raises(Gone, match="continue parameter is too old"):
            await anext(pages)

    in_cluster(test)


def test_a_list_expires_when_the_history_is_compacted() -> None:
    async def test(cluster: SimCluster) -> None:
        for number in range(4):
            await make(cluster.client(), f"map-{number}")
        pages = cluster.client().list_pages(api.CONFIG_MAPS, "default", limit=2)
        await anext(pages)
        cluster.server.store.forget()
        with pytest.raises(Gone):
            await anext(pages)

    in_cluster(test)


async def collect(client: SimClient, version: str, into: list[WatchEvent], *, timeout_s: int = 60) -> None:
    async for event in client.watch(api.CONFIG_MAPS, resource_version=version, timeout_s=timeout_s):
        into.append(event)


def test_a_watch_is_gone_when_its_version_is_forgotten() -> None:
    async def test(cluster: SimCluster) -> None:
        version = str(cluster.server.store.version)
        await make(cluster.client())
        cluster.server.store.forget(api.CONFIG_MAPS)
        with pytest.raises(Gone, match="too old resource version"):
            await collect(cluster.client(), version, [])

    in_cluster(test)


def test_a_scripted_410_hits_the_watch_at_its_start() -> None:
    async def test(cluster: SimCluster) -> None:
        client = cluster.client(faults=Faults(script=[Scripted("gone", verb="watch")]))
        with pytest.raises(Gone):
            await collect(client, str(cluster.server.store.version), [])
        await collect(client, str(cluster.server.store.version), [], timeout_s=5)

    in_cluster(test)


def test_a_silent_watch_delivers_nothing_and_is_found_dead_after_its_time() -> None:
    async def test(cluster: SimCluster) -> None:
        client = cluster.client(faults=Faults(script=[Scripted("silent_watch")]))
        events: list[WatchEvent] = []
        before_s = cluster.clock.monotonic()
        task = asyncio.create_task(collect(client, str(cluster.server.store.version), events))
        await cluster.clock.sleep(1)
        await make(cluster.client())
        with pytest.raises(Unreachable, match="no answer within 65 s"):
            await task
        assert events == []
        assert cluster.clock.monotonic() - before_s == pytest.approx(65, abs=0.1)

    in_cluster(test)


def test_watches_break_off_when_the_server_restarts() -> None:
    async def test(cluster: SimCluster) -> None:
        events: list[WatchEvent] = []
        task = asyncio.create_task(collect(cluster.client(), str(cluster.server.store.version), events))
        await cluster.clock.sleep(1)
        await make(cluster.client())
        await cluster.clock.sleep(1)
        cluster.clients.break_watches()
        with pytest.raises(Unreachable, match="connection reset"):
            await task
        assert [event.type for event in events] == ["ADDED"]

    in_cluster(test)


def test_an_open_watch_can_expire_in_the_middle() -> None:
    async def test(cluster: SimCluster) -> None:
        events: list[WatchEvent] = []
        task = asyncio.create_task(collect(cluster.client(), str(cluster.server.store.version), events))
        await cluster.clock.sleep(1)
        await make(cluster.client())
        await cluster.clock.sleep(1)
        cluster.clients.expire_watches()
        with pytest.raises(Gone, match="too old"):
            await task
        assert [event.type for event in events] == ["ADDED"]

    in_cluster(test)


def test_a_watch_of_one_name_is_left_alone_by_the_others() -> None:
    async def test(cluster: SimCluster) -> None:
        table = cluster.server.table(api.CONFIG_MAPS)
        before = len(table.listeners)
        watch = cluster.client().watch(
            api.CONFIG_MAPS,
            resource_version=str(cluster.server.store.version),
            timeout_s=60,
            fields="metadata.name=two",
        )
        first = asyncio.ensure_future(anext(watch))
        await cluster.clock.sleep(1)
        assert len(table.listeners) == before
        await make(cluster.client(), "one")
        await make(cluster.client(), "two")
        assert b'"name":"two"' in bytes((await first).object)

    in_cluster(test)


def test_bookmarks_come_once_a_minute_and_before_the_end() -> None:
    async def test(cluster: SimCluster) -> None:
        stamps: list[float] = []
        version = str(cluster.server.store.version)
        began_s = cluster.clock.monotonic()
        async for event in cluster.client().watch(api.CONFIG_MAPS, resource_version=version, timeout_s=150):
            assert event.type == "BOOKMARK"
            stamps.append(round(cluster.clock.monotonic() - began_s))
        assert stamps == [60, 120, 148]
        assert round(cluster.clock.monotonic() - began_s) == 150

    in_cluster(test)


def test_a_watcher_that_leaves_is_forgotten() -> None:
    async def test(cluster: SimCluster) -> None:
        table = cluster.server.table(api.CONFIG_MAPS)
        before = len(table.listeners)
        task = asyncio.create_task(collect(cluster.client(), str(cluster.server.store.version), []))
        await cluster.clock.sleep(1)
        assert len(table.listeners) == before + 1
        task.cancel()
        await cluster.clock.sleep(1)
        assert len(table.listeners) == before

    in_cluster(test)


def test_an_unknown_kind_is_not_found() -> None:
    async def test(cluster: SimCluster) -> None:
        unknown = api.Resource("example.com", "v1", "things", "Thing")
        assert type(await refused(cluster.client().get(unknown, "x", "default"))) is NotFound

    in_cluster(test)
