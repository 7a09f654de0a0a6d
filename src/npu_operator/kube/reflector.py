"""Keeps a `Store` like the API server's truth: a list, then a watch, for ever.

It is always in one of four states, and `run` is the only place that moves between them:

    LISTING   pages of all objects go into the store; what the list does not show is removed
    WATCHING  events go into the store; an end that nothing is wrong with is followed by a watch from the last version
    WAITING   after an error, for a time that grows; a version that is too old (410 in both forms) leads to LISTING
    ABSENT    the server has no such resource (its CRD is not installed): look again now and then, or when woken

A list is costly for everybody, so it is made only at the start and after a 410. A watch that has gone quiet is found in
three ways: bookmarks that came and come no more, the server's own time-out that passes without an end, and TCP.
"""

import asyncio
import enum
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import msgspec

from npu_operator.kube.api import ApiError, Clock, Cluster, Gone, NotFound, Resource, Unreachable, WatchEvent
from npu_operator.kube.backoff import Backoff
from npu_operator.kube.objects import Kept, key_of, version_number
from npu_operator.kube.store import Store

WATCH_S = (290, 580)  # as client-go: long enough to cost nothing, spread so that not all end together
OVERDUE_S = 15.0  # after the time at which the server should have ended the watch
SILENCE_S = 150.0  # bookmarks come every 60 s (kube-apiserver, defaultBookmarkFrequency): two and a half are missing
LIVELY_S = 10.0  # a watch that lived that long, or told something, was a good one
FIRST_S, CAP_S = 0.8, 10.0  # client-go has 30 s; ten minutes without a server should not cost half a minute more
TOO_OLD_FIRST_S, TOO_OLD_CAP_S = 0.2, 30.0  # lists are costly, so this grows until a watch has proved to live
ABSENT_FIRST_S, ABSENT_CAP_S = 2.0, 30.0
OPTIONAL_CAP_S = 300.0  # whoever knows sooner calls `wake`
TOO_OLD_IS_TROUBLE = 3  # in a row; once in a while it is the normal way of things

T = TypeVar("T", bound=Kept)


class State(enum.Enum):
    """What the reflector is doing."""

    LISTING = "listing"
    WATCHING = "watching"
    WAITING = "waiting"
    ABSENT = "absent"


class _Name(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Name


_NAMED = msgspec.json.Decoder(_Named)


class Reflector(Generic[T]):
    """Mirrors one resource into `store`.

    `decode` makes a slim object of JSON. `on_trouble` is told of each new error and, with None, when it is over.
    `on_unreadable(key, error)` is told of an object that `decode` does not understand: it is skipped and its last
    readable picture stays, for one object must not blind us for all others. `optional` resources may be missing: then
    the store is empty and counts as synced.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        store: Store[T],
        decode: Callable[[msgspec.Raw], T],
        *,
        clock: Clock,
        rng: random.Random,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        page_size: int = 250,
        optional: bool = False,
        on_trouble: Callable[[ApiError | None], None] = lambda error: None,
        on_unreadable: Callable[[str, Exception], None] = lambda key, error: None,
    ) -> None:
        self.resource = resource
        self.store = store
        self.state = State.LISTING
        self.synced = asyncio.Event()
        """Set after the first complete list (or when an optional resource is not there), and never unset."""
        self.trouble: ApiError | None = None
        """Why we cannot see at the moment; None when we can."""
        self.heard_at = clock.monotonic()
        """Monotonic seconds of the last sign of life from the server, for "how old is our picture"."""
        self.lists = 0
        self.watches = 0
        self._cluster = cluster
        self._decode = decode
        self._clock = clock
        self._rng = rng
        self._where: dict[str, Any] = {"namespace": namespace, "labels": labels, "fields": fields}
        self._page_size = page_size
        self._optional = optional
        self._on_trouble = on_trouble
        self._on_unreadable = on_unreadable
        self._version = ""
        self._newest = 0
        self._list_wanted = False
        self._patience: asyncio.Timeout | None = None
        self._backoff = Backoff(rng, first_s=FIRST_S, cap_s=CAP_S)
        self._too_old = Backoff(rng, first_s=TOO_OLD_FIRST_S, cap_s=TOO_OLD_CAP_S)
        self._absence = Backoff(rng, first_s=ABSENT_FIRST_S, cap_s=OPTIONAL_CAP_S if optional else ABSENT_CAP_S)
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Try again now, when waiting: there is reason to believe that the cause is gone (a CRD was installed)."""
        self._woken.set()

    def list_again(self, decode: Callable[[msgspec.Raw], T]) -> None:
        """Read everything anew with another `decode`, one that keeps more. Takes effect at once."""
        self._decode = decode
        self._list_wanted = True
        if self._patience is not None:
            self._patience.reschedule(0.0)
        self.wake()

    async def run(self) -> None:
        """Mirror until cancelled. Never ends by itself, whatever the server says."""
        while True:
            try:
                if not self._version or self._list_wanted:
                    self.state = State.LISTING
                    await self._list()
                self.state = State.WATCHING
                await self._watch()
            except Gone as error:
                await self._wait_to_list(error)
            except NotFound as error:
                await self._wait_for_resource(error)
            except ApiError as error:
                await self._wait(error)

    async def _list(self) -> None:
        self._list_wanted = False
        seen: set[str] = set()
        version = ""
        pages = self._cluster.list_pages(self.resource, limit=self._page_size, **self._where)
        async with _closing(pages):
            async for page in pages:
                if not version and version_number(page.resource_version) < self._newest:
                    self.store.forget_versions()
                version = page.resource_version
                self.heard_at = self._clock.monotonic()
                for raw in page.items:
                    key, _ = self._take_in(raw)
                    seen.add(key)
                raw = page = None  # type: ignore[assignment]  # megabytes, and the next page is coming
        self.store.remove_others(seen, version)
        self._version = version
        self._newest = version_number(version)
        self.lists += 1
        self.synced.set()
        self._recovered()

    async def _watch(self) -> None:
        """One watch, to an end that nothing is wrong with. Raises ApiError for every other end."""
        self.watches += 1
        timeout_s = self._rng.randint(*WATCH_S)
        started = self._clock.monotonic()
        end = deadline = started + timeout_s + OVERDUE_S
        events = self._cluster.watch(self.resource, resource_version=self._version, timeout_s=timeout_s, **self._where)
        proof = asyncio.get_running_loop().call_later(LIVELY_S, self._watch_lives)
        heard = bookmarks = False
        try:
            async with _closing(events):
                while (event := await self._next(events, deadline)) is not None:
                    heard = True
                    self._watch_lives()
                    self._take_event(event)
                    bookmarks = bookmarks or event.type == "BOOKMARK"
                    deadline = min(end, self.heard_at + SILENCE_S) if bookmarks else end
        finally:
            proof.cancel()
        if not heard and not self._list_wanted and self._clock.monotonic() - started < LIVELY_S:
            raise Unreachable(f"watch {self.resource.name}: the server ended it at once and said nothing")

    async def _next(self, events: AsyncIterator[WatchEvent], deadline: float) -> WatchEvent | None:
        """The next event; None when the watch has ended or a list is wanted. Raises Unreachable after `deadline`."""
        try:
            async with asyncio.timeout(deadline - self._clock.monotonic()) as self._patience:
                return await anext(events, None)
        except TimeoutError as error:
            if self._list_wanted:
                return None
            silent_s = self._clock.monotonic() - self.heard_at
            raise Unreachable(f"watch {self.resource.name}: the server has been silent for {silent_s:.0f} s") from error
        finally:
            self._patience = None

    def _take_event(self, event: WatchEvent) -> None:
        self.heard_at = self._clock.monotonic()
        if event.type == "BOOKMARK":
            version = self._name(event.object).resource_version
        elif event.type == "DELETED":
            gone = self._name(event.object)
            version = gone.resource_version
            self.store.remove(key_of(gone), version)
        else:
            _, version = self._take_in(event.object)
        self._version = version
        self._newest = max(self._newest, version_number(version))

    def _take_in(self, raw: msgspec.Raw) -> tuple[str, str]:
        """Put an object into the store; returns its key and version."""
        try:
            found = self._decode(raw)
        except (msgspec.DecodeError, ValueError) as error:
            name = self._name(raw)
            self._on_unreadable(key_of(name), error)
            return key_of(name), name.resource_version
        self.store.put(found)
        return key_of(found.metadata), found.metadata.resource_version

    def _name(self, raw: msgspec.Raw) -> _Name:
        try:
            return _NAMED.decode(raw).metadata
        except msgspec.DecodeError as error:
            raise ApiError(f"watch {self.resource.name}: the server sent no object: {error}") from error

    async def _wait(self, error: ApiError) -> None:
        self.state = State.WAITING
        self._tell(error)
        await self._pause(self._backoff.next_s(at_least_s=error.retry_after_s))

    async def _wait_to_list(self, error: Gone) -> None:
        self.state = State.WAITING
        self._version = ""
        self._backoff.reset()  # whatever was wrong before, the server is there
        if self._too_old.failures >= TOO_OLD_IS_TROUBLE:
            self._tell(error)
        await self._pause(self._too_old.next_s(at_least_s=error.retry_after_s))

    async def _wait_for_resource(self, error: NotFound) -> None:
        self.state = State.ABSENT
        self._version = ""
        if self._optional:
            self.store.remove_others((), "")
            self.synced.set()
        else:
            self._tell(error)
        await self._pause(self._absence.next_s())

    async def _pause(self, seconds: float) -> None:
        self._woken.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return

    def _tell(self, error: ApiError) -> None:
        is_new = str(error) != str(self.trouble)
        self.trouble = error
        if is_new:
            self._on_trouble(error)

    def _watch_lives(self) -> None:
        self._too_old.reset()
        self._recovered()

    def _recovered(self) -> None:
        self._backoff.reset()
        self._absence.reset()
        if self.trouble is not None:
            self.trouble = None
            self._on_trouble(None)


@asynccontextmanager
async def _closing(stream: AsyncIterator[Any]) -> AsyncIterator[None]:
    """Give the connection back at once, also when the reader stops in the middle."""
    try:
        yield
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
