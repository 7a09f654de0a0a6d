"""The exporter's process: one small server that looks at the state file when it is scraped."""

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from npu_operator.components import environment
from npu_operator.components.exporter import PORT
from npu_operator.model import names
from npu_operator.node.exporter import metrics
from npu_operator.node.reader import BOOT_ID_FILE, BOOT_ID_FILE_VARIABLE, STALE_S, StateReader, boot_seconds
from npu_operator.web import Answer, WebServer

LOG = logging.getLogger(__name__)

HIGHEST_PORT = 65535
MINDCLUSTER_PATH = "/metrics/mindcluster"
"""The page of the metrics with labels in camelCase, for dashboards that join them."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the exporter is told at its start."""

    listen_host: str = "0.0.0.0"  # noqa: S104  # kubelet and Prometheus come from other addresses
    listen_port: int = PORT
    """0 takes any free one."""
    state_file: Path = Path(names.STATE_FILE)
    boot_id_file: Path = BOOT_ID_FILE


def from_environment(env: Mapping[str, str] = os.environ) -> Settings:
    """The settings in a pod's environment. Raises ValueError that names the variable with a wrong value."""
    port = env.get(environment.METRICS_PORT) or str(PORT)
    if not port.isdecimal() or int(port) > HIGHEST_PORT:
        raise ValueError(f"{environment.METRICS_PORT}: {port!r} is no port; it is a number up to {HIGHEST_PORT}")
    return Settings(listen_port=int(port), boot_id_file=Path(env.get(BOOT_ID_FILE_VARIABLE) or BOOT_ID_FILE))


class Exporter:
    """What the paths of the exporter say."""

    def __init__(self, settings: Settings) -> None:
        self._reader = StateReader(settings.state_file, boot_id_file=settings.boot_id_file)
        self.server = WebServer(
            {
                "/metrics": self.metrics,
                MINDCLUSTER_PATH: self.mindcluster_metrics,
                "/healthz": self.health,
                "/readyz": self.readiness,
            },
            host=settings.listen_host,
            port=settings.listen_port,
        )

    def metrics(self) -> Answer:
        """One scrape. Prometheus shall have the numbers that there are, so a bad state file is no error here."""
        return Answer(metrics.text(self._reader.look(), boot_seconds()), content_type=metrics.CONTENT_TYPE)

    def mindcluster_metrics(self) -> Answer:
        """One scrape of the other page."""
        return Answer(metrics.mindcluster_text(self._reader.look()), content_type=metrics.CONTENT_TYPE)

    def health(self) -> Answer:
        """The loop answers."""
        return Answer("ok\n")

    def readiness(self) -> Answer:
        """Whether there is something to show."""
        seen = self._reader.look()
        if seen.state is None or seen.problem:
            return Answer(f"{seen.problem}\n", 503)
        if seen.is_stale:
            return Answer(f"the state file is older than {STALE_S:.0f} s; the node agent is silent\n", 503)
        return Answer("ok\n")


async def main(settings: Settings) -> None:
    """Serve until cancelled. Raises OSError when the port is taken."""
    exporter = Exporter(settings)
    await exporter.server.start()
    LOG.info("exporter listens address=%s:%s settings=%s", *exporter.server.address, settings)
    try:
        await asyncio.get_running_loop().create_future()  # for ever
    finally:
        await exporter.server.close()
