"""`npu-operator run`: one replica. It watches from its start, to take over at once, and decides only while it leads.

It ends in three ways: on SIGTERM or SIGINT it gives the lease back, so that the next replica goes on without waiting;
when another one has taken the lease it exits with an error; and on a bug of ours it crashes, which is safe at any time.
"""

import asyncio
import contextlib
import random
import signal

import structlog

from npu_operator.kube.api import Clock, Cluster
from npu_operator.kube.calls import Calls
from npu_operator.kube.lease import Elector, LeaseLost
from npu_operator.model import names
from npu_operator.operator import metrics
from npu_operator.operator.loop import Operator
from npu_operator.operator.resources import SERVICE_MONITOR_CRD
from npu_operator.operator.settings import Settings
from npu_operator.web import Answer, WebServer

LOG = structlog.get_logger()

SIGNALS = (signal.SIGTERM, signal.SIGINT)
STUCK_S = 300.0
"""A leader that has work and has planned nothing for that long is stuck; a single plan takes well below a second."""


class Replica:
    """What one process watches and decides; `run` ends only by an error or by being cancelled."""

    def __init__(self, cluster: Cluster, clock: Clock, settings: Settings, rng: random.Random) -> None:
        self._clock = clock
        self._settings = settings
        self.operator = Operator(cluster, clock, settings, rng)
        self.elector = Elector(
            cluster,
            settings.namespace,
            names.LEASE_LEADER,
            identity=settings.identity,
            manager=f"{names.OPERATOR_NAME}/lease",
            clock=clock,
            rng=rng,
            timings=settings.lease,
            on_leader=lambda identity: LOG.info("leader seen", leader=identity),
            on_trouble=lambda error: LOG.warning("lease not renewed", error=str(error)),
        )

    def health(self) -> Answer:
        """Alive? The loop answers this itself; it also says no when there is work that nobody takes up."""
        idle_s = self._clock.monotonic() - self.operator.last_round
        has_work = self.operator.picture.is_complete and len(self.operator.queue) > 0
        if self.elector.is_leading and has_work and idle_s > STUCK_S:
            return Answer(f"work waits, but nothing has been planned for {idle_s:.0f} s\n", 500)
        return Answer("ok\n")

    def readiness(self) -> Answer:
        """Able to work or to take over: everything has been listed and the API server refuses nothing."""
        problems = self.operator.picture.trouble
        if problems:
            return Answer("".join(f"{problem}\n" for problem in problems), 503)
        return Answer("leading\n" if self.elector.is_leading else "standing by\n")

    async def run(self) -> None:
        """Watch, and decide while leading. Raises `LeaseLost`, in a group, when somebody else has the lease."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.operator.picture.reflectors:
                group.create_task(reflector.run(), name=f"reflect {reflector.resource.name}")
            group.create_task(self._reflect_optional(), name="reflect optional resources")
            group.create_task(self._stand_for_election(), name="lead")

    async def _stand_for_election(self) -> None:
        """Lead whenever we hold the lease. An API server that is silent for a while is no reason to end."""
        while True:
            try:
                await self.elector.lead(self._lead)
            except LeaseLost as lost:
                if lost.is_taken:
                    raise
                LOG.warning("acting is suspended until the API server answers", error=str(lost))

    async def _lead(self) -> None:
        LOG.info("leading", identity=self._settings.identity)
        self.operator.writer.forget_wishes()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.operator.writer.run(), name="write")
            group.create_task(self.operator.events.run(), name="events")
            group.create_task(self.operator.lead(), name="reconcile")

    async def _reflect_optional(self) -> None:
        """Watch ServiceMonitors once the cluster knows them; to ask for what is not there would be polling."""
        known = asyncio.Event()
        definition = self.operator.picture.crds[SERVICE_MONITOR_CRD]
        definition.on_change(lambda _, new: known.set() if new is not None else None)
        await known.wait()
        async with asyncio.TaskGroup() as group:
            for reflector in self.operator.picture.optional:
                group.create_task(reflector.run(), name=f"reflect {reflector.resource.name}")


async def serve(replica: Replica, settings: Settings, calls: Calls) -> None:
    """Run a replica with its probes and metrics; SIGTERM and SIGINT end it cleanly."""
    collector = metrics.OperatorMetrics(replica.operator, calls, is_leader=lambda: replica.elector.is_leading)
    web = WebServer(
        {
            "/healthz": replica.health,
            "/readyz": replica.readiness,
            "/metrics": lambda: Answer(metrics.text(collector), content_type=metrics.CONTENT_TYPE),
        },
        host=settings.listen_host,
        port=settings.listen_port,
    )
    await web.start()
    LOG.info("started", listen=":".join(map(str, web.address)), **_shown(settings))
    try:
        await _until_signal(replica)
    finally:
        await web.close()


async def _until_signal(replica: Replica) -> None:
    running = asyncio.create_task(replica.run(), name="replica")
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        LOG.info("stopping", signal=number.name)
        running.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await running
    finally:
        running.cancel()
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def _shown(settings: Settings) -> dict[str, str]:
    return {
        "namespace": settings.namespace,
        "identity": settings.identity,
        "image": settings.image,
        "version": settings.version,
    }
