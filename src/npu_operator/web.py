"""One small HTTP server for probes and metrics, answered by the event loop itself.

That is its point: a process whose loop hangs cannot answer. Only GET without a body is understood; anything else is
refused and the connection closed. Not meant to face the internet.
"""

import asyncio
import contextlib
import http
from collections.abc import Callable, Mapping

import msgspec

REQUEST_TIMEOUT_S = 10.0  # a probe or a scrape sends its few lines at once; a slower client is a stuck one
MAX_REQUEST_BYTES = 16 * 1024
MAX_CONNECTIONS = 64


class Answer(msgspec.Struct, frozen=True):
    """What a path says."""

    body: str
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Route = Callable[[], Answer]


class WebServer:
    """Serves `routes` (path → function) until closed. `port` 0 takes any free one; `address` tells which."""

    def __init__(self, routes: Mapping[str, Route], *, host: str, port: int) -> None:
        self._routes = routes
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self) -> None:
        """Begin to listen. Raises OSError, with the address in its text, when that is not possible."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=MAX_REQUEST_BYTES)
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot listen on {self._host}:{self._port}: {error.strerror}; choose another with --listen",
            ) from error

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on."""
        assert self._server is not None, "the server has not been started"
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                answer = await self._answer(reader) if self._open <= MAX_CONNECTIONS else Answer("busy\n", 503)
                body = answer.body.encode()
                head = (
                    f"HTTP/1.1 {answer.status} {http.HTTPStatus(answer.status).phrase}\r\n"
                    f"Content-Type: {answer.content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client went away or sent nonsense; it gets no answer and we lose nothing
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        head = await reader.readuntil(b"\r\n\r\n")
        method, _, rest = head.split(b"\r\n", 1)[0].partition(b" ")
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0].decode("ascii", "replace")
        if method != b"GET":
            return Answer("only GET is answered here\n", 405)
        route = self._routes.get(path)
        return route() if route is not None else Answer(f"nothing at {path}; try {', '.join(self._routes)}\n", 404)
