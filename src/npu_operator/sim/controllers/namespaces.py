"""Namespaces: one that goes is emptied first."""

from typing import Final

from npu_operator.kube import api
from npu_operator.sim.controllers.chores import Chores
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.store import Event

DELAY_S: Final = 1.0  # a real controller needs some seconds for each round
MANAGER: Final = "kube-controller-manager"


class Namespaces:
    """Empties namespaces that are being deleted."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._chores = Chores(self._empty, delay_s=DELAY_S)
        server.store.table(api.NAMESPACES).listeners.append(self._changed)

    def _changed(self, event: Event) -> None:
        if event.type != "DELETED" and event.new.is_leaving:
            self._chores.add(event.new.name)

    def _empty(self, name: str) -> None:
        namespace = self._server.find(api.NAMESPACES, name)
        if namespace is None:
            return
        left = 0
        for resource in self._server.served():
            if not resource.namespaced:
                continue
            for stored in self._server.list(resource, name):
                left += 1
                if not stored.is_leaving:
                    self._server.delete(resource, stored.name, name)
        if left:
            self._chores.add(name)
            return
        self._server.edit(namespace, lambda tree: {**tree, "spec": {}}, manager=MANAGER)
