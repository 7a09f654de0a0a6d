"""Where a pod may run: selectors, affinity and taints, as scheduler and DaemonSet controller read them.

Source: kubernetes.io, "Assigning Pods to Nodes" and "Taints and Tolerations"; component-helpers `scheduling/corev1`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from npu_operator.sim.server.objects import Stored, Tree, at
from npu_operator.sim.server.selectors import Requirement

KEEPS_OUT: Final = ("NoSchedule", "NoExecute")
UNSCHEDULABLE: Final[Tree] = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def wants(spec: Tree, node: Stored) -> bool:
    """Whether `nodeSelector` and required affinity of a pod spec allow the node."""
    labels = node.labels
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    terms = required_terms(spec)
    return terms is None or any(_term_holds(term, node) for term in terms)


def required_terms(spec: Tree) -> list[Tree] | None:
    """The alternatives of the required node affinity; None when there is none."""
    selector = at(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return None if selector is None else selector.get("nodeSelectorTerms", [])


def _term_holds(term: Tree, node: Stored) -> bool:
    """An empty term selects nothing."""
    expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
    if not expressions and not fields:
        return False
    by_field = {"metadata.name": node.name}
    return all(_requirement(each).holds(node.labels) for each in expressions) and all(
        _requirement(each).holds(by_field) for each in fields
    )


def _requirement(expression: Mapping[str, Any]) -> Requirement:
    return Requirement(expression["key"], expression["operator"], tuple(expression.get("values", ())))


def taints_of(node: Stored) -> list[Tree]:
    """The node's taints, with the one that a cordon means."""
    taints = at(node.tree, "spec", "taints") or []
    if at(node.tree, "spec", "unschedulable") and not any(each["key"] == UNSCHEDULABLE["key"] for each in taints):
        return [*taints, UNSCHEDULABLE]
    return list(taints)


def untolerated(tolerations: Iterable[Tree], taints: Iterable[Tree], effects: Iterable[str] = KEEPS_OUT) -> Tree | None:
    """The first taint of these effects that no toleration covers."""
    wanted = tuple(effects)
    listed = list(tolerations)
    for taint in taints:
        if taint.get("effect") in wanted and not any(tolerates(each, taint) for each in listed):
            return taint
    return None


def tolerates(toleration: Tree, taint: Tree) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
