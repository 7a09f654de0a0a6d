"""The validator: proves once per boot and driver that a container can use the chips, and leaves its verdict in a file.

It gets what any workload gets, by one internal resource. It opens chips only while the node agent has paused its probe
and no container has a chip, in a child process that ends. Its verdict, `Report`, lies in `VERDICT_FILE` in its own
directory below the state directory; the node agent publishes it in `NPUNode`. A verdict that failed is given anew when
the agent pauses its probe once more, so that a cause that is gone heals by itself.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from npu_operator.components import environment
from npu_operator.components.validator import REPORT_DIR
from npu_operator.model import names
from npu_operator.model.npunode import Validation
from npu_operator.model.reasons import Reason
from npu_operator.node import health, report, validator_verdict
from npu_operator.node.reader import BOOT_ID_FILE, BOOT_ID_FILE_VARIABLE, StateReader, boot_seconds
from npu_operator.node.state import NodeState
from npu_operator.node.validator_trial import Task
from npu_operator.node.validator_verdict import Complaint, Inconclusive, Tried

LOG = logging.getLogger(__name__)

SCHEMA: Final = 1
VERDICT_FILE: Final = "validation.json"
RETRY_S: Final = 60.0
"""So long after a try that failed or proved nothing the next one may begin."""
TRIAL_S: Final = 180.0
"""`npu-smi` has 60 s, the network ports of eight chips 10 s each for two questions at worst."""
CHILD: Final = (sys.executable, "-m", "npu_operator.node.validator_trial")


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The verdict file."""

    schema: int = SCHEMA
    validation: Validation
    tried_at_s: float
    """CLOCK_BOOTTIME seconds."""


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Report).decode
"""Raises `msgspec.DecodeError` for a file that is no verdict."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the validator is told at its start."""

    report_dir: Path = Path(REPORT_DIR)
    state_file: Path = Path(names.STATE_FILE)
    boot_id_file: Path = BOOT_ID_FILE
    health_socket: Path | None = None
    """Where the kubelet's probes are answered; None: nowhere."""
    root: Path = Path("/")
    """Where the container's files are."""
    poll_s: float = 1.0
    retry_s: float = RETRY_S
    trial_s: float = TRIAL_S


def from_environment(env: Mapping[str, str] = os.environ) -> Settings:
    """The settings in a pod's environment."""
    socket = env.get(environment.HEALTH_SOCKET)
    return Settings(
        report_dir=Path(env.get(environment.REPORT_DIR) or REPORT_DIR),
        boot_id_file=Path(env.get(BOOT_ID_FILE_VARIABLE) or BOOT_ID_FILE),
        health_socket=Path(socket) if socket else None,
    )


# --- May it try now? Asked in order; the first answer that is not empty says what it waits for. ---


def _driver(state: NodeState, last: Report | None, rests: bool) -> str:
    return "" if state.driver.loaded and state.driver.version else "no driver is loaded"


def _chips(state: NodeState, last: Report | None, rests: bool) -> str:
    return "" if validator_verdict.wanted(state).chips else "no chip answers"


def _verdict(state: NodeState, last: Report | None, rests: bool) -> str:
    has_passed = last is not None and last.validation.passed and _subject(last.validation) == _loaded(state)
    return "the driver has passed in this boot" if has_passed else ""


def _paused(state: NodeState, last: Report | None, rests: bool) -> str:
    return "" if state.probe_paused else "the node agent has not paused its probe"


def _idle(state: NodeState, last: Report | None, rests: bool) -> str:
    used = next(((one, one.users[0]) for one in state.chips if one.users), None)
    return "" if used is None else f"pod {used[1].namespace}/{used[1].pod} has {used[0].chip.id}"


def _rested(state: NodeState, last: Report | None, rests: bool) -> str:
    return "the last try was a moment ago" if rests else ""


GATES: Final[tuple[Callable[[NodeState, Report | None, bool], str], ...]] = (
    _driver,
    _chips,
    _verdict,
    _paused,
    _idle,
    _rested,
)


def waits_for(state: NodeState, last: Report | None, *, rests: bool) -> str:
    """What keeps the validator from trying now, in words; empty when nothing does.

    `last` is the last verdict; `rests` whether the last try for this boot and driver was too short a time ago.
    """
    return next((objection for gate in GATES if (objection := gate(state, last, rests))), "")


Subject = tuple[str, str, str]


def _loaded(state: NodeState) -> Subject:
    """What a verdict is about: boot, version, digest."""
    return state.boot_id, state.driver.version, state.driver.digest


def _subject(verdict: Validation) -> Subject:
    return verdict.boot_id, verdict.version, verdict.digest


class Validator:
    """The validator between two looks at the state file."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reader = StateReader(settings.state_file, boot_id_file=settings.boot_id_file)
        self._file = settings.report_dir / VERDICT_FILE
        self._child: asyncio.subprocess.Process | None = None
        self._problem = ""
        self._waits_for: str | None = None
        self._last = self._read()
        self._is_told = True
        self._tried: Subject | None = None
        self._rests_until_s = 0.0
        if self._last is not None:
            self._rest(_subject(self._last.validation), self._last.tried_at_s)

    async def readiness(self) -> str:
        """Why there is no passing verdict though there should be one; empty when all is well or nothing is due."""
        return self._problem

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                await self._look()
                await asyncio.sleep(self._settings.poll_s)
        finally:
            self._kill()

    async def _look(self) -> None:
        seen = self._reader.look()
        state = seen.state
        if state is None or seen.problem:
            self._problem = seen.problem
            return
        rests = self._tried == _loaded(state) and boot_seconds() < self._rests_until_s
        objection = self._stuck() or waits_for(state, self._last, rests=rests)
        if objection != self._waits_for:
            self._waits_for = objection
            LOG.info("validation waits_for=%r", objection or "nothing")
        if not objection:
            await self._validate(state)
        problem = self._tell() or self._verdict_problem(state)
        if problem and problem != self._problem:
            LOG.warning("the chips are not validated why=%r", problem)
        self._problem = problem

    async def _validate(self, state: NodeState) -> None:
        self._rest(_loaded(state), boot_seconds())
        task = Task(wanted=validator_verdict.wanted(state), root=str(self._settings.root))
        try:
            tried, complaints = await self._try(task)
        except Inconclusive as busy:
            LOG.info("validation put off why=%r", str(busy))
            return
        verdict = validator_verdict.validation(state, tried, complaints)
        LOG.info("validated passed=%s version=%s chips=%s", verdict.passed, verdict.version, verdict.chips)
        self._last, self._is_told = Report(validation=verdict, tried_at_s=boot_seconds()), False

    def _tell(self) -> str:
        """Write a new verdict; what went wrong with it. It is written again at each look until that works."""
        if self._last is None or self._is_told:
            return ""
        try:
            report.publish(self._file, encode(self._last))
        except OSError as error:
            return f"the verdict cannot be written to {self._file}: {error.strerror or error}"
        self._is_told = True
        return ""

    def _verdict_problem(self, state: NodeState) -> str:
        is_about_this = self._last is not None and _subject(self._last.validation) == _loaded(state)
        return self._last.validation.message if self._last is not None and is_about_this else ""

    def _rest(self, subject: Subject, since_s: float) -> None:
        self._tried, self._rests_until_s = subject, since_s + self._settings.retry_s

    async def _try(self, task: Task) -> tuple[Tried, tuple[Complaint, ...]]:
        """Let the child try. Raises `Inconclusive`."""
        # In a session of its own, so that the tools it started can be ended with it.
        child = await asyncio.create_subprocess_exec(
            *CHILD,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._child = child
        try:
            async with asyncio.timeout(self._settings.trial_s):
                out, err = await child.communicate(msgspec.json.encode(task))
        except TimeoutError:
            self._kill()
            limit_s = self._settings.trial_s
            return Tried(), (Complaint(Reason.ToolWedged, f"trying the chips did not end within {limit_s:g} s"),)
        try:
            tried = msgspec.json.decode(out, type=Tried)
        except msgspec.DecodeError:
            words = err.decode(errors="replace").strip().rpartition("\n")[2] or f"exit status {child.returncode}"
            return Tried(), (Complaint(Reason.AgentFailed, f"the trial ended without a result: {words}"),)
        return tried, validator_verdict.judge(task.wanted, tried)

    def _stuck(self) -> str:
        """No second child while one is stuck in the kernel."""
        if self._child is None or self._child.returncode is not None:
            return ""
        return f"process {self._child.pid} of an earlier try is stuck in the kernel"

    def _kill(self) -> None:
        if self._child is not None and self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)

    def _read(self) -> Report | None:
        """The verdict of an earlier life of this container."""
        try:
            found = decode(self._file.read_bytes())
        except (OSError, msgspec.DecodeError):
            return None  # it is given anew
        return found if found.schema <= SCHEMA else None


async def main(settings: Settings) -> None:
    """Validate whenever it is due, until cancelled."""
    LOG.info("validator starts settings=%s", settings)
    validator = Validator(settings)
    if settings.health_socket is None:
        await validator.run()
        return
    async with await health.serve(settings.health_socket, validator.readiness):
        await validator.run()
