"""The scheduler: gives each pod a node that it wants, that lets it in and that has what it asks for.

Counted are extended resources (chips) and the number of pods; cpu and memory are plentiful here. Ties go to the node
with the fewest pods, then by name, so that runs repeat.
"""

from collections.abc import Iterable
from typing import Final

from npu_operator.kube import api
from npu_operator.kube.clock import stamp
from npu_operator.sim.controllers import placement
from npu_operator.sim.controllers.chores import Chores
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.objects import Key, Stored, Tree, at, condition
from npu_operator.sim.server.podspec import is_extended
from npu_operator.sim.server.store import Event

BIND_S: Final = 0.05
RETRY_S: Final = 1.0
MANAGER: Final = "kube-scheduler"
PODS_PER_NODE: Final = 110


class Scheduler:
    """Binds pods."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._nodes = server.store.table(api.NODES)
        self._pods = server.store.table(api.PODS)
        self._used: dict[str, dict[str, int]] = {}
        """By node: resource (and `pods`) → how much of it is taken."""
        self._stranded: dict[Key, None] = {}
        self._chores: Chores[Key] = Chores(self._place, delay_s=BIND_S)
        self._retries: Chores[str] = Chores(self._retry, delay_s=RETRY_S)
        self._pods.listeners.append(self._pod_changed)
        self._nodes.listeners.append(self._node_changed)

    def used(self, node: str, resource: str) -> int:
        """How much of a resource the pods of a node hold."""
        return self._used.get(node, {}).get(resource, 0)

    def _pod_changed(self, event: Event) -> None:
        old = _holder(event.old) if event.old is not None else None
        new = _holder(event.new) if event.type != "DELETED" else None
        if old != new:
            if old:
                self._account(event.old, -1)
            if new:
                self._account(event.new, +1)
            if old and self._stranded:
                self._retries.add("")
        if event.type == "DELETED":
            self._stranded.pop(event.new.key, None)
        elif not at(event.new.tree, "spec", "nodeName") and event.type == "ADDED":
            self._chores.add(event.new.key)

    def _account(self, pod: Stored | None, sign: int) -> None:
        assert pod is not None, "only pods that are there hold something"
        used = self._used.setdefault(pod.tree["spec"]["nodeName"], {})
        for resource, amount in {**requests_of(pod), "pods": 1}.items():
            used[resource] = used.get(resource, 0) + sign * amount

    def _node_changed(self, event: Event) -> None:
        if self._stranded and event.type != "DELETED":
            self._retries.add("")

    def _retry(self, _: str) -> None:
        stranded, self._stranded = self._stranded, {}
        for key in stranded:
            self._place(key)

    def _place(self, key: Key) -> None:
        pod = self._pods.objects.get(key)
        if pod is None or pod.is_leaving or at(pod.tree, "spec", "nodeName"):
            return
        node = self._best(pod)
        if node is not None:
            self._bind(pod, node.name)
            return
        self._stranded[key] = None
        self._tell(pod)

    def _best(self, pod: Stored) -> Stored | None:
        fitting = [node for node in self._candidates(pod) if self._fits(pod, node)]
        return min(fitting, key=lambda node: (self.used(node.name, "pods"), node.name), default=None)

    def _candidates(self, pod: Stored) -> Iterable[Stored]:
        """The one node that a daemon pod is for, or all."""
        for term in placement.required_terms(pod.tree["spec"]) or ():
            for field in term.get("matchFields", ()):
                found = self._nodes.objects.get(("", field["values"][0]))
                return [found] if found is not None else []
        return self._nodes.objects.values()

    def _fits(self, pod: Stored, node: Stored) -> bool:
        spec = pod.tree["spec"]
        if not placement.wants(spec, node):
            return False
        if placement.untolerated(spec.get("tolerations", ()), placement.taints_of(node)) is not None:
            return False
        allocatable = at(node.tree, "status", "allocatable") or {}
        if self.used(node.name, "pods") >= int(allocatable.get("pods", PODS_PER_NODE)):
            return False
        return all(
            self.used(node.name, resource) + amount <= whole(allocatable.get(resource, "0"))
            for resource, amount in requests_of(pod).items()
        )

    def _bind(self, pod: Stored, node: str) -> None:
        now = stamp(self._server.clock.now())

        def bound(tree: Tree) -> Tree:
            return {
                **tree,
                "spec": {**tree["spec"], "nodeName": node},
                "status": {**tree["status"], "conditions": _with_scheduled(tree, "True", now)},
            }

        self._server.edit(pod, bound, manager=MANAGER)

    def _tell(self, pod: Stored) -> None:
        if condition(at(pod.tree, "status", "conditions") or (), "PodScheduled") is not None:
            return
        now = stamp(self._server.clock.now())
        self._server.edit(
            pod,
            lambda tree: {
                **tree,
                "status": {**tree["status"], "conditions": _with_scheduled(tree, "False", now, "Unschedulable")},
            },
            manager=MANAGER,
            subresource="status",
        )


def _with_scheduled(tree: Tree, status: str, now: str, reason: str = "") -> list[Tree]:
    others = [each for each in tree["status"].get("conditions", ()) if each["type"] != "PodScheduled"]
    why = {"reason": reason} if reason else {}
    return [*others, {"type": "PodScheduled", "status": status, "lastTransitionTime": now, **why}]


def _holder(pod: Stored) -> str | None:
    """The node whose resources a pod holds; None when it holds none (yet, or any more)."""
    if at(pod.tree, "status", "phase") in ("Succeeded", "Failed"):
        return None
    return at(pod.tree, "spec", "nodeName") or None


def requests_of(pod: Stored) -> dict[str, int]:
    """The extended resources that a pod asks for."""
    out: dict[str, int] = {}
    for container in pod.tree["spec"]["containers"]:
        for resource, amount in (at(container, "resources", "limits") or {}).items():
            if is_extended(resource):
                out[resource] = out.get(resource, 0) + whole(amount)
    return out


def whole(amount: str) -> int:
    """A whole quantity as a number (`8`, `1k`)."""
    return int(amount[:-1]) * 1000 if amount.endswith("k") else int(amount)
