import asyncio
import socket
from pathlib import Path

from npu_operator.node import health


async def ask(path: Path, question: str) -> str:
    return await asyncio.to_thread(health.ask, path, question, timeout_s=5)


def answers_to(path: Path, *questions: str, problem: str) -> list[str]:
    async def readiness() -> str:
        return problem

    async def talk() -> list[str]:
        server = await health.serve(path, readiness)
        async with server:
            return [await ask(path, question) for question in questions]

    return asyncio.run(talk())


def test_an_agent_that_works_is_ready_and_alive(tmp_path: Path) -> None:
    assert answers_to(tmp_path / "s", health.READY, health.ALIVE, problem="") == ["", ""]


def test_an_agent_that_cannot_work_says_why_and_lives(tmp_path: Path) -> None:
    assert answers_to(tmp_path / "s", health.READY, health.ALIVE, problem="no chips: ü") == ["no chips: ü", ""]


def test_an_unknown_question_names_the_known_ones(tmp_path: Path) -> None:
    assert answers_to(tmp_path / "s", "how", problem="") == ["unknown question 'how': ask ready or alive"]


def test_a_dead_socket_in_the_way_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    answers_to(path, problem="")
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    assert answers_to(path, health.READY, problem="") == [""]


def test_an_agent_that_is_not_there_is_told_by_its_path(tmp_path: Path) -> None:
    assert str(tmp_path / "s") in health.ask(tmp_path / "s", health.READY)


def test_a_loop_that_hangs_gives_no_answer(tmp_path: Path) -> None:
    async def readiness() -> str:
        return ""

    async def hang() -> str:
        server = await health.serve(tmp_path / "s", readiness)
        async with server:
            return health.ask(tmp_path / "s", health.READY, timeout_s=0.1)  # asked from the loop itself

    assert "does not answer" in asyncio.run(hang())
