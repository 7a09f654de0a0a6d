"""`npu-operator agent NAME` and `npu-operator agent-probe QUESTION`: what runs in the pods on a node.

An agent takes all its settings from the environment, which the operator's builders fill in. It ends with 0 on SIGTERM,
with 1 when it cannot work, after one sentence on standard error.
"""

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FAILED, WRONG_USE = 1, 2

AGENTS = {
    "device-plugin": "npu_operator.node.deviceplugin.plugin",
    "exporter": "npu_operator.node.exporter.agent",
    "validator": "npu_operator.node.validator",
    "discovery": "npu_operator.node.discovery",
}
"""Each module has `from_environment() -> Settings` and `async main(Settings)`."""


def main(command: str, arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    if command == "agent-probe":
        return probe(arguments)
    if len(arguments) != 1 or arguments[0] not in AGENTS:
        return _complain(f"npu-operator agent takes one name: {', '.join(AGENTS)}", WRONG_USE)
    agent = importlib.import_module(AGENTS[arguments[0]])
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = agent.from_environment()
    except (KeyError, ValueError) as error:
        return _complain(f"{arguments[0]}: wrong settings: {error}", WRONG_USE)
    return asyncio.run(_run(agent, settings))


def probe(arguments: Sequence[str]) -> int:
    """Ask the agent of this pod how it is; its answer goes to standard error."""
    from npu_operator.components import environment
    from npu_operator.node import health

    if len(arguments) != 1 or arguments[0] not in (health.READY, health.ALIVE):
        return _complain(f"npu-operator agent-probe takes one question: {health.READY} or {health.ALIVE}", WRONG_USE)
    path = os.environ.get(environment.HEALTH_SOCKET)
    if not path:
        return _complain(f"{environment.HEALTH_SOCKET} is not set, so nobody knows where to ask", WRONG_USE)
    problem = health.ask(Path(path), arguments[0])
    return _complain(problem, FAILED) if problem else 0


async def _run(agent: Any, settings: Any) -> int:
    task = asyncio.current_task()
    assert task is not None, "called from a task"
    stopped = asyncio.Event()

    def stop() -> None:
        stopped.set()
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await agent.main(settings)
            return 0
    except OSError as error:
        return _complain(str(error), FAILED)
    return 0 if stopped.is_set() else FAILED


def _complain(message: str, status: int) -> int:
    sys.stderr.write(f"error: {message}\n")
    return status
