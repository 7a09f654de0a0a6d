"""A small asynchronous client for an API server, for the testbed's own work.

It is kept apart from the product's client on purpose: what checks the product must not share its mistakes.
Objects are plain JSON data, paths are the API's own ("/api/v1/nodes/a7/status").
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx2
import msgspec

Object = dict[str, Any]
T = TypeVar("T")

TIMEOUT_S = 60.0
PAGE = 500  # objects of a list in one answer
WATCH_S = 300  # the server ends a watch after this time; it is begun again where it ended
END_S = 5.0  # how long requests under way may take when the client is closed
_PASSING = frozenset({408, 429, 500, 502, 503, 504})  # answers after which trying again makes sense


class ApiError(Exception):
    """The API server refused a request; raised by all verbs. `code` is the HTTP status, `reason` Kubernetes' word."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason


class Client:
    """The verbs, as one user. Use it as an asynchronous context manager.

    A request that was begun is carried to its end even when its caller is cancelled: httpcore (1.0 and its successor)
    leaves a socket open if it is cancelled while it connects.
    """

    def __init__(self, url: str, token: str, ca_file: Path, *, connections: int = 32) -> None:
        self._http = httpx2.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=str(ca_file)),
            timeout=TIMEOUT_S,
            limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
            trust_env=False,
        )
        self._under_way: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=END_S)
        await self._http.aclose()

    async def get(self, path: str, **parameters: str) -> Object:
        """Read one object (or whatever the path answers)."""
        return await self._ask("GET", path, parameters)

    async def create(self, path: str, content: Object) -> Object:
        """Create an object in the collection at `path`."""
        return await self._ask("POST", path, content=content)

    async def replace(self, path: str, content: Object) -> Object:
        """Replace the object at `path`."""
        return await self._ask("PUT", path, content=content)

    async def merge(self, path: str, content: Object) -> Object:
        """Change the object at `path` with a JSON merge patch: lists are replaced whole, null removes."""
        return await self._ask("PATCH", path, content=content, kind="application/merge-patch+json")

    async def apply(self, path: str, content: Object, *, manager: str = "testbed") -> Object:
        """Server-side apply, taking over fields that others own."""
        parameters = {"fieldManager": manager, "force": "true"}
        return await self._ask("PATCH", path, parameters, content, "application/apply-patch+yaml")

    async def delete(self, path: str, **options: Any) -> Object:
        """Delete the object or collection at `path`; `options` are DeleteOptions (`gracePeriodSeconds=0`)."""
        return await self._ask("DELETE", path, content=options)

    async def list(self, path: str, **parameters: str) -> tuple[list[Object], str]:
        """All objects of a collection, read in pages, and the resource version from which a watch goes on."""
        objects: list[Object] = []
        parameters = {"limit": str(PAGE), **parameters}
        while True:
            answer = await self._ask("GET", path, parameters)
            objects += answer["items"]
            token = answer["metadata"].get("continue")
            if not token:
                return objects, answer["metadata"]["resourceVersion"]
            parameters["continue"] = token

    async def watch(self, path: str, version: str, **parameters: str) -> AsyncGenerator[tuple[str, Object], None]:
        """Changes after `version` as (type, object), until the server ends the watch; BOOKMARK events among them."""
        query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", **parameters}
        timeout = httpx2.Timeout(TIMEOUT_S, read=WATCH_S + 30)  # the server closes first
        query["timeoutSeconds"] = str(WATCH_S)
        request = self._http.build_request("GET", path, params=query, timeout=timeout)
        async with contextlib.aclosing(await self._carry_out(self._http.send(request, stream=True))) as answer:
            if answer.status_code >= httpx2.codes.BAD_REQUEST:
                _raise(answer.status_code, await answer.aread())
            async for line in answer.aiter_lines():
                event = msgspec.json.decode(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(status.get("code", 0), status.get("reason", ""), status.get("message", ""))
                yield event["type"], event["object"]

    async def _ask(
        self,
        verb: str,
        path: str,
        parameters: dict[str, str] | None = None,
        content: Object | None = None,
        kind: str = "application/json",
    ) -> Object:
        body = None if content is None else msgspec.json.encode(content)
        headers = {"Content-Type": kind} if body is not None else None
        answer = await self._carry_out(self._http.request(verb, path, params=parameters, content=body, headers=headers))
        if answer.status_code >= httpx2.codes.BAD_REQUEST:
            _raise(answer.status_code, answer.content)
        decoded: Object = msgspec.json.decode(answer.content)
        return decoded

    async def _carry_out(self, request: Coroutine[Any, Any, httpx2.Response]) -> httpx2.Response:
        task = asyncio.create_task(request)
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has it; if nobody does any more, nobody misses it


def _raise(code: int, body: bytes) -> None:
    try:
        status = msgspec.json.decode(body)
        raise ApiError(code, status.get("reason", ""), status.get("message", ""))
    except (msgspec.DecodeError, AttributeError):
        raise ApiError(code, "", body.decode(errors="replace")) from None


def is_passing(error: Exception) -> bool:
    """Whether the same request may well succeed later: the server is away, busy or restarting."""
    return isinstance(error, httpx2.TransportError) or (isinstance(error, ApiError) and error.code in _PASSING)


async def persist(call: Callable[[], Awaitable[T]]) -> T:
    """Call until it succeeds or fails for good, as a kubelet does while the API server is away."""
    pause_s = 0.1
    while True:
        try:
            return await call()
        except (httpx2.TransportError, ApiError) as error:
            if not is_passing(error):
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2.0, pause_s * 2)
