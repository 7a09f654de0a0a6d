"""Garbage: objects whose owners are gone are deleted; owners that are deleted in the foreground wait for them.

Source: the garbage collector's documented behaviour (kubernetes.io, "Garbage collection"; "Owners and dependents"):
an object goes when none of its owners is left; a namespaced owner counts only in the object's own namespace; owners
are told apart by uid.
"""

from typing import Final

from npu_operator.kube.api import Resource
from npu_operator.sim.controllers.chores import Chores
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.deletion import FOREGROUND, ORPHAN
from npu_operator.sim.server.objects import Key, Stored, Tree, with_meta
from npu_operator.sim.server.store import Event, Table

DELAY_S: Final = 0.5
MANAGER: Final = "kube-controller-manager"

Place = tuple[Resource, Key]


class Garbage:
    """Collects, by a graph of uids kept from the events of all tables."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._places: dict[str, Place] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._chores = Chores(self._attend, delay_s=DELAY_S)
        self._seen: set[Resource] = set()
        server.store.on_table(self._watch)

    def _watch(self, table: Table) -> None:
        if table.resource in self._seen:
            return
        self._seen.add(table.resource)
        for stored in table.objects.values():
            self._changed(Event("ADDED", stored, None))
        table.listeners.append(self._changed)

    def _changed(self, event: Event) -> None:
        new, uid = event.new, event.new.uid
        owners = _owners(new)
        before = _owners(event.old) if event.old is not None else ()
        if event.type == "DELETED":
            self._places.pop(uid, None)
            for dependent in self._dependents.get(uid, ()):
                self._chores.add(dependent)
            owners = ()
        elif event.type == "ADDED":
            self._places[uid] = (new.resource, new.key)
        if owners != before:
            self._link(uid, before, owners)
        if event.type != "DELETED" and (owners or new.is_leaving):
            self._attend_when_needed(event)
        if event.type == "DELETED":
            for owner in before:  # a foreground owner may wait for this one
                self._chores.add(owner)

    def _attend_when_needed(self, event: Event) -> None:
        """Unchanged references of an object that stays need no look."""
        if event.type == "ADDED" or event.new.is_leaving or _owners(event.new) != _owners(event.old):
            self._chores.add(event.new.uid)

    def _link(self, uid: str, before: tuple[str, ...], owners: tuple[str, ...]) -> None:
        for owner in before:
            if owner not in owners and owner in self._dependents:
                self._dependents[owner].pop(uid, None)
                if not self._dependents[owner]:
                    del self._dependents[owner]
        for owner in owners:
            self._dependents.setdefault(owner, {})[uid] = None

    def _find(self, uid: str) -> Stored | None:
        place = self._places.get(uid)
        if place is None:
            return None
        resource, key = place
        return self._server.store.table(resource).objects.get(key)

    def _attend(self, uid: str) -> None:
        stored = self._find(uid)
        if stored is None:
            return
        if stored.is_leaving:
            self._release(stored)
        elif _owners(stored):
            self._collect(stored)

    def _release(self, owner: Stored) -> None:
        """Do what the finalizer of a leaving owner asks for."""
        finalizers = owner.meta.get("finalizers", [])
        if ORPHAN in finalizers:
            for uid in tuple(self._dependents.get(owner.uid, ())):
                self._let_go(uid, owner.uid)
            self._drop_finalizer(owner, ORPHAN)
        elif FOREGROUND in finalizers:
            dependents = [found for uid in self._dependents.get(owner.uid, ()) if (found := self._find(uid))]
            for dependent in dependents:
                if not dependent.is_leaving:
                    self._delete(dependent, "Foreground" if self._dependents.get(dependent.uid) else "Background")
            if not any(_blocks(dependent, owner.uid) for dependent in dependents):
                self._drop_finalizer(owner, FOREGROUND)

    def _collect(self, stored: Stored) -> None:
        """Delete an object that has no owner left."""
        live = [uid for uid in _owners(stored) if self._is_owner(stored, uid)]
        if not live:
            self._delete(stored, "Background")
        elif len(live) < len(_owners(stored)):
            for uid in _owners(stored):
                if uid not in live:
                    self._let_go(stored.uid, uid)

    def _is_owner(self, stored: Stored, uid: str) -> bool:
        owner = self._find(uid)
        if owner is None:
            return False
        return not owner.namespace or owner.namespace == stored.namespace

    def _let_go(self, uid: str, owner: str) -> None:
        stored = self._find(uid)
        if stored is None:
            return
        left = [reference for reference in stored.meta.get("ownerReferences", []) if reference["uid"] != owner]
        self._server.edit(stored, lambda tree: with_meta(tree, ownerReferences=left or None), manager=MANAGER)

    def _drop_finalizer(self, owner: Stored, name: str) -> None:
        def without(tree: Tree) -> Tree:
            left = [each for each in tree["metadata"].get("finalizers", []) if each != name]
            return with_meta(tree, finalizers=left or None)

        self._server.edit(owner, without, manager=MANAGER)

    def _delete(self, stored: Stored, propagation: str) -> None:
        if stored.resource in self._server.served():
            self._server.delete(stored.resource, stored.name, stored.namespace or None, propagation=propagation)


def _owners(stored: Stored | None) -> tuple[str, ...]:
    references = stored.meta.get("ownerReferences", ()) if stored is not None else ()
    return tuple(reference["uid"] for reference in references)


def _blocks(stored: Stored, owner: str) -> bool:
    return any(
        reference["uid"] == owner and reference.get("blockOwnerDeletion")
        for reference in stored.meta.get("ownerReferences", ())
    )
