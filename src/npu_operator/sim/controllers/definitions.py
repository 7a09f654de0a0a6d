"""Definitions: a new CustomResourceDefinition is served after a moment; one that goes takes its objects along."""

from typing import Final

from npu_operator.kube import api
from npu_operator.kube.clock import stamp
from npu_operator.sim.controllers.chores import Chores
from npu_operator.sim.server import definitions
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.objects import Stored, Tree, with_meta
from npu_operator.sim.server.store import Event

ESTABLISH_S: Final = 0.5  # a real server takes about a second until it answers for a new kind
MANAGER: Final = "kube-apiserver"


class Definitions:
    """Establishes definitions and cleans up after them."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._chores = Chores(self._settle, delay_s=ESTABLISH_S)
        server.store.table(api.CUSTOM_RESOURCE_DEFINITIONS).listeners.append(self._changed)

    def _changed(self, event: Event) -> None:
        if event.type != "DELETED":
            self._chores.add(event.new.name)

    def _settle(self, name: str) -> None:
        found = self._server.find(api.CUSTOM_RESOURCE_DEFINITIONS, name)
        if found is None:
            return
        if found.is_leaving:
            self._clean_up(found)
        elif not definitions.is_established(found):
            now = stamp(self._server.clock.now())
            self._server.edit(found, lambda tree: _established(tree, now), manager=MANAGER, subresource="status")

    def _clean_up(self, definition: Stored) -> None:
        left = 0
        for resource, *_ in definitions.served(definition.tree):
            for stored in tuple(self._server.store.table(resource).objects.values()):
                left += 1
                if not stored.is_leaving:
                    self._server.delete(resource, stored.name, stored.namespace or None)
        if left:
            self._chores.add(definition.name)
            return
        others = [name for name in definition.meta.get("finalizers", []) if name != definitions.CLEANUP]
        self._server.edit(definition, lambda tree: with_meta(tree, finalizers=others or None), manager=MANAGER)


def _established(tree: Tree, now: str) -> Tree:
    conditions = [
        {
            "type": type_,
            "status": "True",
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        for type_, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    finalizers = [*tree["metadata"].get("finalizers", []), definitions.CLEANUP]
    return {
        **with_meta(tree, finalizers=finalizers),
        "status": {**tree["status"], "conditions": conditions, "acceptedNames": tree["spec"]["names"]},
    }
