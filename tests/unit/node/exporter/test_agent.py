import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from npu_operator.node.exporter import agent
from npu_operator.node.exporter.agent import Exporter, Settings
from npu_operator.node.reader import STALE_S, boot_seconds
from npu_operator.node.state import NodeState
from tests.unit.node.exporter.scrapes import a_measured_state, values
from tests.unit.node.states import BOOT, OTHER_BOOT, write


async def get(address: tuple[str, int], path: str) -> tuple[int, str, str]:
    """Status, content type and body."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    kind = next(line.split(": ", 1)[1] for line in head.splitlines() if line.lower().startswith("content-type"))
    return int(head.split()[1]), kind, body


def ask(folder: Path, state: NodeState | bytes | None, *paths: str) -> list[tuple[int, str, str]]:
    """The answers of an exporter on a node with this state file."""
    settings = Settings(
        listen_host="127.0.0.1", listen_port=0, state_file=folder / "state.json", boot_id_file=folder / "boot_id"
    )
    settings.boot_id_file.write_text(BOOT)
    if state is not None:
        write(settings.state_file, state)

    async def talk() -> list[tuple[int, str, str]]:
        exporter = Exporter(settings)
        await exporter.server.start()
        try:
            return [await get(exporter.server.address, path) for path in paths]
        finally:
            await exporter.server.close()

    return asyncio.run(talk())


def fresh(**about: object) -> NodeState:
    return msgspec.structs.replace(a_measured_state(), written_at_s=boot_seconds(), **about)


def test_a_scrape_gives_the_numbers_as_prometheus_text(tmp_path: Path) -> None:
    ((status, kind, body),) = ask(tmp_path, fresh(), "/metrics")
    assert status == 200
    assert kind.startswith("text/plain; version=0.0.4")
    assert values(body, "machine_npu_nums") == [1]
    assert values(body, "npu_state_age_seconds")[0] < 60


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, "there is no"),
        (b"garbage", "damaged or half-written"),
        (fresh(boot_id=OTHER_BOOT), OTHER_BOOT),
        (msgspec.structs.replace(fresh(), written_at_s=boot_seconds() - STALE_S - 1), "the node agent is silent"),
    ],
    ids=["missing", "garbage", "other boot", "stale"],
)
def test_an_exporter_with_nothing_to_show_lives_and_says_why(
    tmp_path: Path, state: NodeState | bytes | None, words: str
) -> None:
    alive, ready, scrape = ask(tmp_path, state, "/healthz", "/readyz", "/metrics")
    assert alive[0] == 200
    assert ready[0] == 503
    assert words in ready[2]
    assert scrape[0] == 200
    assert values(scrape[2], "machine_npu_nums") == []


def test_the_metrics_with_camel_case_have_a_page_of_their_own(tmp_path: Path) -> None:
    ((status, _, body),) = ask(tmp_path, fresh(), "/metrics/mindcluster")
    assert status == 200
    assert values(body, "npu_container_info") == [1]


def test_an_exporter_with_something_to_show_is_ready(tmp_path: Path) -> None:
    assert [status for status, _, _ in ask(tmp_path, fresh(), "/healthz", "/readyz")] == [200, 200]


def test_the_environment_of_the_pod_is_understood() -> None:
    assert agent.from_environment({"NPU_METRICS_PORT": "9100"}).listen_port == 9100
    assert agent.from_environment({}) == Settings(listen_port=8082)


@pytest.mark.parametrize("port", ["eighty", "-1", "70000", "80.5"])
def test_a_wrong_port_names_its_variable(port: str) -> None:
    with pytest.raises(ValueError, match="NPU_METRICS_PORT"):
        agent.from_environment({"NPU_METRICS_PORT": port})


def test_a_port_that_is_taken_ends_the_exporter_with_the_address(tmp_path: Path) -> None:
    async def twice() -> None:
        first = Exporter(Settings(listen_host="127.0.0.1", listen_port=0))
        await first.server.start()
        try:
            port = first.server.address[1]
            await agent.main(Settings(listen_host="127.0.0.1", listen_port=port))
        finally:
            await first.server.close()

    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        asyncio.run(twice())


def test_the_exporter_loads_no_library_that_it_does_not_use() -> None:
    code = (
        "import sys, npu_operator.node.exporter.agent\n"
        "heavy = {'grpc', 'google.protobuf', 'lightkube', 'httpx2', 'httpx', 'cyclopts', 'tomlkit', 'yaml', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert loaded.stdout.strip() == "[]"
