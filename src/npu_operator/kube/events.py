"""Events for people: best effort, never in the way.

`record` only puts a note into a bounded queue and returns; a task sends. The same statement about the same object again
is no new event but a series: its count and last time are patched, at most once in `PATCH_EVERY_S`. When the server is
away or the queue is full, events are dropped and counted: logs and status tell the whole story anyway.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from npu_operator.kube.api import EVENTS, ApiError, Clock, Cluster, Conflict, Forbidden, Invalid, NotFound, Object
from npu_operator.kube.clock import micro_stamp
from npu_operator.kube.queue import WorkQueue

UNSENT = 1000  # a rollout over a big fleet makes about ten events a second
SERIES_S = 360.0  # as client-go: a statement repeated after six quiet minutes is a new event
PATCH_EVERY_S = 60.0
TRIES = 3
FIRST_S, CAP_S = 1.0, 30.0
LONGEST_NOTE = 1024  # bytes; the server refuses more (pkg/apis/core/validation/events.go)
LONGEST_INSTANCE = 128
LONGEST_PREFIX = 236  # of the 253 that a name may have; a dot and 16 digits follow


class Reference(msgspec.Struct, frozen=True):
    """The object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    def as_object(self) -> Object:
        """As in an event; empty fields are left out."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {key: value for key, value in fields.items() if value}


class _Key(msgspec.Struct, frozen=True):
    """What makes two events the same statement; the object's version does not count."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    action: str
    note: str


class _Series:
    """A statement, and how often it was made."""

    def __init__(self, body: Object, now: float) -> None:
        self.body = body
        self.count = 1
        self.seen_at = now
        self.sent_at: float | None = None
        self.sent_count = 0


class Recorder:
    """Records events as `controller` (a qualified name), running as `instance` (a pod's name).

    `run` has to run beside. `on_trouble` is told when an event could not be written (no rights, for example).
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        controller: str,
        instance: str,
        clock: Clock,
        rng: random.Random,
        on_trouble: Callable[[ApiError], None] = lambda error: None,
    ) -> None:
        self.dropped = 0
        """Events that were never written."""
        self._cluster = cluster
        self._controller = controller
        self._instance = instance[-LONGEST_INSTANCE:]
        self._clock = clock
        self._rng = rng
        self._on_trouble = on_trouble
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._queue: WorkQueue[_Key] = WorkQueue(clock, rng, first_s=FIRST_S, cap_s=CAP_S)

    def record(
        self, regarding: Reference, *, type_: str, reason: str, action: str, note: str, related: Reference | None = None
    ) -> None:
        """State something about an object. Returns at once and never fails.

        `type_` is Normal or Warning; `reason` and `action` are CamelCase words: why, and what is done about it.
        """
        now = self._clock.monotonic()
        self._forget_before(now - SERIES_S)
        about = (regarding.kind, regarding.namespace, regarding.name, regarding.uid)
        key = _Key(*about, type_, reason, action, _cut(note))
        known = self._series.get(key)
        if known is not None:
            known.count += 1
            known.seen_at = now
            self._series.move_to_end(key)
            if known.sent_at is not None:
                self._queue.add_after(key, known.sent_at + PATCH_EVERY_S - now)
        elif len(self._queue) + self._queue.delayed >= UNSENT:
            self.dropped += 1
        else:
            self._series[key] = _Series(self._body(key, regarding, related), now)
            self._queue.add(key)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._send_next()

    async def flush(self, *, within_s: float) -> None:
        """At the end of the process: send what is due, for a little while. `run` may have ended."""
        try:
            async with asyncio.timeout(within_s):
                while len(self._queue):
                    await self._send_next()
        except TimeoutError:
            self.dropped += len(self._queue)

    async def _send_next(self) -> None:
        key = await self._queue.take()
        try:
            await self._send(key)
        except asyncio.CancelledError:
            self._queue.add(key)  # for `flush`; should it have arrived, its name is taken
            raise
        except ApiError as error:
            hopeless = isinstance(error, Forbidden | Invalid | NotFound)
            if hopeless or self._queue.failures(key) + 1 >= TRIES:
                self.dropped += 1
                self._series.pop(key, None)
                self._queue.forget(key)
                self._on_trouble(error)
            else:
                self._queue.retry(key, at_least_s=error.retry_after_s)
        else:
            self._queue.forget(key)
        finally:
            self._queue.done(key)

    async def _send(self, key: _Key) -> None:
        series = self._series.get(key)
        if series is None or series.sent_count == series.count:
            return
        count = series.count
        if series.sent_at is None:
            await self._create(series)
        else:
            try:
                await self._patch(series)
            except NotFound:  # events live for an hour
                await self._create(series)
        series.sent_at = self._clock.monotonic()
        series.sent_count = count
        if series.count > count:  # again, while we were sending
            self._queue.add_after(key, PATCH_EVERY_S)

    async def _create(self, series: _Series) -> None:
        body = {**series.body, **self._tally(series)} if series.count > 1 else series.body
        try:
            await self._cluster.create(EVENTS, body, body["metadata"]["namespace"], manager=self._controller)
        except Conflict:  # our earlier try did arrive
            return

    async def _patch(self, series: _Series) -> None:
        name, namespace = series.body["metadata"]["name"], series.body["metadata"]["namespace"]
        await self._cluster.patch(EVENTS, name, self._tally(series), namespace, manager=self._controller)

    def _tally(self, series: _Series) -> Object:
        seen_ago_s = self._clock.monotonic() - series.seen_at
        return {"series": {"count": series.count, "lastObservedTime": micro_stamp(self._clock.now() - seen_ago_s)}}

    def _body(self, key: _Key, regarding: Reference, related: Reference | None) -> Object:
        body: Object = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{key.name[:LONGEST_PREFIX]}.{self._rng.getrandbits(64):016x}",
                "namespace": key.namespace or "default",  # where events about cluster-scoped objects have to be
            },
            "eventTime": micro_stamp(self._clock.now()),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "type": key.type,
            "reason": key.reason,
            "action": key.action,
            "note": key.note,
            "regarding": regarding.as_object(),
        }
        if related is not None:
            body["related"] = related.as_object()
        return body

    def _forget_before(self, time: float) -> None:
        """End the series that have been quiet since `time`; what is still to be sent of them is sent."""
        while self._series:
            key, oldest = next(iter(self._series.items()))
            if oldest.seen_at >= time or oldest.sent_at is None or oldest.sent_count < oldest.count:
                return
            del self._series[key]


def _cut(note: str) -> str:
    """At most as many bytes as the server takes."""
    raw = note.encode()
    return note if len(raw) <= LONGEST_NOTE else raw[: LONGEST_NOTE - 3].decode("utf-8", "ignore") + "…"
