"""An API server that says what a test wrote down, over the real client: no sockets, virtual time.

Each request is answered by the next step of the script for its kind (`list`, `watch`, `get`, or the HTTP method). A
request that nobody expected fails the test, for then the client did not do what the test is about.
"""

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import httpx2
import msgspec

from npu_operator.kube.client import HttpCluster
from npu_operator.kube.clock import SystemClock
from npu_operator.kube.connection import Connection
from npu_operator.sim.clock import START_S, VirtualClock, run_virtual

Step = httpx2.Response | Exception | Callable[[httpx2.Request], Awaitable[httpx2.Response]]


class Server(httpx2.AsyncBaseTransport):
    """Answers by script and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[httpx2.Request] = []
        self.times: list[float] = []
        self._steps: defaultdict[str, deque[Step]] = defaultdict(deque)

    def on(self, kind: str, *steps: Step) -> None:
        """What to answer to the next requests of that kind, in order."""
        self._steps[kind].extend(steps)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        steps = self._steps[kind_of(request)]
        assert steps, f"nobody expected {request.method} {request.url}"
        step = steps.popleft()
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, httpx2.Response) else await step(request)

    def asked(self, kind: str) -> list[httpx2.Request]:
        """The requests of one kind."""
        return [request for request in self.requests if kind_of(request) == kind]


def kind_of(request: httpx2.Request) -> str:
    if request.method != "GET":
        return request.method
    if request.url.params.get("watch") == "true":
        return "watch"
    return "list" if "limit" in request.url.params else "get"


def cluster_of(server: httpx2.AsyncBaseTransport, clock: VirtualClock, **connection: Any) -> HttpCluster:
    """The real client, talking to `server`."""
    settings = {"url": "https://api", "auth": None, "namespace": "default", "credentials": "the test's token"}
    opened = Connection(transport=server, **(settings | connection))
    return HttpCluster(lambda: opened, clock=system_clock(clock), rng=random.Random(7), user_agent="test")


def system_clock(clock: VirtualClock) -> SystemClock:
    return SystemClock(monotonic=clock.monotonic, wall=lambda: START_S + clock.monotonic())


def run(main: Callable[[VirtualClock], Coroutine[Any, Any, None]]) -> None:
    run_virtual(main, limit_s=7 * 86_400)


def answer(body: Any, status: int = 200, **headers: str) -> httpx2.Response:
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return httpx2.Response(status, content=content, headers=headers)


def refusal(
    code: int, message: str = "no", *, reason: str = "", details: dict[str, Any] | None = None, **headers: str
) -> httpx2.Response:
    return answer(a_status(code, message, reason=reason, details=details), code, **headers)


def a_status(
    code: int, message: str = "no", *, reason: str = "", details: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
        "details": details or {},
    }


def an_object(name: str, version: int, *, namespace: str = "", **metadata: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), **metadata}
    return {"metadata": {**metadata, "namespace": namespace} if namespace else metadata}


def a_page(*items: dict[str, Any], version: int, more: str = "") -> httpx2.Response:
    return answer({"kind": "List", "metadata": {"resourceVersion": str(version), "continue": more}, "items": items})


def line(kind: str, body: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": body}) + b"\n"


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"kind": "Node", "metadata": {"resourceVersion": str(version)}})


def a_watch(*chunks: bytes, every_s: float = 0.0, then: str = "end", after_s: float = 0.0) -> Step:
    """A stream of `chunks`, then its end: `end` in order, `reset`, or `silence` until the reader's time-out."""

    async def open_stream(request: httpx2.Request) -> httpx2.Response:
        async def stream() -> AsyncIterator[bytes]:
            for chunk in chunks:
                await asyncio.sleep(every_s)
                yield chunk
            await asyncio.sleep(after_s)
            if then == "reset":
                raise httpx2.ReadError("connection reset by peer")
            if then == "silence":
                await asyncio.sleep(request.extensions["timeout"]["read"])
                raise httpx2.ReadTimeout("nothing to read")

        return httpx2.Response(200, content=stream())

    return open_stream


def a_long_watch(*chunks: bytes, bookmarks: int = 0) -> Step:
    """A stream that the server ends when it should; with `bookmarks` at that version every minute."""

    async def open_stream(request: httpx2.Request) -> httpx2.Response:
        async def stream() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk
            left_s = float(request.url.params["timeoutSeconds"])
            while bookmarks and left_s > 60:
                await asyncio.sleep(60)
                left_s -= 60
                yield bookmark(bookmarks)
            await asyncio.sleep(left_s)

        return httpx2.Response(200, content=stream())

    return open_stream


def hangs(seconds: float = 1e6) -> Step:
    async def never(request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(seconds)
        return answer({})

    return never
