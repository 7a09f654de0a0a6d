"""Staging: the new driver comes to the node's disk, and is checked there, while the old one serves.

Driver pods are swapped only for the next nodes, so that no registry is asked by a whole fleet at once. A node on which
it fails keeps serving, gives its place to the next and is tried again later; it is no failed node. Source: product.md
§4.3.
"""

import msgspec

from npu_operator.model.ctl import share
from npu_operator.model.npunode import StageState
from npu_operator.model.policies import UpgradePolicy
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import stamps
from npu_operator.plan.lifecycle.effects import SwapDriverPod
from npu_operator.plan.lifecycle.record import Record, Tried
from npu_operator.plan.lifecycle.view import NodeView

AT_LEAST = 2
OLD_NEWS_S = 60.0
"""After a pod was swapped once more, a failure that the node still reports may be that of the pod before."""
NO_POD_S = 60.0
"""A DaemonSet makes its next pod within seconds; where it does not, the node must not block the others."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 300.0, 7200.0


def places(policy: UpgradePolicy, nodes: int) -> int:
    """How many nodes may be staged at once: twice the slots, at least two."""
    slots = policy.max_parallel_upgrades or nodes
    return max(AT_LEAST, 2 * min(slots, share(policy.max_unavailable, of=nodes)))


def is_under_way(view: NodeView) -> bool:
    """Whether the node takes up a place: its pod is the new one and the driver is not there yet, nor given up."""
    return is_swapped(view) and view.node.is_ready and not view.is_staged and "stage" not in view.record.tried


def is_swapped(view: NodeView) -> bool:
    """Whether the node's driver pod was made to bring the wanted driver, or is being replaced by one that is."""
    if view.driver_pod is None:
        return view.seconds_without_pod < NO_POD_S
    return view.has_new_pod or view.driver_pod.is_terminating


def may_be_tried(view: NodeView) -> bool:
    """Whether a swap makes sense now, as far as the node itself is concerned."""
    if view.is_staged or view.driver_pod is None or view.driver_pod.is_terminating or not view.node.is_ready:
        return False
    failed = view.record.tried.get("stage")
    if failed is None:
        return not view.has_new_pod
    return view.seconds_since(failed.at) >= pause_s(failed.count) and not _was_swapped_since(view, failed)


def swap(view: NodeView) -> SwapDriverPod:
    """The write that brings the new driver pod."""
    pod = view.driver_pod
    assert pod is not None, "asked after may_be_tried"
    return SwapDriverPod(view.node.name, pod.namespace, pod.name, pod.uid, f"driver {view.wanted} is to be staged")


def noted(view: NodeView, record: Record) -> Record:
    """The record with what staging has come to: a failure is counted once per pod, a success forgets all of them."""
    failed = record.tried.get("stage")
    if view.is_staged:
        if failed is None:
            return record
        return msgspec.structs.replace(
            record, tried={what: one for what, one in record.tried.items() if what != "stage"}
        )
    problem = _problem(view)
    if problem is None or (failed is not None and not _was_swapped_since(view, failed)):
        return record
    count = failed.count + 1 if failed is not None else 1
    again = stamps.after(view.now, pause_s(count))
    tried = Tried(count=count, at=view.now, reason=Reason.StageFailed, message=f"{problem}; tried again at {again}")
    return msgspec.structs.replace(record, tried={**record.tried, "stage": tried})


def look_again_s(view: NodeView) -> float | None:
    """Seconds until something about staging changes by itself."""
    failed, pod = view.record.tried.get("stage"), view.driver_pod
    if view.is_staged or pod is None:
        return None
    if failed is not None and not _was_swapped_since(view, failed):
        return max(0.0, pause_s(failed.count) - view.seconds_since(failed.at))
    left = view.policy.deadlines.stage_second - view.seconds_since(pod.created)
    if failed is not None and view.seconds_since(pod.created) < OLD_NEWS_S:
        left = min(left, OLD_NEWS_S - view.seconds_since(pod.created))
    return max(0.0, left) if view.has_new_pod else None


def pause_s(count: int) -> float:
    """Seconds before the next try after the `count`-th failure."""
    return min(FIRST_PAUSE_S * 2.0 ** max(0, count - 1), LONGEST_PAUSE_S)


def _problem(view: NodeView) -> str | None:
    """Why staging has failed on this node; None while it may still succeed."""
    pod = view.driver_pod
    if pod is None or pod.is_terminating or not view.has_new_pod:
        return None
    age_s = view.seconds_since(pod.created)
    staged = view.staged
    if staged is not None and staged.state is StageState.FAILED:
        is_old_news = "stage" in view.record.tried and age_s < OLD_NEWS_S
        return None if is_old_news else f"{staged.reason}: {staged.message or 'the check of the new driver failed'}"
    limit_s = view.policy.deadlines.stage_second
    if age_s < limit_s:
        return None
    return f"driver {view.wanted} was not on the node after {limit_s} s" + (f": {pod.trouble}" if pod.trouble else "")


def _was_swapped_since(view: NodeView, failed: Tried) -> bool:
    pod = view.driver_pod
    return pod is not None and stamps.between(failed.at, pod.created) > 0
