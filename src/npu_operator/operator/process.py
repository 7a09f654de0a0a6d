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

STUCK_S = 300.0
"""A leader that has work and has planned nothing for that long is stuck; a single plan takes well below a second."""


class Replica:
    """Everything that runs in one process. `run` returns after a clean stop."""

    def __init__(self, cluster: Cluster, clock: Clock, settings: Settings, rng: random.Random, calls: Calls) -> None:
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
        collector = metrics.OperatorMetrics(self.operator, calls, is_leader=lambda: self.elector.is_leading)
        self.web = WebServer(
            {
                "/healthz": self.health,
                "/readyz": self.readiness,
                "/metrics": lambda: Answer(metrics.text(collector), content_type=metrics.CONTENT_TYPE),
            },
            host=settings.listen_host,
            port=settings.listen_port,
        )

    def health(self) -> Answer:
        """Alive? The loop answers this itself; it also says no when there is work that nobody takes up."""
        idle_s = self._clock.monotonic() - self.operator.last_round
        if (
            self.elector.is_leading
            and self.operator.picture.is_complete
            and len(self.operator.queue)
            and idle_s > STUCK_S
        ):
            return Answer(f"work waits, but nothing has been planned for {idle_s:.0f} s\n", 500)
        return Answer("ok\n")

    def readiness(self) -> Answer:
        """Able to work or to take over: everything has been listed and the API server refuses nothing."""
        problems = self.operator.picture.trouble
        if problems:
            return Answer("".join(f"{problem}\n" for problem in problems), 503)
        return Answer("leading\n" if self.elector.is_leading else "standing by\n")

    async def run(self) -> None:
        """Work until cancelled; then give the lease back. Raises `LeaseLost` when somebody else has it."""
        await self.web.start()
        LOG.info("started", listen=":".join(map(str, self.web.address)), **_shown(self._settings))
        try:
            async with asyncio.TaskGroup() as group:
                for reflector in self.operator.picture.reflectors:
                    group.create_task(reflector.run(), name=f"reflect {reflector.resource.name}")
                group.create_task(self._reflect_optional(), name="reflect optional resources")
                group.create_task(self._stand_for_election(), name="lead")
        finally:
            await self.web.close()

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


async def run_until_signal(replica: Replica) -> None:
    """Run; SIGTERM and SIGINT end it cleanly."""
    task = asyncio.current_task()
    assert task is not None, "called from a task"
    loop = asyncio.get_running_loop()
    stopped = False

    def stop(number: signal.Signals) -> None:
        nonlocal stopped
        stopped = True
        LOG.info("stopping", signal=number.name)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [loop.remove_signal_handler(number) for number in (signal.SIGTERM, signal.SIGINT)])
        try:
            await replica.run()
        except asyncio.CancelledError:
            if not stopped:
                raise
            task.uncancel()


def _shown(settings: Settings) -> dict[str, str]:
    return {
        "namespace": settings.namespace,
        "identity": settings.identity,
        "image": settings.image,
        "version": settings.version,
    }
