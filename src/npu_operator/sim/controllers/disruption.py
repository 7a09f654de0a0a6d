"""Disruption budgets: how many pods may go now. The eviction sub-resource reads what this writes.

Source: kubernetes `pkg/controller/disruption` (1.34). A budget with percentages or `maxUnavailable` needs to
know how many pods there should be, and asks the pods' controllers for their scale; pods of a DaemonSet have none, and
such a budget fails (`SyncFailed`), which allows no disruption.
"""

import math
from typing import Final

from npu_operator.kube import api
from npu_operator.kube.clock import seconds_of, stamp
from npu_operator.sim.controllers.chores import Chores
from npu_operator.sim.server import selectors
from npu_operator.sim.server.apiserver import ApiServer
from npu_operator.sim.server.eviction import is_ready
from npu_operator.sim.server.objects import Key, Stored, Tree, at
from npu_operator.sim.server.store import Event

DELAY_S: Final = 0.1
FORGET_S: Final = 120.0  # a pod that was evicted and is still there after that counts as undisturbed
MANAGER: Final = "kube-controller-manager"


class _Unknown(Exception):
    """It cannot be told how many pods there should be."""


class Disruption:
    """Keeps the status of all budgets."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._budgets = server.store.table(api.POD_DISRUPTION_BUDGETS)
        self._chores: Chores[Key] = Chores(self._count, delay_s=DELAY_S)
        self._budgets.listeners.append(self._budget_changed)
        server.store.table(api.PODS).listeners.append(self._pod_changed)

    def _budget_changed(self, event: Event) -> None:
        if event.type != "DELETED":
            self._chores.add(event.new.key)

    def _pod_changed(self, event: Event) -> None:
        for key, budget in self._budgets.objects.items():
            if key[0] == event.new.namespace and (
                _selects(budget, event.new) or (event.old is not None and _selects(budget, event.old))
            ):
                self._chores.add(key)

    def _count(self, key: Key) -> None:
        budget = self._budgets.objects.get(key)
        if budget is None:
            return
        pods = [pod for pod in self._server.list(api.PODS, budget.namespace) if _selects(budget, pod)]
        now_s = self._server.clock.now()
        disrupted = self._still_disrupted(budget, pods, now_s)
        healthy = sum(1 for pod in pods if is_ready(pod) and not pod.is_leaving and pod.name not in disrupted)
        before = budget.tree.get("status", {})
        try:
            expected, desired = self._wanted(budget, pods)
        except _Unknown as error:
            status = {**before, "disruptionsAllowed": 0, "observedGeneration": budget.meta["generation"]}
            status["conditions"] = [self._condition(budget, before, "SyncFailed", str(error))]
        else:
            allowed = max(0, healthy - desired) if expected > 0 else 0
            reason = "SufficientPods" if allowed > 0 else "InsufficientPods"
            status = {
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "expectedPods": expected,
                "observedGeneration": budget.meta["generation"],
                "conditions": [self._condition(budget, before, reason, "")],
                **({"disruptedPods": disrupted} if disrupted else {}),
            }
        if status != before:
            self._server.edit(budget, lambda tree: {**tree, "status": status}, manager=MANAGER, subresource="status")
        if disrupted:
            self._chores.add(key, after_s=FORGET_S)

    def _still_disrupted(self, budget: Stored, pods: list[Stored], now_s: float) -> Tree:
        """Evicted pods whose deletion is not seen yet."""
        there = {pod.name for pod in pods if not pod.is_leaving}
        return {
            name: since
            for name, since in (at(budget.tree, "status", "disruptedPods") or {}).items()
            if name in there and now_s - seconds_of(since) < FORGET_S
        }

    def _wanted(self, budget: Stored, pods: list[Stored]) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        spec = budget.tree.get("spec", {})
        if "maxUnavailable" in spec:
            expected = self._expected(pods)
            return expected, max(0, expected - _share(spec["maxUnavailable"], expected))
        least = spec.get("minAvailable", 1)
        if isinstance(least, int):
            return len(pods), least
        expected = self._expected(pods)
        return expected, _share(least, expected)

    def _expected(self, pods: list[Stored]) -> int:
        """The sum of the scales of the pods' controllers."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = next((each for each in pod.meta.get("ownerReferences", ()) if each.get("controller")), None)
            if owner is None:
                continue
            scales[owner["uid"]] = self._scale(owner, pod)
        return sum(scales.values())

    def _scale(self, owner: Tree, pod: Stored) -> int:
        if owner["kind"] == "Deployment":
            found = self._server.find(api.DEPLOYMENTS, owner["name"], pod.namespace)
            return int(at(found.tree, "spec", "replicas") or 0) if found is not None else 0
        kind = f"{owner['kind'].lower()}s.{owner['apiVersion'].partition('/')[0]}"
        raise _Unknown(f"{kind} does not implement the scale subresource")

    def _condition(self, budget: Stored, before: Tree, reason: str, message: str) -> Tree:
        status = "True" if reason == "SufficientPods" else "False"
        old: Tree = next((each for each in before.get("conditions", []) if each.get("type") == "DisruptionAllowed"), {})
        since = old.get("lastTransitionTime") if old.get("status") == status else None
        return {
            "type": "DisruptionAllowed",
            "status": status,
            "observedGeneration": budget.meta["generation"],
            "lastTransitionTime": since or stamp(self._server.clock.now()),
            "reason": reason,
            "message": message,
        }


def _selects(budget: Stored, pod: Stored) -> bool:
    return selectors.selects(selectors.of_object(at(budget.tree, "spec", "selector")), pod.labels)


def _share(amount: int | str, total: int) -> int:
    """A number, or a percentage of `total` rounded up."""
    return amount if isinstance(amount, int) else math.ceil(total * int(amount.rstrip("%")) / 100)
