"""ServiceAccounts: each namespace has one named `default`."""

from typing import Final

from npu_operator.kube import api
from npu_operator.sim.controllers.chores import Chores
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.store import Event

DELAY_S: Final = 0.05
DEFAULT: Final = "default"
MANAGER: Final = "kube-controller-manager"


class ServiceAccounts:
    """Makes the default account of each namespace, again if somebody deletes it."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._chores: Chores[str] = Chores(self._make, delay_s=DELAY_S)
        namespaces = server.store.table(api.NAMESPACES)
        namespaces.listeners.append(self._namespace_changed)
        server.store.table(api.SERVICE_ACCOUNTS).listeners.append(self._account_changed)
        for stored in namespaces.objects.values():
            self._make(stored.name)

    def _namespace_changed(self, event: Event) -> None:
        if event.type == "ADDED":
            self._chores.add(event.new.name)

    def _account_changed(self, event: Event) -> None:
        if event.type == "DELETED" and event.new.name == DEFAULT:
            self._chores.add(event.new.namespace)

    def _make(self, namespace: str) -> None:
        found = self._server.find(api.NAMESPACES, namespace)
        if found is None or found.is_leaving or self._server.find(api.SERVICE_ACCOUNTS, DEFAULT, namespace) is not None:
            return
        self._server.create(api.SERVICE_ACCOUNTS, {"metadata": {"name": DEFAULT}}, namespace, manager=MANAGER)
