"""The real `Cluster`: our verbs over HTTP. Bytes in, bytes out.

lightkube finds configuration and credentials (`kube.connection`); the verbs are ours, because its watch loses deletions
and its models cost ten times our slim structs. Reads are tried again when the server stumbles; writes never are, for
their callers look again and plan anew.
"""

import random
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import httpx2
import msgspec

from npu_operator.kube import answers
from npu_operator.kube.answers import Ask
from npu_operator.kube.api import PODS, ApiError, Invalid, Object, Page, Preconditions, Resource, WatchEvent
from npu_operator.kube.backoff import Backoff
from npu_operator.kube.calls import Calls
from npu_operator.kube.clock import SystemClock
from npu_operator.kube.connection import Connection, open_connection
from npu_operator.kube.exchange import JSON, Exchange

WATCH_GRACE_S = 5.0  # the server closes a watch first; that much later the line is dead
READ_TRIES = 3
RETRY_FIRST_S, RETRY_CAP_S = 0.2, 2.0
WORTH_ANOTHER_TRY = frozenset({429, 500, 502, 503, 504})
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML

T = TypeVar("T")


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: tuple[msgspec.Raw, ...] = ()


_LIST = msgspec.json.Decoder(_List)
_EVENT = msgspec.json.Decoder(WatchEvent)


class HttpCluster:
    """A `Cluster` over HTTP.

    `reopen` makes a connection from the present files; it is called now and whenever credentials may have changed, and
    raises BadConfig.
    """

    def __init__(
        self, reopen: Callable[[], Connection], *, clock: SystemClock, rng: random.Random, user_agent: str
    ) -> None:
        self._exchange = Exchange(reopen, clock=clock, rng=rng, user_agent=user_agent)
        self._clock = clock
        self._rng = rng

    @property
    def calls(self) -> Calls:
        """All requests so far."""
        return self._exchange.calls

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context, or of our pod."""
        return self._exchange.connection.namespace

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        """One object."""
        return await self._read(Ask("get", resource, namespace, name))

    async def list_pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = 500,
    ) -> AsyncIterator[Page]:
        """All objects in pages; only one page is held here at a time."""
        ask = Ask("list", resource, namespace)
        params = _selected({"limit": str(limit)}, labels, fields)
        while True:
            found = _decoded(ask, _LIST, await self._read(ask, params))
            token = found.metadata.continue_
            page = Page(found.items, found.metadata.resource_version, continues=bool(token))
            del found
            yield page
            del page
            if not token:
                return
            params["continue"] = token

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
        """Events until the server ends the watch. An `ERROR` event is raised as what its status says."""
        ask = Ask("watch", resource, namespace)
        params = _selected({"watch": "true", "allowWatchBookmarks": "true"}, labels, fields)
        params |= {"resourceVersion": resource_version, "timeoutSeconds": str(timeout_s)}
        read_s = timeout_s + WATCH_GRACE_S
        response = await self._exchange.stream(ask, _path(ask), params, read_s=read_s)
        try:
            rest = b""
            async for chunk in response.aiter_raw():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _event(ask, line)
        except (httpx2.HTTPError, OSError) as error:
            raise answers.no_answer(ask, error, within_s=read_s) from error
        finally:
            await response.aclose()

    async def create(self, resource: Resource, body: Object, namespace: str | None = None, *, manager: str) -> bytes:
        """Create an object."""
        ask = Ask("create", resource, namespace, body.get("metadata", {}).get("name"))
        path = _path(Ask("create", resource, namespace))
        return await self._write(ask, "POST", path, {"fieldManager": manager}, body)

    async def apply(
        self, resource: Resource, body: Object, *, manager: str, force: bool = True, subresource: str | None = None
    ) -> bytes:
        """Server-side apply."""
        metadata = body["metadata"]
        ask = Ask("apply", resource, metadata.get("namespace"), metadata["name"], subresource)
        params = {"fieldManager": manager, "force": "true" if force else "false"}
        return await self._write(ask, "PATCH", _path(ask), params, body, content_type=APPLY_PATCH)

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
        return await self._write(ask, "PATCH", _path(ask), {"fieldManager": manager}, body, content_type=MERGE_PATCH)

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
        ask = Ask("delete", resource, namespace, name)
        options = _delete_options(preconditions, grace_s)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation, **options}
        await self._write(ask, "DELETE", _path(ask), {}, body)

    async def evict(self, pod: str, namespace: str, *, grace_s: int | None = None, uid: str | None = None) -> None:
        """Ask for an eviction."""
        ask = Ask("evict", PODS, namespace, pod, "eviction")
        options = _delete_options(Preconditions(uid=uid) if uid else None, grace_s)
        body: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": options,
        }
        await self._write(ask, "POST", _path(ask), {}, body)

    async def close(self) -> None:
        """Close all connections; requests that still run fail as Unreachable."""
        await self._exchange.close()

    async def _read(self, ask: Ask, params: Mapping[str, str] | None = None) -> bytes:
        """GET, tried again when that is worth it."""
        backoff = Backoff(self._rng, first_s=RETRY_FIRST_S, cap_s=RETRY_CAP_S)
        while True:
            try:
                return await self._exchange.fetch(ask, "GET", _path(ask), params or {})
            except ApiError as error:
                last = backoff.failures + 1 >= READ_TRIES
                if last or not (error.status in WORTH_ANOTHER_TRY or _was_cut_off(error)):
                    raise
            await self._clock.sleep(backoff.next_s())

    async def _write(
        self, ask: Ask, method: str, path: str, params: Mapping[str, str], body: Object, *, content_type: str = JSON
    ) -> bytes:
        return await self._exchange.fetch(
            ask, method, path, params, content=msgspec.json.encode(body), content_type=content_type
        )


def connect(
    kubeconfig: Path | None, context: str | None, *, clock: SystemClock, rng: random.Random, user_agent: str
) -> HttpCluster:
    """A cluster by kubeconfig, or by the pod's service account when there is no file.

    Sends nothing yet. Raises BadConfig with one sentence for whoever started us.
    """
    return HttpCluster(
        lambda: open_connection(kubeconfig, context, clock=clock), clock=clock, rng=rng, user_agent=user_agent
    )


def _path(ask: Ask) -> str:
    """The path of what is asked. A name that would lead elsewhere is refused here."""
    for part in (ask.name, ask.namespace):
        if part is not None and (part in ("", ".", "..") or any(sign in part for sign in "/%?#")):
            raise Invalid(f"{ask}: {part!r} is no name of a Kubernetes object")
    return ask.resource.path(ask.namespace, ask.name, ask.subresource)


def _selected(params: dict[str, str], labels: str | None, fields: str | None) -> dict[str, str]:
    if labels:
        params["labelSelector"] = labels
    if fields:
        params["fieldSelector"] = fields
    return params


def _delete_options(preconditions: Preconditions | None, grace_s: int | None) -> Object:
    options: Object = {}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    if preconditions is not None:
        wanted = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
        options["preconditions"] = {key: value for key, value in wanted.items() if value is not None}
    return options


def _event(ask: Ask, line: bytes) -> WatchEvent:
    event = _decoded(ask, _EVENT, line)
    if event.type != "ERROR":
        return event
    body = bytes(event.object)
    status = answers.status_of(body)
    raise answers.refusal(ask, status.code if status is not None else httpx2.codes.INTERNAL_SERVER_ERROR, body)


def _decoded(ask: Ask, decoder: "msgspec.json.Decoder[T]", content: bytes) -> T:
    try:
        return decoder.decode(content)
    except msgspec.DecodeError as error:
        raise ApiError(f"{ask}: the answer is not from an API server: {error}", status=httpx2.codes.OK) from error


def _was_cut_off(error: ApiError) -> bool:
    """Did the server hang up, as it does with connections that were idle for long?"""
    return isinstance(error.__cause__, (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError))
