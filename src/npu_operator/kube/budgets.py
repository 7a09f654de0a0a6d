"""Disruption budgets: would the API server refuse to evict a pod now, and why?

The rules are those of the eviction sub-resource (1.34: `pkg/registry/core/pod/storage/eviction.go`). All pure; the
server's own answer counts, this is for saying beforehand what it will be.
"""

from collections.abc import Iterable, Mapping

import msgspec

from npu_operator.kube.objects import Slim
from npu_operator.kube.pods import Pod, Trait, is_ready, traits


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One expression of a label selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Selector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A label selector. An empty one selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class BudgetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of a budget's spec that evictions read."""

    selector: Selector | None = None
    unhealthy_pod_eviction_policy: str = "IfHealthyBudget"


class BudgetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of a budget's status that evictions read."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed_generation: int = 0


class Budget(Slim, frozen=True):
    """A PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


def matches(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Does the selector select these labels? None selects nothing."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _meets(requirement, labels) for requirement in selector.match_expressions
    )


def obstacle(pod: Pod, budgets: Iterable[Budget]) -> str | None:
    """Why the API server would refuse to evict `pod` now; None when it would not.

    `budgets` may be of any namespaces; those that do not cover the pod do not count.
    """
    if traits(pod) & {Trait.FINISHED, Trait.TERMINATING} or pod.status.phase == "Pending":
        return None
    covering = [
        budget
        for budget in budgets
        if budget.metadata.namespace == pod.metadata.namespace and matches(budget.spec.selector, pod.metadata.labels)
    ]
    if len(covering) > 1:
        names = ", ".join(sorted(budget.metadata.name for budget in covering))
        return f"more than one budget covers it ({names}), which evictions do not support"
    return _refusal_of(covering[0], pod) if covering else None


def _refusal_of(budget: Budget, pod: Pod) -> str | None:
    status = budget.status
    if not is_ready(pod):
        if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
            return None
        if status.current_healthy >= status.desired_healthy > 0:
            return None
    if status.observed_generation >= budget.metadata.generation and status.disruptions_allowed > 0:
        return None
    name = budget.metadata.name
    return f"budget {name} needs {status.desired_healthy} healthy pods and has {status.current_healthy}"


def _meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    has = requirement.key in labels
    match requirement.operator:
        case "In":
            return has and labels[requirement.key] in requirement.values
        case "NotIn":
            return not has or labels[requirement.key] not in requirement.values
        case "Exists":
            return has
        case "DoesNotExist":
            return not has
    return False
