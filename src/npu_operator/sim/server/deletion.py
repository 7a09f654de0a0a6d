"""Deleting: preconditions, grace of pods, finalizers, and how dependents are to be treated.

Source: apiserver `registry/rest/delete.go` and `registry/generic/registry/store.go` (1.34). What happens to dependents
later is the garbage collector's work (`npu_operator.sim.controllers.garbage`).
"""

from typing import TYPE_CHECKING, Final

from npu_operator.kube import api
from npu_operator.kube.api import Preconditions
from npu_operator.kube.clock import seconds_of, stamp
from npu_operator.sim.server import refusals
from npu_operator.sim.server.objects import Stored, Tree, at, with_meta

if TYPE_CHECKING:
    from npu_operator.sim.server.apiserver import ApiServer

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
PROPAGATIONS: Final = ("Foreground", "Background", "Orphan")
PROTECTED: Final = ("default", "kube-public", "kube-system")
DEFAULT_GRACE_S: Final = 30


class Deletion:
    """The delete verb."""

    def __init__(self, server: "ApiServer") -> None:
        self._server = server

    def delete(
        self, live: Stored, *, preconditions: Preconditions | None, propagation: str, grace_s: int | None
    ) -> None:
        """Delete `live`, or mark it and wait for what holds it."""
        if propagation not in PROPAGATIONS:
            cause = refusals.unsupported("propagationPolicy", propagation, (*PROPAGATIONS, "nil"))
            raise refusals.invalid_options("DeleteOptions", cause)
        if preconditions is not None:
            _check_preconditions(live, preconditions)
        if live.resource == api.NAMESPACES and live.name in PROTECTED:
            raise refusals.forbidden(live.resource, live.name, "this namespace may not be deleted")
        grace = self._grace_of(live, grace_s)
        tree = self._marked(live, grace)
        tree = _with_finalizers(tree, propagation)
        if tree == live.tree:
            if not self.is_held(live):
                self._server.remove(live)
            return
        kind = self._server.kind(live.resource)
        self._server.put(kind, live, tree, live.owners)

    def is_held(self, stored: Stored) -> bool:
        """Something keeps an object that is to be deleted: a finalizer, a pod's grace, a namespace's content."""
        if stored.meta.get("finalizers"):
            return True
        if stored.resource == api.NAMESPACES:
            return bool(at(stored.tree, "spec", "finalizers"))
        return bool(stored.meta.get("deletionGracePeriodSeconds", 0))

    def _grace_of(self, live: Stored, asked_s: int | None) -> int:
        """Seconds a pod may take to end; nothing else has grace."""
        if live.resource != api.PODS:
            return 0
        if not at(live.tree, "spec", "nodeName") or at(live.tree, "status", "phase") in ("Succeeded", "Failed"):
            return 0
        if asked_s is not None:
            return asked_s if asked_s >= 0 else 1
        own = at(live.tree, "spec", "terminationGracePeriodSeconds")
        return DEFAULT_GRACE_S if own is None else int(own)

    def _marked(self, live: Stored, grace_s: int) -> Tree:
        """The tree with the marks of deletion; a second delete can only shorten the grace."""
        meta = live.meta
        if not live.is_leaving:
            changes: Tree = {"deletionTimestamp": stamp(self._server.clock.now() + grace_s)}
            if live.resource != api.NAMESPACES:
                changes["deletionGracePeriodSeconds"] = grace_s
            if meta.get("generation"):
                changes["generation"] = meta["generation"] + 1
            tree = with_meta(live.tree, **changes)
            if live.resource == api.NAMESPACES:
                tree = {**tree, "status": {**tree.get("status", {}), "phase": "Terminating"}}
            return tree
        before_s = meta.get("deletionGracePeriodSeconds", 0)
        if grace_s >= before_s:
            return live.tree
        at_s = seconds_of(meta["deletionTimestamp"]) - before_s + grace_s
        return with_meta(live.tree, deletionTimestamp=stamp(at_s), deletionGracePeriodSeconds=grace_s)


def _check_preconditions(live: Stored, wanted: Preconditions) -> None:
    if wanted.uid is not None and wanted.uid != live.uid:
        raise refusals.precondition(live.resource, live.name, "UID", wanted.uid, live.uid)
    if wanted.resource_version is not None and wanted.resource_version != str(live.version):
        raise refusals.precondition(
            live.resource, live.name, "ResourceVersion", wanted.resource_version, str(live.version)
        )


def _with_finalizers(tree: Tree, propagation: str) -> Tree:
    """The finalizers that tell the garbage collector what is wanted."""
    others = [name for name in tree["metadata"].get("finalizers", []) if name not in (FOREGROUND, ORPHAN)]
    if propagation == "Foreground":
        others.append(FOREGROUND)
    elif propagation == "Orphan":
        others.append(ORPHAN)
    return with_meta(tree, finalizers=others or None)
