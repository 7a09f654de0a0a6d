"""A whole cluster: API server, controllers, scheduler, kubelets and nodes, in one virtual time.

async def main(clock):
    cluster = SimCluster(clock, seed=1)
    cluster.add_nodes(NodeKind(), count=3)
    operator = cluster.client(service_account("npu-operator", "npu-operator"))
    ...
    await cluster.settle(lambda: ..., within_s=600)

run_virtual(main)
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from npu_operator.kube import api
from npu_operator.kube.api import Object, Resource
from npu_operator.kube.clock import stamp
from npu_operator.sim.client import Hook, SimClient, no_hook
from npu_operator.sim.clients import ADMIN, Clients
from npu_operator.sim.clock import VirtualClock
from npu_operator.sim.controllers.daemon_sets import DaemonSets
from npu_operator.sim.controllers.definitions import Definitions
from npu_operator.sim.controllers.deployments import Deployments
from npu_operator.sim.controllers.disruption import Disruption
from npu_operator.sim.controllers.garbage import Garbage
from npu_operator.sim.controllers.kubelets import Impossible, Kubelets, Ordinary, PodHooks
from npu_operator.sim.controllers.namespaces import Namespaces
from npu_operator.sim.controllers.node_lifecycle import NodeLifecycle
from npu_operator.sim.controllers.scheduler import Scheduler
from npu_operator.sim.controllers.service_accounts import ServiceAccounts
from npu_operator.sim.faults import Faults
from npu_operator.sim.fleet import NodeKind, node_body
from npu_operator.sim.server.access import User
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.objects import Stored, Tree
from npu_operator.sim.server.store import Event, Table

LOOK_EVERY_S: Final = 0.2  # at most that often `settle` asks whether it is over
QUIET_S: Final = 30.0  # nothing written for that long: nothing is going on any more
LATELY: Final = 40  # changes that the message of NotSettled shows


class NotSettled(AssertionError):
    """The cluster did not get there in time; the message has the last changes."""


class SimCluster:
    """Everything but the operator and the agents. `hooks` decide what pods do; by default they just run."""

    def __init__(self, clock: VirtualClock, *, seed: int = 0, hooks: PodHooks | None = None) -> None:
        self.clock = clock
        self.rng = random.Random(seed)
        self.server = ApiServer(clock, random.Random(self.rng.random()))
        self.clients = Clients(self.server)
        self.kubelets = Kubelets(self.server, hooks or Ordinary())
        self.kinds: dict[str, NodeKind] = {}
        """By node: what machine it is."""
        self.writes = 0
        """Writes that changed something, by anybody; renewals of leases are left out."""
        self._changed = asyncio.Event()
        self._lately: deque[Event] = deque(maxlen=LATELY)
        self.scheduler = Scheduler(self.server)
        self.controllers = (
            Definitions(self.server),
            Namespaces(self.server),
            ServiceAccounts(self.server),
            Garbage(self.server),
            Disruption(self.server),
            DaemonSets(self.server),
            Deployments(self.server),
            NodeLifecycle(self.server, self.kubelets),
        )
        self.server.store.on_table(self._listen)

    # --- people and processes -----------------------------------------------------------------------------------------

    def client(
        self,
        user: User = ADMIN,
        *,
        faults: Faults | None = None,
        before_write: Hook = no_hook,
        after_write: Hook = no_hook,
    ) -> SimClient:
        """A `Cluster` for one user."""
        return self.clients.client(user, faults=faults, before_write=before_write, after_write=after_write)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def add_nodes(self, kind: NodeKind, *, count: int = 1, prefix: str = "node") -> tuple[str, ...]:
        """New nodes of a kind, numbered on from those there are; returns their names."""
        first = len(self.kinds) + 1
        names = tuple(f"{prefix}-{number:04d}" for number in range(first, first + count))
        for name in names:
            self.add_node(name, kind)
        return names

    def add_node(self, name: str, kind: NodeKind) -> None:
        """One node; it is up and ready."""
        if self.server.find(api.NODES, name) is not None:
            raise Impossible(f"there is a node {name} already")
        self.kinds[name] = kind
        body = node_body(name, kind, boot_id=self.new_boot_id())
        self.kubelets.add(self.server.create(api.NODES, body, None, manager="kubelet"))

    def remove_node(self, name: str) -> None:
        """The machine is taken away and its Node object deleted."""
        if name not in self.kinds:
            raise Impossible(f"there is no node {name} to remove")
        if self.kubelets.is_up(name):
            self.kubelets.power_off(name)
        del self.kinds[name]
        self.server.delete(api.NODES, name)

    async def reboot(self, name: str, *, down_s: float = 60.0, kernel: str | None = None) -> None:
        """Switch a node off and on; it comes up with a new boot id after `down_s` seconds."""
        self.kubelets.power_off(name)
        await self.clock.sleep(down_s)
        self.kubelets.power_on(name, self.new_boot_id(), kernel=kernel)

    def new_boot_id(self) -> str:
        """A boot id that nobody had before."""
        digits = f"{self.rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    # --- looking ------------------------------------------------------------------------------------------------------

    def find(self, resource: Resource, name: str, namespace: str | None = None) -> Tree | None:
        """An object's data as it is now, or None. Not to be changed."""
        stored = self.server.find(resource, name, namespace)
        return stored.tree if stored is not None else None

    def all(self, resource: Resource, namespace: str | None = None, *, labels: str | None = None) -> list[Stored]:
        """The objects of a resource as they are now; none when nobody serves it."""
        if resource not in self.server.served():
            return []
        return self.server.list(resource, namespace, labels=labels)

    def pods_on(self, node: str) -> list[Stored]:
        """The pods that the API shows on a node."""
        return self.server.list(api.PODS, fields=f"spec.nodeName={node}")

    # --- writing as an admin ------------------------------------------------------------------------------------------

    async def apply(self, objects: Iterable[Object], *, manager: str = "admin") -> None:
        """Apply manifests one after the other as the admin; a custom kind is waited for."""
        cluster = self.client()
        for body in objects:
            resource = self._resource_of(body)
            if resource is None:
                await self.settle(lambda body=body: self._resource_of(body) is not None, within_s=60)  # type: ignore[misc]
                resource = self._resource_of(body)
            assert resource is not None, "settled"
            await cluster.apply(resource, body, manager=manager)

    def _resource_of(self, body: Object) -> Resource | None:
        wanted = (body["apiVersion"], body["kind"])
        return next((each for each in self.server.served() if (each.api_version, each.kind) == wanted), None)

    # --- time ---------------------------------------------------------------------------------------------------------

    async def settle(
        self, until: Callable[[], bool] | None = None, *, within_s: float = 600.0, quiet_s: float = QUIET_S
    ) -> float:
        """Let time go by until `until()` holds, or without it until nothing is written for `quiet_s` seconds.

        Returns the virtual seconds that took. Raises NotSettled after `within_s`.
        """
        began_s = self.clock.monotonic()
        ends_s = began_s + within_s
        while until is None or not until():
            left_s = ends_s - self.clock.monotonic()
            if left_s <= 0:
                raise NotSettled(self._complaint(until, within_s))
            self._changed.clear()
            try:
                async with asyncio.timeout(min(left_s, quiet_s) if until is None else left_s):
                    await self._changed.wait()
            except TimeoutError:
                if until is None and left_s > quiet_s:
                    return self.clock.monotonic() - began_s - quiet_s
                continue
            await self.clock.sleep(LOOK_EVERY_S)
        return self.clock.monotonic() - began_s

    def _complaint(self, until: Callable[[], bool] | None, within_s: float) -> str:
        wanted = getattr(until, "__qualname__", "quiet") if until is not None else "quiet"
        lines = [f"not settled within {within_s:g} s of virtual time: {wanted}; the last changes:"]
        lines += [
            f"  {event.new.version:>7} {event.type:<8} {event.new.resource.name} "
            f"{'/'.join(filter(None, event.new.key))}"
            for event in self._lately
        ]
        return "\n".join([*lines, f"  now {stamp(self.clock.now())}"])

    def _listen(self, table: Table) -> None:
        table.listeners.append(self._note)

    def _note(self, event: Event) -> None:
        if _is_heartbeat(event):
            return
        self.writes += 1
        self._lately.append(event)
        self._changed.set()


def _is_heartbeat(event: Event) -> bool:
    """A lease was renewed and nothing else: no news for anybody."""
    if event.type != "MODIFIED" or event.old is None or event.new.resource != api.LEASES:
        return False
    old, new = event.old.tree["spec"], event.new.tree["spec"]
    return all(old.get(key) == new.get(key) for key in old.keys() | new.keys() if key != "renewTime")


def status_of(tree: Tree | None, *path: str) -> Any:
    """A value below `status`; None when it is not there."""
    value: Any = (tree or {}).get("status")
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
