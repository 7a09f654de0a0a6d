"""Who of several replicas is in charge: one `Lease` object that the leader renews and the others watch.

Rules and timings are client-go's. Nobody compares calendars: a follower counts by its own monotonic clock for how long
the lease has not changed. The leader stops before the others may begin: it gives up when a renewal has not succeeded
within `renew_s`, and `retry_s + renew_s` is less than `duration_s`. Whoever loses the lease must end the process: it
cannot take back what it has begun. A leader that ends in order releases the lease, so that the next one need not wait.
"""

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from npu_operator.kube.api import LEASES, ApiError, Clock, Cluster, Conflict, NotFound, Object
from npu_operator.kube.clock import micro_stamp
from npu_operator.kube.objects import Meta

LAST_TRIES_S = 0.1  # between the tries right before giving up, which come quicker and quicker


class Timings(msgspec.Struct, frozen=True):
    """Seconds, as client-go has them."""

    duration_s: int = 15
    """How long a lease counts after its last renewal."""
    renew_s: float = 10.0
    """How long the leader tries to renew before it gives up."""
    retry_s: float = 2.0
    """How often to renew, and to look whether the lease is free."""

    def __post_init__(self) -> None:
        if not (0 < self.retry_s < self.renew_s and self.retry_s + self.renew_s < self.duration_s):
            raise ValueError(
                f"lease timings would allow two leaders: retry {self.retry_s:g} s and renew {self.renew_s:g} s "
                f"must together be less than duration {self.duration_s} s, and retry less than renew"
            )


CLIENT_GO = Timings()


class LeaseLost(Exception):
    """We are no longer in charge. Raised by `hold`; whatever only a leader may do ends at once.

    With `is_taken` another one is in charge (or somebody took the lease away): the process should end. Without, nobody
    answered for too long, and perhaps nobody else could take it: stand for election again.
    """

    def __init__(self, message: str, *, is_taken: bool) -> None:
        super().__init__(message)
        self.is_taken = is_taken


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct):
    metadata: Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Lease).decode


def identity_of(host: str) -> str:
    """A name for this process that no other one has, not even the one before it on the same host."""
    return f"{host}_{uuid.uuid4()}"


class Elector:
    """Takes part in the election for the lease `namespace/name`.

    `on_leader` is told of each new leader that is seen, ourselves included; `on_trouble` of each failed request.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        *,
        identity: str,
        manager: str,
        clock: Clock,
        rng: random.Random,
        timings: Timings = CLIENT_GO,
        on_leader: Callable[[str], None] = lambda identity: None,
        on_trouble: Callable[[ApiError], None] = lambda error: None,
    ) -> None:
        self.identity = identity
        self.leader = ""
        """The last holder that was seen."""
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._what = f"lease {namespace}/{name}"
        self._manager = manager
        self._clock = clock
        self._rng = rng
        self._timings = timings
        self._on_leader = on_leader
        self._on_trouble = on_trouble
        self._seen: _Lease | None = None
        self._seen_at = clock.monotonic()
        self._renewed_at = float("-inf")

    @property
    def is_leading(self) -> bool:
        """May we act now? False as well when renewals have failed for too long."""
        renewed_ago_s = self._clock.monotonic() - self._renewed_at
        return self.leader == self.identity and renewed_ago_s < self._timings.retry_s + self._timings.renew_s

    async def acquire(self) -> None:
        """Wait until we are in charge; for ever if need be, through all errors."""
        while not await self._try_to_acquire():
            await self._clock.sleep(self._timings.retry_s * self._rng.uniform(1.0, 1.2))

    async def hold(self) -> None:
        """Renew for as long as that works. Raises LeaseLost; never returns."""
        while True:
            await self._clock.sleep(self._timings.retry_s)
            await self._renew()

    async def release(self) -> None:
        """Give the lease up, if it is ours, for the next one to take at once. Errors are told, not raised."""
        try:
            async with asyncio.timeout(self._timings.retry_s):
                while self.leader == self.identity and self._seen is not None:
                    try:
                        self._observe(await self._write(self._seen, self._release()))
                    except Conflict:  # a renewal that was cancelled has arrived after all
                        await self._look()
        except ApiError as error:
            self._on_trouble(error)
        except TimeoutError:
            pass  # the others wait for the lease to run out, as after a crash
        self._renewed_at = float("-inf")

    async def lead(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the lease, then `work` while we hold it, then release it.

        Work is cancelled when the lease is lost, and LeaseLost raised. The lease is renewed until the work has stopped
        and only then released, whether it returned, failed or was cancelled.
        """
        await self.acquire()
        holding = asyncio.create_task(self.hold())
        working = asyncio.create_task(work())
        try:
            await asyncio.wait((working, holding), return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)
            await self.release()
        if not holding.cancelled():
            await holding
        await working

    async def _try_to_acquire(self) -> bool:
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._timings.renew_s):
                seen = await self._look()
                if seen is None:
                    self._observe(await self._create())
                elif self._is_free(seen):
                    self._observe(await self._write(seen, self._claim(seen)))
                else:
                    return False
        except Conflict:
            return False  # somebody else was faster
        except ApiError as error:
            self._on_trouble(error)
            return False
        except TimeoutError:
            return False
        self._renewed_at = began
        return True

    async def _renew(self) -> None:
        """Renew once; try again for up to `renew_s`. Raises LeaseLost."""
        why = "no answer"
        give_up_at = self._clock.monotonic() + self._timings.renew_s
        while (left_s := give_up_at - self._clock.monotonic()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self._update()
            except NotFound as error:
                raise LeaseLost(f"{self._what} was deleted", is_taken=True) from error
            except ApiError as error:
                why = str(error)
                self._on_trouble(error)
                await self._clock.sleep(min(self._timings.retry_s, max(left_s / 2, LAST_TRIES_S)))
            except TimeoutError:
                continue
            else:
                return
        raise LeaseLost(f"{self._what} was not renewed for {self._timings.renew_s:g} s: {why}", is_taken=False)

    async def _update(self) -> None:
        """One guarded update; a look and a second one when somebody has written meanwhile."""
        began = self._clock.monotonic()
        renewed = {"renewTime": micro_stamp(self._clock.now())}
        assert self._seen is not None, "who holds a lease has seen it"
        try:
            answer = await self._write(self._seen, renewed)
        except Conflict:  # our own write that we thought lost, somebody's label, or another leader
            seen = await self._look()
            holder = seen.spec.holder_identity if seen is not None else None
            if seen is None or holder != self.identity:
                raise LeaseLost(f"{self._what} is held by {holder or 'nobody'}", is_taken=True) from None
            answer = await self._write(seen, renewed)
        self._observe(answer)
        self._renewed_at = began

    async def _look(self) -> _Lease | None:
        try:
            seen = _decode(await self._cluster.get(LEASES, self._name, self._namespace))
        except NotFound:
            return None
        self._observe_lease(seen)
        return seen

    def _observe(self, answer: bytes) -> None:
        self._observe_lease(_decode(answer))

    def _observe_lease(self, seen: _Lease) -> None:
        if self._seen is None or self._seen.metadata.resource_version != seen.metadata.resource_version:
            self._seen_at = self._clock.monotonic()
        self._seen = seen
        holder = seen.spec.holder_identity or ""
        if holder != self.leader:
            self.leader = holder
            if holder:
                self._on_leader(holder)

    def _is_free(self, lease: _Lease) -> bool:
        if not lease.spec.holder_identity or lease.spec.holder_identity == self.identity:
            return True
        lasts_s = lease.spec.lease_duration_seconds or self._timings.duration_s
        return self._clock.monotonic() - self._seen_at > lasts_s

    def _claim(self, lease: _Lease | None) -> Object:
        now = micro_stamp(self._clock.now())
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timings.duration_s,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0 if lease is None else (lease.spec.lease_transitions or 0) + 1,
        }

    def _release(self) -> Object:
        now = micro_stamp(self._clock.now())
        return {"holderIdentity": None, "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}

    async def _create(self) -> bytes:
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._claim(None),
        }
        return await self._cluster.create(LEASES, body, self._namespace, manager=self._manager)

    async def _write(self, seen: _Lease, spec: Object) -> bytes:
        body = {"metadata": {"resourceVersion": seen.metadata.resource_version}, "spec": spec}
        return await self._cluster.patch(LEASES, self._name, body, self._namespace, manager=self._manager)
