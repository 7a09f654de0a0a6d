"""The eviction sub-resource of pods: delete, unless a disruption budget says not now.

Source: kubernetes `pkg/registry/core/pod/storage/eviction.go` (1.34). Budgets are read from their status, which the
disruption controller keeps; a stale status refuses, as on a real server.
"""

from typing import TYPE_CHECKING, Final

from npu_operator.kube import api
from npu_operator.kube.api import Preconditions
from npu_operator.kube.clock import stamp
from npu_operator.sim.server import refusals, selectors
from npu_operator.sim.server.objects import Stored, Tree, at, condition
from npu_operator.sim.server.refusals import Cause, Refused

if TYPE_CHECKING:
    from npu_operator.sim.server.apiserver import ApiServer

RETRY_STALE_S: Final = 10
MANAGER: Final = "kube-apiserver"


def evict(
    server: "ApiServer", pod_name: str, namespace: str, *, grace_s: int | None = None, uid: str | None = None
) -> None:
    """Evict a pod. Raises Refused: 404, 409, or 429 when a budget does not allow it now."""
    pod = server.get(api.PODS, pod_name, namespace)
    if _needs_no_budget(pod):
        _delete(server, pod, grace_s, uid)
        return
    budgets = [budget for budget in server.list(api.POD_DISRUPTION_BUDGETS, namespace) if _covers(budget, pod)]
    if len(budgets) > 1:
        raise refusals.internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    for budget in budgets:
        if _may_go_unhealthy(budget, pod):
            continue
        _spend(server, budget, pod)
    _mark(server, pod)
    _delete(server, server.get(api.PODS, pod_name, namespace), grace_s, uid)


def _needs_no_budget(pod: Stored) -> bool:
    """Pods that are over, not yet begun, or leaving anyway."""
    return at(pod.tree, "status", "phase") in ("Succeeded", "Failed", "Pending") or pod.is_leaving


def _covers(budget: Stored, pod: Stored) -> bool:
    return selectors.selects(selectors.of_object(at(budget.tree, "spec", "selector")), pod.labels)


def is_ready(pod: Stored) -> bool:
    """The pod's condition says so."""
    ready = condition(at(pod.tree, "status", "conditions") or (), "Ready")
    return ready is not None and ready.get("status") == "True"


def _may_go_unhealthy(budget: Stored, pod: Stored) -> bool:
    """A running pod that is not ready may go past the budget, if its policy or the others' health allow it."""
    if is_ready(pod):
        return False
    if at(budget.tree, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, wanted = (at(budget.tree, "status", key) or 0 for key in ("currentHealthy", "desiredHealthy"))
    return healthy >= wanted > 0


def _spend(server: "ApiServer", budget: Stored, pod: Stored) -> None:
    status = budget.tree.get("status", {})
    if status.get("observedGeneration", 0) < budget.meta.get("generation", 0):
        cause = Cause(
            "DisruptionBudget", f"The disruption budget {budget.name} is still being processed by the server.", ""
        )
        raise _refused([cause], retry_after_s=RETRY_STALE_S)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise refusals.forbidden(budget.resource, budget.name, "pdb disruptions allowed is negative")
    if allowed == 0:
        wanted, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        message = f"The disruption budget {budget.name} needs {wanted} healthy pods and has {healthy} currently"
        raise _refused([Cause("DisruptionBudget", message, "")])
    now = stamp(server.clock.now())

    def spent(tree: Tree) -> Tree:
        before = tree["status"]
        disrupted = {**before.get("disruptedPods", {}), pod.name: now}
        after = {**before, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
        if allowed == 1:
            after["conditions"] = [_insufficient(each, now) for each in before.get("conditions", [])]
        return {**tree, "status": after}

    server.edit(budget, spent, manager=MANAGER, subresource="status")


def _insufficient(found: Tree, now: str) -> Tree:
    if found.get("type") != "DisruptionAllowed":
        return found
    return {**found, "status": "False", "reason": "InsufficientPods", "lastTransitionTime": now}


def _refused(causes: list[Cause], *, retry_after_s: int = 0) -> Refused:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return refusals.too_many_requests(message, causes, retry_after_s=retry_after_s)


def _mark(server: "ApiServer", pod: Stored) -> None:
    """The pod says why it goes."""
    now = stamp(server.clock.now())
    why = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }

    def marked(tree: Tree) -> Tree:
        others = [each for each in tree["status"].get("conditions", []) if each.get("type") != "DisruptionTarget"]
        return {**tree, "status": {**tree["status"], "conditions": [*others, why]}}

    server.edit(pod, marked, manager=MANAGER, subresource="status")


def _delete(server: "ApiServer", pod: Stored, grace_s: int | None, uid: str | None) -> None:
    preconditions = Preconditions(uid=uid) if uid else None
    server.delete(api.PODS, pod.name, pod.namespace, preconditions=preconditions, grace_s=grace_s)
