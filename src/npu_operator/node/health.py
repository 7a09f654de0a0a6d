"""How an agent without a port tells the kubelet how it is: one question and one answer over a unix socket.

The agent's own loop answers, so one that hangs does not. `npu-operator agent-probe ready|alive` asks; the answer is
`ok` or the sentence that says what the agent cannot do, which then stands in the pod's events.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

OK: Final = "ok"
READY: Final = "ready"
ALIVE: Final = "alive"
LONGEST: Final = 4096  # characters of a question or an answer
ANSWER_S: Final = 8.0  # the kubelet gives the whole probe 10 s

Readiness = Callable[[], Awaitable[str]]
"""What keeps the agent from its work, in one sentence; empty when nothing does."""


async def serve(path: Path, readiness: Readiness) -> asyncio.Server:
    """Answer on the socket at `path`, replacing a dead one, until closed. Raises OSError when it cannot be made."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError):  # the one who asks went away or sent nonsense
            async with asyncio.timeout(ANSWER_S):
                question = (await reader.readline()).decode("ascii", "replace").strip()
                problem = await _problem(question, readiness)
                writer.write(f"{problem or OK}\n".encode()[:LONGEST])
                await writer.drain()
        writer.close()

    return await asyncio.start_unix_server(answer, path, limit=LONGEST)


async def _problem(question: str, readiness: Readiness) -> str:
    if question == ALIVE:
        return ""
    return await readiness() if question == READY else f"unknown question {question!r}: ask {READY} or {ALIVE}"


def ask(path: Path, question: str, *, timeout_s: float = ANSWER_S) -> str:
    """The answer of the agent that serves `path`: empty when all is well, else a sentence. Never raises."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(timeout_s)
            client.connect(str(path))
            client.sendall(f"{question}\n".encode())
            with client.makefile("r", encoding="utf-8", errors="replace") as lines:
                answer = lines.readline(LONGEST).strip()
    except OSError as error:
        return f"the agent does not answer on {path}: {error.strerror or error}"
    return "" if answer == OK else answer or f"the agent gave no answer on {path}"
