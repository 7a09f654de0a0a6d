"""`npu-operator run`: logs, settings and the process around one replica."""

import random
import sys
from pathlib import Path

import msgspec
import structlog

from npu_operator.kube import client
from npu_operator.kube.api import ApiError
from npu_operator.kube.clock import SystemClock
from npu_operator.kube.connection import BadConfig
from npu_operator.kube.lease import LeaseLost
from npu_operator.operator.process import Replica, serve
from npu_operator.operator.settings import from_environment

LOG = structlog.get_logger()

FAILED, WRONG_USE = 1, 2
EXPECTED = (LeaseLost, ApiError, OSError)
"""Ends that are no bug of ours; one sentence says enough."""
HIGHEST_PORT = 65535


def configure_logs(log_format: str) -> None:
    """One line per event on standard error: JSON for machines, coloured text for people."""
    as_text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if as_text else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


async def run(
    *,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    image: str | None,
    listen: str,
    log_format: str,
) -> int:
    """Run one replica until a signal; returns the exit status."""
    configure_logs(log_format)
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > HIGHEST_PORT:
        return _complain(f"--listen {listen}: must be HOST:PORT, for example 127.0.0.1:8080", WRONG_USE)
    told = from_environment()
    settings = msgspec.structs.replace(
        told,
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace or told.namespace,
        image=image or told.image,
        listen_host=host,
        listen_port=int(port),
    )
    rng = random.Random()  # noqa: S311  # jitter
    clock = SystemClock()
    try:
        cluster = client.connect(
            settings.kubeconfig, settings.context, clock=clock, rng=rng, user_agent=f"npu-operator/{settings.version}"
        )
    except BadConfig as error:
        return _complain(str(error), WRONG_USE)
    try:
        await serve(Replica(cluster, clock, settings, rng), settings, cluster.calls)
    except BaseExceptionGroup as group:
        ended = group.subgroup(EXPECTED)
        if ended is None or group.split(EXPECTED)[1] is not None:
            raise  # a bug of ours: the traceback is what somebody needs
        return _complain(_first(ended), FAILED)
    except OSError as error:
        return _complain(error.strerror or str(error), FAILED)
    finally:
        await cluster.close()
    LOG.info("stopped")
    return 0


def _first(group: BaseExceptionGroup[BaseException]) -> str:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)


def _complain(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status
