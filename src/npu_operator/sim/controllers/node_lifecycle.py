"""Node lifecycle: taints that follow from a node's conditions, silence, and the pods of nodes that are gone.

Source: kubernetes `pkg/controller/nodelifecycle`, `tainteviction` and `podgc` (1.34), default periods.
"""

from typing import Final

from npu_operator.kube import api
from npu_operator.kube.clock import stamp
from npu_operator.sim.controllers import placement
from npu_operator.sim.controllers.chores import Chores
from npu_operator.sim.controllers.kubelets import Kubelets
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.objects import Key, Stored, Tree, at, condition
from npu_operator.sim.server.store import Event
from npu_operator.sim.server.workloads import NOT_READY, UNREACHABLE

SILENT_S: Final = 50.0  # --node-monitor-grace-period since 1.32
TAINT_S: Final = 0.2
ORPHANED_S: Final = 40.0  # podgc's quarantine for nodes that are gone
MANAGER: Final = "kube-controller-manager"
OURS: Final = (NOT_READY, UNREACHABLE, placement.UNSCHEDULABLE["key"])


class NodeLifecycle:
    """The node lifecycle controller, with taint eviction and the collector of orphaned pods."""

    def __init__(self, server: ApiServer, kubelets: Kubelets) -> None:
        self._server = server
        self._kubelets = kubelets
        self._taints: Chores[str] = Chores(self._sync_taints, delay_s=TAINT_S)
        self._silences: Chores[str] = Chores(self._mark_unknown, delay_s=SILENT_S)
        self._evictions: Chores[Key] = Chores(self._evict, delay_s=0.0)
        self._orphans: Chores[str] = Chores(self._collect, delay_s=ORPHANED_S)
        server.store.table(api.NODES).listeners.append(self._node_changed)
        server.store.table(api.PODS).listeners.append(self._pod_changed)
        kubelets.on_silence(self._silence)

    def _node_changed(self, event: Event) -> None:
        if event.type == "DELETED":
            self._orphans.add(event.new.name)
            return
        self._taints.add(event.new.name)
        if event.old is not None and _no_execute(event.old) != _no_execute(event.new):
            for pod in self._server.list(api.PODS, fields=f"spec.nodeName={event.new.name}"):
                self._weigh(pod, event.new)

    def _pod_changed(self, event: Event) -> None:
        node = at(event.new.tree, "spec", "nodeName")
        if event.type == "DELETED" or not node:
            return
        if event.old is not None and at(event.old.tree, "spec", "nodeName") == node:
            return
        found = self._server.find(api.NODES, node)
        if found is None:
            self._orphans.add(node)
        else:
            self._weigh(event.new, found)

    def _silence(self, node: str, is_silent: bool) -> None:
        if is_silent:
            self._silences.add(node)
        else:
            self._silences.drop(node)

    def _mark_unknown(self, name: str) -> None:
        node = self._server.find(api.NODES, name)
        if node is None:
            return
        now = stamp(self._server.clock.now())
        conditions = at(node.tree, "status", "conditions") or []
        unknown = {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": now,
            "lastHeartbeatTime": (condition(conditions, "Ready") or {}).get("lastHeartbeatTime", now),
        }
        others = [each for each in conditions if each["type"] != "Ready"]
        body = {"status": {"conditions": [*others, unknown]}}
        self._server.patch(api.NODES, name, body, manager=MANAGER, subresource="status")
        for pod in self._server.list(api.PODS, fields=f"spec.nodeName={name}"):
            self._mark_not_ready(pod, now)

    def _mark_not_ready(self, pod: Stored, now: str) -> None:
        """Pods of a silent node are not ready for anybody."""
        conditions = at(pod.tree, "status", "conditions") or []
        ready = condition(conditions, "Ready")
        if ready is None or ready["status"] != "True":
            return
        others = [each for each in conditions if each["type"] != "Ready"]
        body = {"status": {"conditions": [*others, {**ready, "status": "False", "lastTransitionTime": now}]}}
        self._server.patch(api.PODS, pod.name, body, pod.namespace, manager=MANAGER, subresource="status")

    def _sync_taints(self, name: str) -> None:
        node = self._server.find(api.NODES, name)
        if node is None:
            return
        before = at(node.tree, "spec", "taints") or []
        now = stamp(self._server.clock.now())
        wanted = _wanted_taints(node)
        kept = [taint for taint in before if taint["key"] not in OURS or _like(taint) in wanted]
        there = [_like(taint) for taint in kept]
        taints = kept + [
            _made({"key": key, "effect": effect}, now) for key, effect in wanted if (key, effect) not in there
        ]
        if taints != before:
            self._server.edit(
                node,
                lambda tree: {
                    **tree,
                    "spec": {
                        **{key: value for key, value in tree["spec"].items() if key != "taints"},
                        **({"taints": taints} if taints else {}),
                    },
                },
                manager=MANAGER,
            )

    def _weigh(self, pod: Stored, node: Stored) -> None:
        """Plan the eviction of a pod that does not tolerate the node's state, or take the plan back."""
        taints = [taint for taint in placement.taints_of(node) if taint.get("effect") == "NoExecute"]
        tolerations = pod.tree["spec"].get("tolerations", [])
        if not taints:
            self._evictions.drop(pod.key)
            return
        if placement.untolerated(tolerations, taints, ("NoExecute",)) is not None:
            self._evictions.add(pod.key)
            return
        limits = [
            toleration["tolerationSeconds"]
            for toleration in tolerations
            if "tolerationSeconds" in toleration and any(placement.tolerates(toleration, taint) for taint in taints)
        ]
        if limits:
            self._evictions.add(pod.key, after_s=float(min(limits)))
        else:
            self._evictions.drop(pod.key)

    def _evict(self, key: Key) -> None:
        pod = self._server.find(api.PODS, key[1], key[0])
        if pod is not None and not pod.is_leaving:
            self._server.delete(api.PODS, pod.name, pod.namespace)

    def _collect(self, node: str) -> None:
        """Remove the pods of a node that is gone."""
        if self._server.find(api.NODES, node) is not None:
            return
        for pod in self._server.list(api.PODS, fields=f"spec.nodeName={node}"):
            self._server.delete(api.PODS, pod.name, pod.namespace, grace_s=0)


def _wanted_taints(node: Stored) -> list[tuple[str, str]]:
    ready = condition(at(node.tree, "status", "conditions") or (), "Ready")
    status = ready["status"] if ready is not None else "False"
    wanted = []
    if status == "False":
        wanted += [(NOT_READY, "NoSchedule")] + ([(NOT_READY, "NoExecute")] if ready is not None else [])
    elif status == "Unknown":
        wanted += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    if at(node.tree, "spec", "unschedulable"):
        wanted.append((placement.UNSCHEDULABLE["key"], "NoSchedule"))
    return wanted


def _made(taint: Tree, now: str) -> Tree:
    return {**taint, "timeAdded": now}


def _like(taint: Tree) -> tuple[str, str]:
    return taint["key"], taint["effect"]


def _no_execute(node: Stored) -> list[tuple[str, str]]:
    return [_like(taint) for taint in at(node.tree, "spec", "taints") or () if taint.get("effect") == "NoExecute"]
