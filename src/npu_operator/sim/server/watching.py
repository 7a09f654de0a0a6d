"""Watches: what happened since a version, then what happens, as one stream of events.

With a selector, an object that begins to match is ADDED and one that ceases to match is DELETED (with its last matching
state and the version of the change), as the real watch cache does it. Bookmarks come about once a minute and shortly
before the end.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import msgspec

from npu_operator.kube.api import Resource, WatchEvent
from npu_operator.sim.server import refusals
from npu_operator.sim.server.objects import Stored
from npu_operator.sim.server.refusals import Refused
from npu_operator.sim.server.selectors import Selection
from npu_operator.sim.server.store import Event

if TYPE_CHECKING:
    from npu_operator.sim.server.apiserver import ApiServer

BOOKMARK_EVERY_S: Final = 60.0
LAST_BOOKMARK_S: Final = 2.0  # before the end of the watch


class Broken(Exception):
    """The line of a watch broke; raised by `Watch.events` in place of the next event."""


class Watch:
    """One open watch."""

    def __init__(self, server: "ApiServer", resource: Resource, selection: Selection, timeout_s: float) -> None:
        self.resource = resource
        self.is_silent = False
        """Nothing arrives any more, though nobody hung up: a dead line."""
        self._server = server
        self._table = server.table(resource)
        self._selection = selection
        self._queue: deque[WatchEvent] = deque()
        self._wake = asyncio.Event()
        self._end: Broken | Refused | None = None
        name = selection.wanted("metadata.name")
        self._listeners = self._table.listeners if name is None else self._table.named.setdefault(name, [])
        self._ends_at_s = server.clock.monotonic() + timeout_s

    def start(self, resource_version: str) -> None:
        """Begin after a version; "" and "0" begin with everything there is. Raises Refused (410, 500)."""
        if resource_version in ("", "0"):
            for stored in self._table.in_order(self._selection):
                self._queue.append(WatchEvent("ADDED", stored.whole()))
        else:
            if not resource_version.isdecimal():
                text = f'resourceVersion: Invalid value: "{resource_version}": invalid syntax'
                raise refusals.internal(text)
            late = self._table.since(int(resource_version))
            if late is None:
                oldest = self._table.forgotten + 1
                raise refusals.expired(f"too old resource version: {resource_version} ({oldest})")
            for event in late:
                self._offer(event)
        self._listeners.append(self._offer)

    def close(self) -> None:
        """Stop listening."""
        if self._offer in self._listeners:
            self._listeners.remove(self._offer)

    def break_off(self) -> None:
        """The line breaks."""
        self._end = Broken()
        self._wake.set()

    def expire(self) -> None:
        """The server ends the watch with an ERROR event: what it would have to send next is forgotten."""
        self._end = refusals.expired("The resourceVersion for the provided watch is too old.")
        self._wake.set()

    async def events(self) -> AsyncIterator[WatchEvent]:
        """The events, until the server ends the watch. Raises Broken, or Refused (410) for an ERROR event."""
        clock = self._server.clock
        bookmark_at_s = self._next_bookmark(clock.monotonic())
        while True:
            while self._queue and not self.is_silent and self._end is None:
                yield self._queue.popleft()
            if self._end is not None:
                raise self._end
            now_s = clock.monotonic()
            if now_s >= self._ends_at_s:
                return
            if now_s >= bookmark_at_s:
                bookmark_at_s = self._next_bookmark(now_s)
                if not self.is_silent:
                    yield self._bookmark()
                continue
            self._wake.clear()
            await self._wait(min(bookmark_at_s, self._ends_at_s) - now_s)

    def _next_bookmark(self, now_s: float) -> float:
        """In a minute, or shortly before the end if that is sooner; never after that."""
        last_s = self._ends_at_s - LAST_BOOKMARK_S
        return min(now_s + BOOKMARK_EVERY_S, last_s) if now_s < last_s else math.inf

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _bookmark(self) -> WatchEvent:
        resource = self.resource
        body = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(self._server.store.version)},
        }
        return WatchEvent("BOOKMARK", msgspec.Raw(msgspec.json.encode(body)))

    def _offer(self, event: Event) -> None:
        seen = self._seen(event)
        if seen is not None and not self.is_silent:
            self._queue.append(seen)
            self._wake.set()

    def _seen(self, event: Event) -> WatchEvent | None:
        """The event as this watch sees it; None when it does not concern it."""
        if self._selection.is_everything:
            return WatchEvent(event.type, event.new.whole())
        before = event.old is not None and self._selection(event.old)
        after = event.type != "DELETED" and self._selection(event.new)
        if after:
            return WatchEvent("MODIFIED" if before else "ADDED", event.new.whole())
        if before and event.old is not None:
            last = event.old if event.type != "DELETED" else event.new
            return WatchEvent("DELETED", Stored(last.resource, last.tree, last.owners, event.new.version).whole())
        return None
