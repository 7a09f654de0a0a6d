"""The device plugin's loop: looks at the state file twice a second and keeps the kubelet in the picture.

Everything it knows comes from that file, and everything it does goes to the kubelet's sockets; it asks no API server,
runs no program, and opens no device. Two resources are offered: the node's chips, and one device for the validator.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from npu_operator.components import environment
from npu_operator.components.device_plugin import KUBELET_DIR
from npu_operator.model import names
from npu_operator.model.chips import ChipFamily
from npu_operator.model.ctl import Injection
from npu_operator.model.npunode import AgentMessage
from npu_operator.model.reasons import Reason
from npu_operator.node import health, report
from npu_operator.node.deviceplugin import offers
from npu_operator.node.deviceplugin.answers import Answers, Chips, Validation
from npu_operator.node.deviceplugin.calls import Calls
from npu_operator.node.deviceplugin.server import Pace, ResourceServer
from npu_operator.node.reader import BOOT_ID_FILE, BOOT_ID_FILE_VARIABLE, STALE_S, Seen, StateReader
from npu_operator.node.state import NodeState

LOG = logging.getLogger(__name__)

AGENT: Final = "device-plugin"
SILENT: Final = (
    f"the state file is older than {STALE_S:.0f} s, so the node agent is silent; chips keep the health they had"
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the plugin is told at its start."""

    injection: Injection = Injection.CDI
    resource_names: Mapping[ChipFamily, str] = {}
    """Resource names by chip family, where they differ from the usual ones."""
    kubelet_dir: Path = Path(KUBELET_DIR)
    state_file: Path = Path(names.STATE_FILE)
    boot_id_file: Path = BOOT_ID_FILE
    health_socket: Path | None = None
    """Where the kubelet's probes are answered; None: nowhere."""
    report_dir: Path | None = None
    """Where the plugin tells the node agent what is wrong; None: nowhere."""
    poll_s: float = 0.5
    pace: Pace = Pace()


def from_environment(env: Mapping[str, str] = os.environ) -> Settings:
    """The settings in a pod's environment. Raises ValueError that names the variable with a wrong value."""
    try:
        injection = Injection(env.get(environment.INJECTION) or Injection.CDI)
    except ValueError as error:
        raise ValueError(f"{environment.INJECTION}: {error}; it is one of {', '.join(Injection)}") from error
    try:
        renamed = msgspec.json.decode(env.get(environment.RESOURCE_NAMES) or "{}", type=dict[ChipFamily, str])
    except msgspec.DecodeError as error:
        raise ValueError(
            f'{environment.RESOURCE_NAMES}: {error}; it is a JSON object such as {{"910b": "huawei.com/Ascend910B"}}'
        ) from error
    return Settings(
        injection=injection,
        resource_names=renamed,
        boot_id_file=Path(env.get(BOOT_ID_FILE_VARIABLE) or BOOT_ID_FILE),
        health_socket=_path(env, environment.HEALTH_SOCKET),
        report_dir=_path(env, environment.REPORT_DIR),
    )


def _path(env: Mapping[str, str], variable: str) -> Path | None:
    return Path(env[variable]) if env.get(variable) else None


class Plugin:
    """The plugin between two looks at the state file."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reader = StateReader(settings.state_file, boot_id_file=settings.boot_id_file)
        self._seen = Seen()
        self._waits_for = ""
        self._resources: list[tuple[Calls, ResourceServer]] = []
        self._told: str | None = None

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                await self._look()
                await asyncio.sleep(self._settings.poll_s)
        finally:
            await self._withdraw()

    @property
    def problem(self) -> str:
        """What keeps pods from getting chips, or the plugin from knowing them; empty when nothing does."""
        if self._seen.state is None:
            return self._seen.problem
        found = (server.problem for _, server in self._resources)
        waits_for = "" if self._resources else self._waits_for
        return next((problem for problem in (waits_for, *found, self._seen.problem) if problem), "") or (
            SILENT if self._seen.is_stale else ""
        )

    async def readiness(self) -> str:
        """As `problem`; and each resource is asked for the way the kubelet asks."""
        for _, server in self._resources:
            if problem := await server.probe():
                return problem
        return self.problem

    async def _look(self) -> None:
        """What changed goes to the kubelet, a lost registration is renewed, a problem is told once."""
        self._seen = self._reader.look()
        state = self._seen.state
        if state is not None:
            self._waits_for = offers.waits_for(state, self._settings.injection)
            await self._choose_resources(state)
        for calls, server in self._resources:
            if state is not None:
                calls.know(state)
            server.keep(waits_for=self._waits_for)
        self._tell()

    async def _choose_resources(self, state: NodeState) -> None:
        """Which resources there are is known with the chips; nothing is served before it may be registered."""
        chips = offers.resource(state, self._settings.resource_names)
        if self._resources and chips and self._resources[0][1].resource != chips:
            LOG.warning("the chips are another resource now before=%s now=%s", self._resources[0][1].resource, chips)
            await self._withdraw()
        if not self._resources and not self._waits_for:
            injection = self._settings.injection
            self._resources = [
                self._offer(chips, Chips(state, injection)),
                self._offer(names.VALIDATION_RESOURCE, Validation(state, injection)),
            ]

    def _offer(self, resource: str, answers: Answers) -> tuple[Calls, ResourceServer]:
        calls = Calls(resource, answers)
        return calls, ResourceServer(resource, self._settings.kubelet_dir, calls, self._settings.pace)

    async def _withdraw(self) -> None:
        resources, self._resources = self._resources, []
        for _, server in resources:
            await server.close()

    def _tell(self) -> None:
        """The problem, in the log and to the node agent, when it is another one than before."""
        problem = self.problem
        if problem == self._told:
            return
        self._told = problem
        if problem:
            LOG.warning("chips are not handed out as they should be why=%r", problem)
        else:
            LOG.info("chips are handed out")
        if self._settings.report_dir is not None:
            self._report(self._settings.report_dir, problem)

    def _report(self, directory: Path, problem: str) -> None:
        messages = [AgentMessage(agent=AGENT, reason=Reason.AgentFailed, message=problem)] if problem else []
        try:
            report.publish(directory / report.MESSAGES_FILE, report.encode_messages(messages))
        except OSError as error:
            LOG.warning("cannot report to the node agent directory=%s error=%r", directory, str(error))


async def main(settings: Settings) -> None:
    """Offer the node's chips until cancelled."""
    LOG.info("device plugin starts settings=%s", settings)
    plugin = Plugin(settings)
    if settings.health_socket is None:
        await plugin.run()
        return
    async with await health.serve(settings.health_socket, plugin.readiness):
        await plugin.run()
