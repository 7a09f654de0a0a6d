"""Credentials that change while we run: they are read anew when the server refuses the old ones."""

import asyncio
import random
import ssl

import httpx2
import pytest
from lightkube.config.client_adapter import BearerTokenFileAuth

from npu_operator.kube.api import NODES, Unauthorized, Unreachable
from npu_operator.kube.client import HttpCluster
from npu_operator.kube.connection import BadConfig, Connection
from npu_operator.sim.clock import VirtualClock
from tests.unit.kube.scripted import Server, a_watch, an_object, answer, line, refusal, run, system_clock


class Files:
    """What is on disk: opened again and again, and different when a test says so."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.opened = 0
        self.problem: BadConfig | None = None

    def open(self) -> Connection:
        if self.problem is not None:
            raise self.problem
        self.opened += 1
        return Connection(
            url="https://api",
            transport=self.server,
            auth=httpx2.BasicAuth("user", f"password-{self.opened}"),
            namespace="x",
            credentials="kubeconfig /etc/k",
        )


def cluster_with(files: Files, clock: VirtualClock) -> HttpCluster:
    return HttpCluster(files.open, clock=system_clock(clock), rng=random.Random(1), user_agent="test")


def unauthorized() -> httpx2.Response:
    return refusal(401, "Unauthorized", reason="Unauthorized")


def test_a_request_that_is_not_let_in_is_sent_once_more_with_fresh_credentials():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        files = Files(server)
        cluster = cluster_with(files, clock)
        await asyncio.sleep(60)
        server.on("PATCH", unauthorized(), answer({}))
        await cluster.patch(NODES, "a7", {}, manager="me")
        first, second = server.requests
        assert first.headers["Authorization"] != second.headers["Authorization"]
        assert files.opened == 2

    run(main)


def test_of_many_requests_that_fail_together_one_reads_the_files():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        files = Files(server)
        cluster = cluster_with(files, clock)
        await asyncio.sleep(60)
        old = httpx2.BasicAuth("user", "password-1")._auth_header

        async def check(request: httpx2.Request) -> httpx2.Response:
            await asyncio.sleep(0.1)
            return unauthorized() if request.headers["Authorization"] == old else answer({})

        server.on("PATCH", *(check for _ in range(20)))
        await asyncio.gather(*(cluster.patch(NODES, f"a{n}", {}, manager="me") for n in range(10)))
        assert files.opened == 2

    run(main)


def test_credentials_that_stay_wrong_are_told_and_not_read_all_the_time():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        files = Files(server)
        cluster = cluster_with(files, clock)
        server.on("get", *(unauthorized() for _ in range(20)))
        for _ in range(10):
            with pytest.raises(Unauthorized) as caught:
                await cluster.get(NODES, "a7")
            await asyncio.sleep(1)
        assert files.opened == 1  # they were fresh
        assert "the server does not accept kubeconfig /etc/k: expired or unknown" in str(caught.value)

    run(main)


def test_a_watch_is_let_in_with_fresh_credentials_too():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        cluster = cluster_with(Files(server), clock)
        await asyncio.sleep(60)
        server.on("watch", unauthorized(), a_watch(line("ADDED", an_object("a", 6))))
        found = [event.type async for event in cluster.watch(NODES, resource_version="5", timeout_s=300)]
        assert found == ["ADDED"]

    run(main)


def test_a_ca_that_was_replaced_is_read_anew():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        files = Files(server)
        cluster = cluster_with(files, clock)
        await asyncio.sleep(60)
        mistrust = httpx2.ConnectError("handshake failed")
        mistrust.__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
        mistrust.__cause__.verify_message = "self-signed certificate in chain"
        server.on("PATCH", mistrust, answer({}))
        await cluster.patch(NODES, "a7", {}, manager="me")
        assert files.opened == 2

    run(main)


def test_a_tls_failure_that_stays_says_what_it_is():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        expired = httpx2.ReadError("")
        expired.__cause__ = ssl.SSLError(1, "[SSL: SSLV3_ALERT_CERTIFICATE_EXPIRED] sslv3 alert certificate expired")
        expired.__cause__.reason = "SSLV3_ALERT_CERTIFICATE_EXPIRED"
        server.on("PATCH", expired)
        with pytest.raises(Unreachable, match="no secure connection: sslv3 alert certificate expired"):
            await cluster_with(Files(server), clock).patch(NODES, "a7", {}, manager="me")

    run(main)


def test_a_file_that_is_broken_now_is_told_beside_the_refusal():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        files = Files(server)
        cluster = cluster_with(files, clock)
        await asyncio.sleep(60)
        files.problem = BadConfig("kubeconfig /etc/k is no YAML")
        server.on("get", unauthorized())
        with pytest.raises(Unauthorized) as caught:
            await cluster.get(NODES, "a7")
        assert caught.value.__notes__ == ["kubeconfig /etc/k is no YAML"]

    run(main)


def test_the_old_connection_carries_its_watch_on():
    async def main(clock: VirtualClock) -> None:
        server = Server()
        cluster = cluster_with(Files(server), clock)
        server.on("watch", a_watch(line("ADDED", an_object("a", 6)), line("ADDED", an_object("b", 7)), every_s=100.0))
        seen: list[float] = []

        async def watch() -> None:
            async for _ in cluster.watch(NODES, resource_version="5", timeout_s=300):
                seen.append(clock.monotonic())

        watching = asyncio.create_task(watch())
        await asyncio.sleep(150)
        server.on("get", unauthorized(), answer({}))
        await cluster.get(NODES, "a7")
        await watching
        assert seen == [100.0, 200.0]

    run(main)


def test_a_rotated_token_file_is_read_on_the_first_refusal(tmp_path):
    async def main(clock: VirtualClock) -> None:
        token = tmp_path / "token"
        token.write_text("first\n")
        server = Server()
        opened = Connection(
            url="https://api",
            transport=server,
            auth=BearerTokenFileAuth(str(token)),
            namespace="x",
            credentials="the token",
        )
        cluster = HttpCluster(lambda: opened, clock=system_clock(clock), rng=random.Random(1), user_agent="test")
        server.on("get", answer({}), unauthorized(), answer({}))
        await cluster.get(NODES, "a7")
        token.write_text("second\n")
        await cluster.get(NODES, "a7")
        assert server.requests[0].headers["Authorization"] == "Bearer first"
        assert server.requests[-1].headers["Authorization"] == "Bearer second"
        token.unlink()
        server.on("get", unauthorized(), unauthorized())
        with pytest.raises(Unauthorized, match="not found"):
            await cluster.get(NODES, "a7")

    run(main)
