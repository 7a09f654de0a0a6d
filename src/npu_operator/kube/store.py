"""The cache of one resource: what the watch told, and what our own writes were answered with.

Both write here, in any order, and the newer picture of an object always stays: the next decision sees our last write at
once, a watch event from before that write does not undo it, and an answer that arrives after the object's deletion does
not bring it back. "Newer" is the resourceVersion, which grows with each write of a resource (KEP-5504 says so in
writing; every API server has always done it). A server whose versions are no numbers is taken at its word, in order.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from npu_operator.kube.objects import Kept, is_same_but_for_version, key_of, version_number

TOMBSTONES = 4096  # an answer that is late by more deletions than this is later than any time-out of a request

T = TypeVar("T", bound=Kept)
OnChange = Callable[[T | None, T | None], None]
Index = Callable[[T], Iterable[str]]


class Store(Generic[T]):
    """Objects by key (`namespace/name` or `name`); others only read `view`.

    `indexes` names functions from an object to the values under which `by` finds it. Listeners are told of each change
    in something that we read, and only of that: a new resourceVersion alone is no change.
    """

    def __init__(self, indexes: Mapping[str, Index[T]] | None = None) -> None:
        self._objects: dict[str, T] = {}
        self._graves: OrderedDict[str, int] = OrderedDict()
        self._outdated: set[str] = set()
        self._listeners: list[OnChange[T]] = []
        self._indexes = dict(indexes or {})
        self._found: dict[str, defaultdict[str, set[str]]] = {name: defaultdict(set) for name in self._indexes}
        self._snapshot: Mapping[str, T] | None = None
        self.view: Mapping[str, T] = MappingProxyType(self._objects)
        """The present objects; changes under the reader's hands between two awaits."""

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: str) -> T | None:
        """The object, or None."""
        return self._objects.get(key)

    def snapshot(self) -> Mapping[str, T]:
        """The objects as they are now, for keeps; costs nothing as long as nothing has changed."""
        if self._snapshot is None:
            self._snapshot = MappingProxyType(dict(self._objects))
        return self._snapshot

    def by(self, index: str, value: str) -> list[T]:
        """The objects that `index` finds under `value`, in the order of their keys."""
        return [self._objects[key] for key in sorted(self._found[index].get(value, ()))]

    def on_change(self, listener: OnChange[T]) -> None:
        """Call `listener(old, new)` after each change; None stands for "not there"."""
        self._listeners.append(listener)

    def put(self, new: T) -> bool:
        """Take in a picture of an object, from a list, an event or the answer to our own write.

        False when it is older than, or the same as, what is known.
        """
        key = key_of(new.metadata)
        version = version_number(new.metadata.resource_version)
        old = self._objects.get(key)
        if key in self._outdated:
            self._outdated.remove(key)
        elif version and self._knows_better(key, old, version):
            return False
        if old == new:
            return False
        self._graves.pop(key, None)
        self._replace(key, old, new)
        return True

    def remove(self, key: str, resource_version: str) -> bool:
        """The object was deleted (or left our selection) at `resource_version`. False when a newer one is known."""
        version = version_number(resource_version)
        old = self._objects.get(key)
        if old is not None and version and version_number(old.metadata.resource_version) > version:
            if key not in self._outdated:
                return False
            self._outdated.remove(key)
        if version:
            self._graves[key] = max(version, self._graves.pop(key, 0))
            if len(self._graves) > TOMBSTONES:
                self._graves.popitem(last=False)
        if old is None:
            return False
        self._replace(key, old, None)
        return True

    def remove_others(self, seen: Collection[str], resource_version: str) -> int:
        """After a complete list at `resource_version`: what it did not show is gone. Returns how many were.

        What we wrote ourselves after the list was taken stays; the watch will tell about it.
        """
        missing = [key for key in self._objects if key not in seen]
        return sum(self.remove(key, resource_version) for key in missing)

    def forget_versions(self) -> None:
        """Versions have begun anew (the cluster was restored): let the next pictures in, whatever their number."""
        self._graves.clear()
        self._outdated = set(self._objects)

    def _knows_better(self, key: str, old: T | None, version: int) -> bool:
        newest = version_number(old.metadata.resource_version) if old is not None else 0
        return version <= self._graves.get(key, 0) or version < newest

    def _replace(self, key: str, old: T | None, new: T | None) -> None:
        for name, values in self._indexes.items():
            found = self._found[name]
            for value in values(old) if old is not None else ():
                found[value].discard(key)
                if not found[value]:
                    del found[value]
            for value in values(new) if new is not None else ():
                found[value].add(key)
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        self._snapshot = None
        if old is not None and new is not None and is_same_but_for_version(old, new):
            return
        for listener in self._listeners:
            listener(old, new)
