"""The pods that keep a node from being empty, and what keeps each of them: for decisions and for people."""

from collections.abc import Iterable

from npu_operator.model.names import UpgradeState
from npu_operator.plan.lifecycle.view import NodeView, PodView

NAMED = 3
"""Pods that a message names; the others are counted."""


def awaited(view: NodeView) -> tuple[PodView, ...]:
    """Pods whose own end is waited for."""
    return tuple(pod for pod in view.pods or () if pod.is_awaited and not pod.is_finished and not pod.is_mirror)


def to_be_drained(view: NodeView) -> tuple[PodView, ...]:
    """Pods without chips that the drain removes; those that hold chips are a matter of their own.

    The operator's own pod stays: it comes up again with the node, and on a cluster of one node nobody else could
    uncordon it.
    """
    if not view.policy.drain_spec.enable:
        return ()
    return tuple(
        pod
        for pod in view.pods or ()
        if pod.is_selected
        and not (pod.holds_npu or pod.is_mirror or pod.is_daemon or pod.is_finished or pod.is_operator)
    )


def of_state(view: NodeView) -> tuple[PodView, ...]:
    """The pods that the present state waits for."""
    if view.state is UpgradeState.JOBS:
        return awaited(view)
    if view.state is UpgradeState.POD_DELETION:
        return view.npu_pods
    return (*view.npu_pods, *to_be_drained(view)) if view.state is UpgradeState.DRAIN else ()


def told(pods: Iterable[PodView], view: NodeView) -> str:
    """A few pods with what keeps them, and how many more: `ml/train-0 (its budget is ml/train), 2 more`."""
    listed = sorted(pods, key=lambda pod: (not why_it_stays(pod, view), pod.title))
    named = [f"{pod.title}{f' ({why})' if (why := why_it_stays(pod, view)) else ''}" for pod in listed[:NAMED]]
    more = [f"{len(listed) - NAMED} more"] if len(listed) > NAMED else []
    return ", ".join(named + more)


def why_it_stays(pod: PodView, view: NodeView) -> str:
    """What keeps a pod; empty when it is only a matter of time."""
    if pod.is_terminating:
        return "terminating"
    if pod.blocked_by:
        return pod.blocked_by
    if pod.is_mirror:
        return "a static pod"
    if pod.is_bare and not may_evict_bare(pod, view):
        return f"no controller would put it back, and {_section(pod)}.force is false"
    if pod.has_empty_dir and not may_lose_data(pod, view):
        return f"its emptyDir data would be lost, and {_section(pod)}.deleteEmptyDir is false"
    return ""


def may_evict_bare(pod: PodView, view: NodeView) -> bool:
    """Whether the policy lets a pod like this go that nobody puts back."""
    return view.is_forced if pod.holds_npu else view.policy.drain_spec.force


def may_lose_data(pod: PodView, view: NodeView) -> bool:
    """Whether the policy lets a pod like this lose its emptyDir data."""
    if pod.holds_npu:
        return view.policy.pod_deletion.delete_empty_dir or view.is_forced
    return view.policy.drain_spec.delete_empty_dir


def _section(pod: PodView) -> str:
    return "podDeletion" if pod.holds_npu else "drainSpec"
