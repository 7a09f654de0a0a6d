"""DaemonSets: one pod on each node that should have one, replaced on delete or in turn, and true numbers in the status.

Source: kubernetes `pkg/controller/daemon` (1.34). A pod on its way out still counts as the node's pod; daemon pods
tolerate what a node in trouble is tainted with, a cordon among it. Work is by difference: an event makes one node of
one set dirty, and the status is counted along.
"""

import zlib
from typing import Final, NamedTuple

import msgspec

from npu_operator.kube import api
from npu_operator.kube.clock import seconds_of
from npu_operator.sim.controllers import placement
from npu_operator.sim.controllers.chores import Chores
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.eviction import is_ready
from npu_operator.sim.server.objects import Key, Stored, Tree, at, condition
from npu_operator.sim.server.refusals import Refused
from npu_operator.sim.server.store import Event
from npu_operator.sim.server.workloads import TEMPLATE_GENERATION

SYNC_S: Final = 0.1
STATUS_S: Final = 0.5  # numbers of a burst are written together
FAILED_BACKOFF_S: Final = 1.0
FIRST_BACKOFF_S: Final = 0.5
LAST_BACKOFF_S: Final = 60.0
MANAGER: Final = "kube-controller-manager"
HASH: Final = "controller-revision-hash"
HASH_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"

NODE: Final = "node.kubernetes.io/"
TOLERATED: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
"""What each daemon pod tolerates beside its own."""


class _Count(NamedTuple):
    """What one node adds to the status."""

    desired: int = 0
    current: int = 0
    misscheduled: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0


class _Set:
    """What is known of one DaemonSet between two rounds."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self.hash = _hash(stored)
        self.template = _template(stored)
        self.pods: dict[str, dict[Key, Stored]] = {}
        """By node."""
        self.dirty: dict[str, None] = {}
        self.counts: dict[str, _Count] = {}
        self.total = _Count()
        self.backoff_s = FIRST_BACKOFF_S
        self.model: Stored | None = None
        """The first pod of the present template, as it was made."""

    def count(self, node: str, new: _Count) -> None:
        """Move the totals by the difference."""
        old = self.counts.get(node, _Count())
        if new == old:
            return
        if new == _Count():
            del self.counts[node]
        else:
            self.counts[node] = new
        self.total = _Count(*(total + b - a for total, a, b in zip(self.total, old, new, strict=True)))


class DaemonSets:
    """The DaemonSet controller."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._nodes = server.store.table(api.NODES)
        self._sets: dict[str, _Set] = {}
        self._syncs: Chores[str] = Chores(self._sync, delay_s=SYNC_S)
        self._statuses: Chores[str] = Chores(self._write_status, delay_s=STATUS_S)
        server.store.table(api.DAEMON_SETS).listeners.append(self._set_changed)
        server.store.table(api.PODS).listeners.append(self._pod_changed)
        self._nodes.listeners.append(self._node_changed)

    # --- events -------------------------------------------------------------------------------------------------------

    def _set_changed(self, event: Event) -> None:
        new = event.new
        if event.type == "DELETED":
            self._sets.pop(new.uid, None)
            return
        known = self._sets.get(new.uid)
        if known is None:
            known = self._sets[new.uid] = _Set(new)
        known.stored = new
        if event.old is None or event.old.tree["spec"] is not new.tree["spec"]:
            known.hash, known.template, known.model = _hash(new), _template(new), None
            known.dirty.update(dict.fromkeys((*known.pods, *(name for _, name in self._nodes.objects))))
            self._syncs.add(new.uid)
        self._statuses.add(new.uid)

    def _pod_changed(self, event: Event) -> None:
        owner = next((each for each in event.new.meta.get("ownerReferences", ()) if each.get("controller")), None)
        known = self._sets.get(owner["uid"]) if owner is not None else None
        if known is None or owner is None:
            return
        node = _node_of(event.new)
        if event.type == "DELETED":
            known.pods.get(node, {}).pop(event.new.key, None)
        else:
            known.pods.setdefault(node, {})[event.new.key] = event.new
        known.dirty[node] = None
        self._syncs.add(owner["uid"])

    def _node_changed(self, event: Event) -> None:
        old, new = event.old, event.new
        if (
            event.type == "MODIFIED"
            and old is not None
            and old.tree.get("spec") == new.tree.get("spec")
            and old.labels == new.labels
        ):
            return
        for uid, known in self._sets.items():
            known.dirty[new.name] = None
            self._syncs.add(uid)

    # --- rounds -------------------------------------------------------------------------------------------------------

    def _sync(self, uid: str) -> None:
        known = self._sets.get(uid)
        if known is None:
            return
        if known.stored.is_leaving:
            known.dirty.clear()
            return
        dirty, known.dirty = known.dirty, {}
        for node in dirty:
            self._sync_node(known, node)
        self._roll(known)
        self._statuses.add(uid)

    def _sync_node(self, known: _Set, name: str) -> None:
        node = self._nodes.objects.get(("", name))
        should_run, may_stay = self._verdict(known, node)
        pods = known.pods.get(name, {})
        staying = [pod for pod in pods.values() if not pod.is_leaving]
        for pod in [pod for pod in staying if at(pod.tree, "status", "phase") == "Failed"]:
            staying.remove(pod)
            self._replace_failed(known, pod)
        staying.sort(key=lambda pod: (pod.meta["creationTimestamp"], pod.key))
        surplus = staying[1:] if may_stay else staying
        for pod in surplus:
            self._server.delete(api.PODS, pod.name, pod.namespace)
        if should_run and not pods:
            self._try_to_create(known, name)
        self._recount(known, name, should_run=should_run)

    def _recount(self, known: _Set, name: str, *, should_run: bool) -> None:
        if not known.pods.get(name):
            known.pods.pop(name, None)
        pods = [pod for pod in known.pods.get(name, {}).values() if not pod.is_leaving]
        ready = any(is_ready(pod) for pod in pods)
        available = any(self._is_available(known, name, pod) for pod in pods)
        if should_run:
            updated = any(pod.labels.get(HASH) == known.hash for pod in pods)
            known.count(name, _Count(1, int(bool(pods)), 0, int(ready), int(updated), int(available)))
        else:
            known.count(name, _Count(misscheduled=int(bool(pods))))

    def _verdict(self, known: _Set, node: Stored | None) -> tuple[bool, bool]:
        """Whether the node should have a pod, and whether a pod that is there may stay."""
        if node is None:
            return False, False
        spec = known.template["spec"]
        if not placement.wants(spec, node):
            return False, False
        taints, tolerations = placement.taints_of(node), spec["tolerations"]
        if placement.untolerated(tolerations, taints) is None:
            return True, True
        return False, placement.untolerated(tolerations, taints, ("NoExecute",)) is None

    def _try_to_create(self, known: _Set, node: str) -> None:
        """Make the node's pod; when the server refuses (an account that is not there yet), try again later."""
        try:
            self._create(known, node)
        except Refused:
            known.dirty[node] = None
            self._syncs.add(known.stored.uid, after_s=known.backoff_s)
            known.backoff_s = min(2 * known.backoff_s, LAST_BACKOFF_S)
        else:
            known.backoff_s = FIRST_BACKOFF_S

    def _create(self, known: _Set, node: str) -> None:
        if known.model is None:
            known.model = self._create_first(known, node)
        else:
            self._server.create_alike(known.model, _pinned(known.model.tree["spec"], node))

    def _create_first(self, known: _Set, node: str) -> Stored:
        stored = known.stored
        meta = known.template.get("metadata", {})
        generation = stored.meta.get("annotations", {}).get(TEMPLATE_GENERATION, "1")
        body = {
            "metadata": {
                **meta,
                "generateName": f"{stored.name}-",
                "labels": {**meta.get("labels", {}), HASH: known.hash, "pod-template-generation": generation},
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "DaemonSet",
                        "name": stored.name,
                        "uid": stored.uid,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": _pinned(known.template["spec"], node),
        }
        return self._server.create(api.PODS, body, stored.namespace, manager=MANAGER)

    def _replace_failed(self, known: _Set, pod: Stored) -> None:
        """A failed daemon pod is deleted, not faster than once a second."""
        age_s = self._server.clock.now() - seconds_of(pod.meta["creationTimestamp"])
        if age_s >= FAILED_BACKOFF_S:
            self._server.delete(api.PODS, pod.name, pod.namespace)
        else:
            known.dirty[_node_of(pod)] = None
            self._syncs.add(known.stored.uid, after_s=FAILED_BACKOFF_S)

    def _roll(self, known: _Set) -> None:
        """With RollingUpdate, delete old pods as far as `maxUnavailable` allows; the sick ones first."""
        strategy = at(known.stored.tree, "spec", "updateStrategy") or {}
        if strategy.get("type") != "RollingUpdate":
            return
        allowed = _number(at(strategy, "rollingUpdate", "maxUnavailable") or 1, known.total.desired)
        down = known.total.desired - known.total.available
        sick: list[Stored] = []
        well: list[Stored] = []
        for node in sorted(known.counts):
            count = known.counts[node]
            if count.desired and count.current and not count.updated:
                old = [pod for pod in known.pods.get(node, {}).values() if not pod.is_leaving]
                (well if count.available else sick).extend(old)
        for pod in sick + well[: max(0, allowed - down)]:
            self._server.delete(api.PODS, pod.name, pod.namespace)

    def _is_available(self, known: _Set, node: str, pod: Stored) -> bool:
        if not is_ready(pod):
            return False
        wanted_s = at(known.stored.tree, "spec", "minReadySeconds") or 0
        if not wanted_s:
            return True
        since = (condition(at(pod.tree, "status", "conditions") or (), "Ready") or {}).get("lastTransitionTime")
        left_s = wanted_s - (self._server.clock.now() - seconds_of(since)) if since else wanted_s
        if left_s <= 0:
            return True
        known.dirty[node] = None
        self._syncs.add(known.stored.uid, after_s=left_s)
        return False

    def _write_status(self, uid: str) -> None:
        known = self._sets.get(uid)
        if known is None or known.stored.is_leaving:
            return
        total = known.total
        status = {
            "currentNumberScheduled": total.current,
            "numberMisscheduled": total.misscheduled,
            "desiredNumberScheduled": total.desired,
            "numberReady": total.ready,
            "updatedNumberScheduled": total.updated,
            "numberAvailable": total.available,
            "numberUnavailable": total.desired - total.available,
            "observedGeneration": known.stored.meta["generation"],
        }
        stored = known.stored
        self._server.patch(
            api.DAEMON_SETS, stored.name, {"status": status}, stored.namespace, manager=MANAGER, subresource="status"
        )


def _node_of(pod: Stored) -> str:
    """The node a daemon pod is for, bound or not."""
    bound = at(pod.tree, "spec", "nodeName")
    if bound:
        return str(bound)
    for term in placement.required_terms(pod.tree["spec"]) or ():
        for field in term.get("matchFields", ()):
            if field["key"] == "metadata.name":
                return str(field["values"][0])
    return ""


def _pinned(spec: Tree, node: str) -> Tree:
    """The template's spec for one node; each alternative of the affinity gets the name."""
    only = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = [{**term, "matchFields": only} for term in placement.required_terms(spec) or [{}]]
    affinity = spec.get("affinity", {})
    node_affinity = {
        **affinity.get("nodeAffinity", {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def _template(stored: Stored) -> Tree:
    """The pod template with what daemon pods tolerate in addition."""
    template: Tree = stored.tree["spec"]["template"]
    spec = template["spec"]
    added = TOLERATED if not spec.get("hostNetwork") else (*TOLERATED, ("network-unavailable", "NoSchedule"))
    tolerations = list(spec.get("tolerations", []))
    for key, effect in added:
        one = {"key": NODE + key, "operator": "Exists", "effect": effect}
        if one not in tolerations:
            tolerations.append(one)
    return {**template, "spec": {**spec, "tolerations": tolerations}}


def _hash(stored: Stored) -> str:
    """Short name of a template's content."""
    number = zlib.crc32(msgspec.json.encode(stored.tree["spec"]["template"], order="sorted"))
    letters = ""
    while number:
        number, digit = divmod(number, len(HASH_LETTERS))
        letters += HASH_LETTERS[digit]
    return letters or HASH_LETTERS[0]


def _number(amount: int | str, total: int) -> int:
    """A number, or a percentage of `total` rounded up."""
    return amount if isinstance(amount, int) else -(-total * int(amount.rstrip("%")) // 100)
