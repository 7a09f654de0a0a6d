"""The two servers that must agree, and what a contract test may ask of them.

    @in_both
    async def test_a_second_object_of_the_same_name_is_refused(c):
        ...

Such a test is run twice: against the simulated server in virtual time, and against a real control plane.
"""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from npu_operator.kube import answers, api
from npu_operator.kube.api import ApiError, Cluster, Object, Resource, WatchEvent
from npu_operator.sim.clients import Clients
from npu_operator.sim.clock import run_virtual
from npu_operator.sim.controllers.definitions import Definitions
from npu_operator.sim.controllers.disruption import Disruption
from npu_operator.sim.controllers.garbage import Garbage
from npu_operator.sim.controllers.namespaces import Namespaces
from npu_operator.sim.server.access import service_account
from npu_operator.sim.server.apiserver import ApiServer

MANAGER = "contract"
WITHIN_S = 20.0
_numbers = itertools.count(1)


class Line:
    """A cluster, a namespace of one's own in it, and shorthands. Names that are made here are used once."""

    def __init__(self, cluster: Cluster, namespace: str, as_account: Callable[[str, str], Awaitable[Cluster]]) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._as_account = as_account

    def name(self, stem: str) -> str:
        """A name that nobody else uses."""
        return f"{stem}-{next(_numbers)}-{self.namespace[-6:]}"

    async def as_account(self, name: str) -> Cluster:
        """The cluster as a ServiceAccount of this namespace sees it; the account is made."""
        await self.create(api.SERVICE_ACCOUNTS, {"metadata": {"name": name}})
        return await self._as_account(self.namespace, name)

    def _where(self, resource: Resource) -> str | None:
        return self.namespace if resource.namespaced else None

    async def create(self, resource: Resource, body: Object, *, manager: str = MANAGER) -> Object:
        """Create and decode; type fields are filled in."""
        full = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return _decoded(await self.cluster.create(resource, full, self._where(resource), manager=manager))

    async def get(self, resource: Resource, name: str) -> Object:
        """Get and decode."""
        return _decoded(await self.cluster.get(resource, name, self._where(resource)))

    async def patch(
        self, resource: Resource, name: str, body: Object, *, manager: str = MANAGER, subresource: str | None = None
    ) -> Object:
        """Patch and decode."""
        where = self._where(resource)
        return _decoded(await self.cluster.patch(resource, name, body, where, manager=manager, subresource=subresource))

    async def apply(
        self,
        resource: Resource,
        body: Object,
        *,
        manager: str = MANAGER,
        force: bool = True,
        subresource: str | None = None,
    ) -> Object:
        """Apply and decode; type fields and namespace are filled in."""
        full = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        if resource.namespaced:
            full["metadata"] = {"namespace": self.namespace, **full["metadata"]}
        answer = await self.cluster.apply(resource, full, manager=manager, force=force, subresource=subresource)
        return _decoded(answer)

    async def delete(self, resource: Resource, name: str, **options: Any) -> None:
        """Delete."""
        await self.cluster.delete(resource, name, self._where(resource), **options)

    async def list(self, resource: Resource, **options: Any) -> tuple[list[Object], str]:
        """All pages: the items and the version."""
        items: list[Object] = []
        version = ""
        async for page in self.cluster.list_pages(resource, self._where(resource), **options):
            items += [_decoded(item) for item in page.items]
            version = page.resource_version
        return items, version

    @asynccontextmanager
    async def watch(self, resource: Resource, version: str, **options: Any) -> AsyncIterator["Stream"]:
        """An open watch from `version`."""
        options = {"timeout_s": 60, **options}
        events = self.cluster.watch(resource, self._where(resource), resource_version=version, **options)
        stream = Stream(events)
        try:
            yield stream
        finally:
            await stream.close()

    async def gone(self, resource: Resource, name: str) -> None:
        """Wait until an object is gone."""

        async def is_gone() -> bool:
            return await refusal(self.get(resource, name), allow_success=True) == 404

        await self.eventually(is_gone)

    async def eventually(self, check: Callable[[], Awaitable[bool]]) -> None:
        """Wait until `check` holds; fails after `WITHIN_S`."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + WITHIN_S
        while not await check():
            assert loop.time() < until_s, f"{check.__qualname__} did not come true within {WITHIN_S:g} s"
            await asyncio.sleep(0.1)

    async def served(self, resource: Resource) -> None:
        """Wait until the server answers for a custom resource, in every verb."""

        async def is_served() -> bool:
            return await refusal(self.list(resource), allow_success=True) is None

        await self.eventually(is_served)


class Ended(Exception):
    """The server ended a watch in peace."""


class Stream:
    """The events of a watch, one at a time."""

    def __init__(self, events: AsyncIterator[WatchEvent]) -> None:
        self._events = events

    async def next(self, *, bookmarks: bool = False) -> tuple[str, Object]:
        """The next event and its object; bookmarks only when asked for. Raises Ended."""
        async with asyncio.timeout(WITHIN_S):
            async for event in self._events:
                if bookmarks or event.type != "BOOKMARK":
                    return event.type, _decoded(event.object)
        raise Ended

    async def until_the_end(self) -> AsyncIterator[tuple[str, Object]]:
        """All events, bookmarks too, until the server ends the watch in peace."""
        while True:
            try:
                event = await self.next(bookmarks=True)
            except Ended:
                return
            yield event

    async def close(self) -> None:
        """End the watch."""
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()


def _decoded(raw: bytes | msgspec.Raw) -> Object:
    return msgspec.json.decode(raw, type=dict[str, Any])


async def refusal(call: Awaitable[Any], *, allow_success: bool = False) -> int | None:
    """The status of the refusal that `call` ends with."""
    try:
        await call
    except ApiError as error:
        return error.status
    assert allow_success, "the server took what it should refuse"
    return None


async def refused(call: Awaitable[Any]) -> ApiError:
    """The refusal that `call` ends with."""
    try:
        await call
    except ApiError as error:
        return error
    raise AssertionError("the server took what it should refuse")


def causes(error: ApiError) -> set[tuple[str, str]]:
    """Reason and field of each cause."""
    return {(cause.reason, cause.field) for cause in answers.causes_of(error)}


class Backend(Protocol):
    """One of the two servers."""

    def run(self, scenario: Callable[[Line], Awaitable[None]]) -> None:
        """Run a test in a fresh namespace."""
        ...


class Simulated:
    """The server in memory with its controllers, new for each test, in virtual time."""

    def run(self, scenario: Callable[[Line], Awaitable[None]]) -> None:
        """Run a test."""

        async def main(clock: Any) -> None:
            server = ApiServer(clock, random.Random(7), service_account_admission=False)
            for controller in (Definitions, Namespaces, Garbage, Disruption):
                controller(server)
            clients = Clients(server)

            async def as_account(namespace: str, name: str) -> Cluster:
                return clients.client(service_account(namespace, name))

            await _in_namespace(clients.client(), as_account, scenario)

        run_virtual(main, limit_s=3600)


async def _in_namespace(
    cluster: Cluster,
    as_account: Callable[[str, str], Awaitable[Cluster]],
    scenario: Callable[[Line], Awaitable[None]],
) -> None:
    namespace = f"contract-{next(_numbers)}-{random.randrange(10**6):06d}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await cluster.create(api.NAMESPACES, body, manager=MANAGER)
    await scenario(Line(cluster, namespace, as_account))


class Real:
    """A real control plane; `open_cluster` makes a client for a kubeconfig."""

    def __init__(self, control_plane: Any) -> None:
        self._control_plane = control_plane

    def run(self, scenario: Callable[[Line], Awaitable[None]]) -> None:
        """Run a test."""
        asyncio.run(self._run(scenario))

    async def _run(self, scenario: Callable[[Line], Awaitable[None]]) -> None:
        opened = [_http(self._control_plane.kubeconfig())]

        async def as_account(namespace: str, name: str) -> Cluster:
            kubeconfig = await asyncio.to_thread(self._control_plane.service_account_kubeconfig, namespace, name)
            opened.append(_http(kubeconfig))
            return opened[-1]

        try:
            await _in_namespace(opened[0], as_account, scenario)
        finally:
            for cluster in opened:
                await cluster.close()


def _http(kubeconfig: Any) -> Any:
    from npu_operator.kube.client import connect
    from npu_operator.kube.clock import SystemClock

    return connect(kubeconfig, None, clock=SystemClock(), rng=random.Random(1), user_agent="contract-tests")


def in_both(scenario: Callable[[Line], Awaitable[None]]) -> Callable[[Backend], None]:
    """Make a test of an async function that takes a `Line`."""

    def test(backend: Backend) -> None:
        backend.run(scenario)

    test.__name__ = scenario.__name__
    test.__qualname__ = scenario.__qualname__
    test.__module__ = scenario.__module__
    test.__doc__ = scenario.__doc__
    return test
