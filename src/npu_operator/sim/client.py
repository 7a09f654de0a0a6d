"""One user's line to the server: a `Cluster` as the operator knows it, with rights, faults, a log and time.

Requests take time (a request sees the state at its middle, answers come later), so that races are as real as on a
network. Hooks stand before and after each write, for a harness that lets a process die there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from npu_operator.kube import answers, api
from npu_operator.kube.answers import Ask
from npu_operator.kube.api import ApiError, Object, Page, Preconditions, Resource, WatchEvent
from npu_operator.sim.call_log import Call, CallLog
from npu_operator.sim.faults import Faults, Trouble
from npu_operator.sim.server import access, eviction, refusals
from npu_operator.sim.server.access import Right, User
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.objects import Stored
from npu_operator.sim.server.refusals import Refused
from npu_operator.sim.server.watching import Broken, Watch

TRAVEL_S: Final = 0.001  # each way; a request within a data centre
WATCH_GRACE_S: Final = 5.0  # as in kube.client: that long after its end a silent watch counts as dead
REQUEST_TIMEOUT_S: Final = 30.0  # as in kube.client; that long a caller waits for an answer that is lost
COMPACTION_S: Final = 300.0  # etcd forgets old states that often; a list that takes longer expires

EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
)

Hook = Callable[[Ask], None]


def no_hook(ask: Ask) -> None:
    """Nothing happens."""


class SimClient:
    """A `Cluster` in memory for one user.

    `before_write` and `after_write` are called with each write that reaches the server, before it takes place and
    before its answer leaves; what they raise goes to the caller instead of an answer.
    """

    def __init__(
        self,
        server: ApiServer,
        user: User,
        *,
        log: CallLog,
        faults: Faults,
        watches: dict[Watch, None],
        before_write: Hook = no_hook,
        after_write: Hook = no_hook,
    ) -> None:
        self.user = user
        self.faults = faults
        self.before_write = before_write
        self.after_write = after_write
        self._server = server
        self._log = log
        self._watches = watches
        self._is_closed = False

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        """One object."""
        ask = Ask("get", resource, namespace, name)
        return await self._ask(ask, lambda: self._server.get(resource, name, namespace))

    async def list_pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = 500,
    ) -> AsyncIterator[Page]:
        """All objects in pages, all of the state at the first one."""
        ask = Ask("list", resource, namespace)
        snapshot: list[Stored] = []
        version = 0
        began_s = 0.0

        def first() -> None:
            nonlocal snapshot, version, began_s
            snapshot = self._server.list(resource, namespace, labels=labels, fields=fields)
            version, began_s = self._server.store.version, self._server.clock.monotonic()

        def next_() -> None:
            if self._server.store.compacted >= version or self._server.clock.monotonic() - began_s > COMPACTION_S:
                raise refusals.expired(EXPIRED)

        await self._ask(ask, first, name=_named(fields))
        is_custom = self._server.kind(resource).is_custom
        for start in range(0, max(len(snapshot), 1), limit):
            if start:
                await self._ask(ask, next_, name=_named(fields))
            items = tuple(stored.item(is_custom=is_custom) for stored in snapshot[start : start + limit])
            yield Page(items, str(version), continues=start + limit < len(snapshot))

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        timeout_s: int,
        labels: str | None = None,
        fields: str | None = None,
    ) -> AsyncIterator[WatchEvent]:
        """Events until the server ends the watch."""
        ask = Ask("watch", resource, namespace)
        watch: Watch | None = None

        def open_() -> None:
            nonlocal watch
            selection = self._server.selection(resource, namespace, labels, fields)
            watch = Watch(self._server, resource, selection, timeout_s)
            watch.start(resource_version)

        await self._ask(ask, open_, name=_named(fields))
        assert watch is not None, "a watch that is not refused is open"
        self._watches[watch] = None
        watch.is_silent = self.faults.is_silent(ask)
        try:
            async for event in watch.events():
                yield event
            if watch.is_silent:
                await asyncio.sleep(WATCH_GRACE_S)
                raise answers.no_answer(ask, TimeoutError(), within_s=timeout_s + WATCH_GRACE_S)
        except Broken as error:
            raise answers.no_answer(ask, ConnectionResetError("connection reset by peer")) from error
        except Refused as refused:
            raise answers.refusal(ask, refused.code, refused.body()) from refused
        finally:
            watch.close()
            self._watches.pop(watch, None)

    async def create(self, resource: Resource, body: Object, namespace: str | None = None, *, manager: str) -> bytes:
        """Create an object."""
        ask = Ask("create", resource, namespace, body.get("metadata", {}).get("name"))
        return await self._write(
            ask, body, lambda: self._server.create(resource, body, namespace, manager=manager), name=None
        )

    async def apply(
        self, resource: Resource, body: Object, *, manager: str, force: bool = True, subresource: str | None = None
    ) -> bytes:
        """Server-side apply."""
        metadata = body["metadata"]
        ask = Ask("apply", resource, metadata.get("namespace"), metadata["name"], subresource)
        return await self._write(
            ask,
            body,
            lambda: self._server.apply(resource, body, manager=manager, force=force, subresource=subresource),
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Object,
        namespace: str | None = None,
        *,
        manager: str,
        subresource: str | None = None,
    ) -> bytes:
        """JSON merge patch."""
        ask = Ask("patch", resource, namespace, name, subresource)
        return await self._write(
            ask,
            body,
            lambda: self._server.patch(resource, name, body, namespace, manager=manager, subresource=subresource),
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        preconditions: Preconditions | None = None,
        propagation: str = "Background",
        grace_s: int | None = None,
    ) -> None:
        """Delete an object."""

        def work() -> None:
            self._server.delete(
                resource, name, namespace, preconditions=preconditions, propagation=propagation, grace_s=grace_s
            )

        await self._write(Ask("delete", resource, namespace, name), None, work)

    async def evict(self, pod: str, namespace: str, *, grace_s: int | None = None, uid: str | None = None) -> None:
        """Ask for an eviction."""
        ask = Ask("evict", api.PODS, namespace, pod, "eviction")
        await self._write(ask, None, lambda: eviction.evict(self._server, pod, namespace, grace_s=grace_s, uid=uid))

    async def close(self) -> None:
        """Nothing is answered any more."""
        self._is_closed = True

    async def _write(
        self, ask: Ask, body: Object | None, work: Callable[[], Stored | None], *, name: str | None = ""
    ) -> bytes:
        def guarded() -> Stored | None:
            if body is not None:
                self._check_grant(ask, body)
            self.before_write(ask)
            result = work()
            self.after_write(ask)
            return result

        return await self._ask(ask, guarded, name=name)

    async def _ask(self, ask: Ask, work: Callable[[], Stored | None], *, name: str | None = "") -> bytes:
        """Send, work, answer. `name` is what RBAC sees, when that is not the asked name."""
        trouble = self.faults.next(ask)
        await asyncio.sleep(TRAVEL_S + (trouble.delay_s if trouble is not None else 0.0))
        if self._is_closed:
            raise answers.no_answer(ask, ConnectionError("this client is closed"))
        if trouble is not None and trouble.fails_before:
            raise self._failed(ask, trouble)
        code = 201 if ask.verb in ("create", "evict") or self._will_create(ask) else 200
        try:
            self._check_rights(ask, ask.name if name == "" else name)
            result = work()
        except Refused as refused:
            self._log.record(Call(self._server.clock.now(), self.user.name, ask, refused.code))
            await asyncio.sleep(TRAVEL_S)
            header = str(refused.retry_after_s) if refused.retry_after_s else None
            raise answers.refusal(ask, refused.code, refused.body(), retry_after=header) from refused
        self._log.record(Call(self._server.clock.now(), self.user.name, ask, code))
        body = bytes(result.whole()) if result is not None else b""
        if trouble is not None and trouble.loses_answer:
            await asyncio.sleep(REQUEST_TIMEOUT_S)
            raise self._failed(ask, trouble)
        await asyncio.sleep(TRAVEL_S)
        return body

    def _failed(self, ask: Ask, trouble: Trouble) -> ApiError:
        """The exception for an injected fault."""
        if trouble.status == 0:
            return answers.no_answer(ask, trouble.error())
        self._log.record(Call(self._server.clock.now(), self.user.name, ask, trouble.status))
        refused = trouble.refusal(ask)
        header = str(refused.retry_after_s) if refused.retry_after_s else None
        return answers.refusal(ask, refused.code, refused.body(), retry_after=header)

    def _check_rights(self, ask: Ask, name: str | None) -> None:
        verb = {"apply": "patch", "evict": "create"}.get(ask.verb, ask.verb)
        namespace = ask.namespace if ask.resource.namespaced else None
        check = self._server.access.check
        check(self.user, Right(verb, ask.resource, ask.subresource, namespace, name))
        if self._will_create(ask):
            check(self.user, Right("create", ask.resource, ask.subresource, namespace, ask.name))

    def _will_create(self, ask: Ask) -> bool:
        """Whether an apply is about an object that is not there."""
        namespace = ask.namespace if ask.resource.namespaced else None
        return ask.verb == "apply" and self._server.find(ask.resource, ask.name or "", namespace) is None

    def _check_grant(self, ask: Ask, body: Object) -> None:
        if ask.resource in access.RBAC_TABLES:
            metadata = {"name": ask.name, **({"namespace": ask.namespace} if ask.namespace else {})}
            self._server.access.check_grant(self.user, ask.resource, {**body, "metadata": metadata})


def _named(fields: str | None) -> str | None:
    """The one name that a list or watch is limited to, which RBAC honours."""
    for part in (fields or "").split(","):
        key, _, value = part.partition("=")
        if key == "metadata.name":
            return value.lstrip("=")
    return None
