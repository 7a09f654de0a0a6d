"""The store: objects by kind and key, one growing version for all, and a window of history for watches.

Like etcd and the watch cache in front of it: each write gets the next version; what happened lately can be replayed,
what is older is gone (410).
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import NamedTuple

from npu_operator.kube.api import Resource
from npu_operator.sim.server import selectors
from npu_operator.sim.server.objects import Key, Stored

WINDOW = 10_000
"""Events kept per kind. The real watch cache adapts between 100 and 100,000."""


class Event(NamedTuple):
    """One write."""

    type: str
    """ADDED, MODIFIED or DELETED."""
    new: Stored
    """After the write; for DELETED the last state with the version of the deletion."""
    old: Stored | None
    """Before the write."""


Listener = Callable[[Event], None]


class Table:
    """All objects of one resource."""

    def __init__(self, resource: Resource, indexed: tuple[str, ...] = ()) -> None:
        self.resource = resource
        self.objects: dict[Key, Stored] = {}
        self.history: deque[Event] = deque(maxlen=WINDOW)
        self.forgotten = 0
        """The version of the last event that is no longer in the history."""
        self.listeners: list[Listener] = []
        self.named: dict[str, list[Listener]] = {}
        """Listeners that care for one name only; a fleet of agents would have thousands."""
        self._sorted: list[Key] | None = None
        self._by_field: dict[str, dict[str, dict[Key, None]]] = {field: {} for field in indexed}

    def in_order(self, wanted: selectors.Selection) -> list[Stored]:
        """The selected objects by namespace and name, as etcd sorts them."""
        for field, index in self._by_field.items():
            value = wanted.wanted(field)
            if value is not None:
                keys = sorted(index.get(value, ()))
                return [self.objects[key] for key in keys if wanted(self.objects[key])]
        name = wanted.wanted("metadata.name")
        if name is not None and (wanted.namespace is not None or not self.resource.namespaced):
            one = self.objects.get((wanted.namespace or "", name))
            return [one] if one is not None and wanted(one) else []
        if self._sorted is None:
            self._sorted = sorted(self.objects)
        if wanted.is_everything:
            return [self.objects[key] for key in self._sorted]
        return [self.objects[key] for key in self._sorted if wanted(self.objects[key])]

    def record(self, event: Event) -> None:
        """Keep the write, and tell everybody who listens."""
        key = event.new.key
        if event.type == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = event.new
        if event.type != "MODIFIED":
            self._sorted = None
        for field, index in self._by_field.items():
            self._reindex(index, field, event)
        if len(self.history) == self.history.maxlen:
            self.forgotten = self.history[0].new.version
        self.history.append(event)
        for listener in (*self.listeners, *self.named.get(event.new.name, ())):
            listener(event)

    def _reindex(self, index: dict[str, dict[Key, None]], field: str, event: Event) -> None:
        before = selectors.field_of(event.old, field) if event.old is not None else None
        after = selectors.field_of(event.new, field) if event.type != "DELETED" else None
        if before == after:
            return
        if before is not None:
            del index[before][event.new.key]
            if not index[before]:
                del index[before]
        if after is not None:
            index.setdefault(after, {})[event.new.key] = None

    def since(self, version: int) -> Iterator[Event] | None:
        """The events after `version`, oldest first; None when some of them are forgotten."""
        if version < self.forgotten:
            return None
        late = list(takewhile(lambda event: event.new.version > version, reversed(self.history)))
        return reversed(late)


class Store:
    """All tables and the version they share."""

    def __init__(self) -> None:
        self.version = 1
        self.compacted = 0
        """States up to this version can no longer be listed."""
        self.tables: dict[Resource, Table] = {}
        self._on_table: list[Callable[[Table], None]] = []

    def table(self, resource: Resource, indexed: tuple[str, ...] = ()) -> Table:
        """The table of a resource, made when it is first asked for."""
        found = self.tables.get(resource)
        if found is None:
            found = self.tables[resource] = Table(resource, indexed)
            for hook in self._on_table:
                hook(found)
        return found

    def on_table(self, hook: Callable[[Table], None]) -> None:
        """Call `hook` with each table there is, and with each that comes."""
        self._on_table.append(hook)
        for table in tuple(self.tables.values()):
            hook(table)

    def next_version(self) -> int:
        """The version of the write that follows."""
        self.version += 1
        return self.version

    def forget(self, resource: Resource | None = None) -> None:
        """Drop the history (of one resource, or all), as time and compaction do: older versions are 410 now."""
        self.compacted = self.version
        for table in self.tables.values():
            if resource is None or table.resource == resource:
                table.history.clear()
                table.forgotten = self.version
