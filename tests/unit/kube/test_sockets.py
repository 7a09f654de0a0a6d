"""The client over real sockets on loopback: what scripts cannot show."""

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable

import pytest

from npu_operator.kube.api import NODES, ApiError, Unreachable
from npu_operator.kube.client import HttpCluster, connect
from npu_operator.kube.clock import SystemClock
from tests.unit.kube.scripted import an_object, line

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def against(tmp_path, serve: Serve, ask: Callable[[HttpCluster], Awaitable[None]], *, scheme: str = "http") -> None:
    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        cluster = to_port(tmp_path, port, scheme)
        async with server:
            await ask(cluster)
            await cluster.close()

    asyncio.run(main())


def to_port(tmp_path, port: int, scheme: str = "http") -> HttpCluster:
    config = tmp_path / "config"
    config.write_text(
        "{current-context: c, users: [], contexts: [{name: c, context: {cluster: c}}], "
        f'clusters: [{{name: c, cluster: {{server: "{scheme}://127.0.0.1:{port}"}}}}]}}'
    )
    return connect(config, None, clock=SystemClock(), rng=random.Random(1), user_agent="test")


async def error_of(awaitable: Awaitable[object]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await awaitable
    return caught.value


async def read_head(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")


def test_connections_are_probed_by_the_kernel(tmp_path):
    async def serve(reader, writer):
        await read_head(reader)
        writer.write(HEAD + b"Content-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async def ask(cluster: HttpCluster) -> None:
        stream = await cluster._exchange._http.send(
            cluster._exchange._http.build_request("GET", "/api/v1/nodes/a"), stream=True
        )
        client: socket.socket = stream.extensions["network_stream"].get_extra_info("socket")
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3
        await stream.aclose()

    against(tmp_path, serve, ask)


def test_a_closed_port_is_called_a_refused_connection(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

    async def main() -> None:
        error = await error_of(to_port(tmp_path, port).get(NODES, "a7"))
        assert isinstance(error, Unreachable)
        assert str(error) == "get nodes a7: no answer: connection refused"

    asyncio.run(main())


def test_a_server_without_tls_is_told_apart_from_one_that_is_away(tmp_path):
    async def serve(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def ask(cluster: HttpCluster) -> None:
        error = await error_of(cluster.get(NODES, "a7"))
        assert isinstance(error, Unreachable)
        assert "no secure connection" in str(error)

    against(tmp_path, serve, ask, scheme="https")


def test_a_server_that_hangs_up_in_an_answer_is_unreachable(tmp_path):
    async def serve(reader, writer):
        await read_head(reader)
        writer.write(HEAD + b'Content-Length: 100\r\n\r\n{"half": ')
        await writer.drain()
        writer.close()

    async def ask(cluster: HttpCluster) -> None:
        assert isinstance(await error_of(cluster.patch(NODES, "a7", {}, manager="me")), Unreachable)

    against(tmp_path, serve, ask)


def test_a_watch_reads_events_as_they_come_and_ends_with_the_servers_hang_up(tmp_path):
    first, second = line("ADDED", an_object("a", 6)), line("MODIFIED", an_object("a", 7))
    go_on = asyncio.Event()

    async def serve(reader, writer):
        await read_head(reader)
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(first), first))
        await writer.drain()
        await go_on.wait()
        writer.write(b"%x\r\n%s" % (len(second), second[:10]))
        await writer.drain()
        writer.close()

    async def ask(cluster: HttpCluster) -> None:
        stream = cluster.watch(NODES, resource_version="5", timeout_s=60)
        assert (await anext(stream)).type == "ADDED"
        go_on.set()
        assert isinstance(await error_of(anext(stream)), Unreachable)

    against(tmp_path, serve, ask)
