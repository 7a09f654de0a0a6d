"""What we do in a state: the cells of the table that act. Each is safe to repeat.

Evictions come before deletions, and deletion past a budget only where somebody allowed force. The rules for pods are
those of `kubectl drain`, except that a pod with a chip leaves whatever controls it. Source: product.md §4.8, 4.9, 4.11.
"""

from collections.abc import Iterable

import msgspec

from npu_operator.model import names
from npu_operator.plan.lifecycle import exits, leftovers, stamps
from npu_operator.plan.lifecycle.effects import (
    CORDON,
    NOTHING,
    UNCORDON,
    UNMARK,
    Act,
    AnnotatePod,
    DeletePod,
    Evict,
    NodeChange,
    PodWrite,
    SwapDriverPod,
)
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.view import NodeView, PodView
from npu_operator.plan.lifecycle.waiting import good_of

POD_PATIENCE_S = 120.0
"""How long a broken loader is left to restart by itself before its pod is replaced."""


def nothing(view: NodeView, fleet: Fleet) -> Act:
    """Waiting is all there is to do."""
    return NOTHING


def cordon(view: NodeView, fleet: Fleet) -> Act:
    """Cordon with our mark; a cordon that is there already stays whose it is."""
    return NOTHING if exits.is_cordoned(view, fleet) else Act(change=CORDON)


def evict_npu_pods(view: NodeView, fleet: Fleet) -> Act:
    """Ask pods that want one for a checkpoint, and evict the others that hold chips."""
    return _all_of(_one_npu_pod(pod, view) for pod in view.npu_pods)


def drain(view: NodeView, fleet: Fleet) -> Act:
    """Evict what is left, but for mirror, DaemonSet and finished pods and the operator's own.

    Pods that still hold chips here were either allowed to be killed, or have come back.
    """
    npu = (_kill(pod) if view.is_forced else _one_npu_pod(pod, view)[0] for pod in view.npu_pods)
    rest = (_eviction(pod, view, None) for pod in leftovers.to_be_drained(view))
    return Act(pods=tuple(write for write in (*npu, *rest) if write is not None))


def arm_reboot(view: NodeView, fleet: Fleet) -> Act:
    """Arm the record, once: from now on the rebooter may act. A node that was uncordoned meanwhile is emptied again."""
    attempt = view.attempt
    assert attempt is not None, "only an attempt leads here"
    if exits.needs_no_reboot(view):
        return NOTHING
    if attempt.boot_before:
        return drain(view, fleet) if view.record.uncordoned and not view.is_executed else NOTHING
    deadline = stamps.after(view.now, view.policy.deadlines.reboot_down_second)
    record = view.record.with_attempt(
        boot_before=view.node.boot_id, deadline=deadline, good=good_of(view.found) or attempt.good
    )
    if attempt.purpose is names.Purpose.RECOVERY:
        record = msgspec.structs.replace(record, recoveries=(*record.recoveries, view.now))
    return Act(record=record)


def unstick_loader(view: NodeView, fleet: Fleet) -> Act:
    """A loader that does not come up by itself gets a new pod; one that works is left alone."""
    pod = view.driver_pod
    if pod is None or pod.is_terminating or not pod.is_loader_broken:
        return NOTHING
    left_s = POD_PATIENCE_S - view.seconds_since(pod.created)
    if left_s > 0:
        return Act(look_again_s=left_s)
    why = f"its loader does not come up: {pod.trouble}"
    return Act(pods=(SwapDriverPod(view.node.name, pod.namespace, pod.name, pod.uid, why),))


def uncordon_if_ours(view: NodeView, fleet: Fleet) -> Act:
    """Once the chips can be asked for, take our cordon back; a foreign one stays."""
    return Act(change=uncordoning(view)) if exits.chips_are_allocatable(view) else NOTHING


def uncordoning(view: NodeView) -> NodeChange:
    """Undo our cordon, and no other: without our mark, or with `keep-cordoned`, the node stays cordoned."""
    if names.CORDON_MARK not in view.node.annotations:
        return NodeChange()
    if view.node.annotations.get(names.KEEP_CORDONED) == names.TRUE or not view.node.unschedulable:
        return UNMARK
    return UNCORDON


def _one_npu_pod(pod: PodView, view: NodeView) -> tuple[PodWrite | None, float | None]:
    """What to do with a pod that holds chips, and when to look at it again."""
    if pod.is_terminating:
        gone_s = stamps.between(view.now, pod.gone_by)
        return None, gone_s or None
    if pod.checkpoint_s and not pod.is_checkpoint_done:
        if not pod.drain_requested:
            asked = {names.DRAIN_REQUESTED: view.now}
            why = f"it wants {pod.checkpoint_s} s for a checkpoint"
            return AnnotatePod(pod.namespace, pod.name, pod.uid, asked, why), float(pod.checkpoint_s)
        left_s = pod.checkpoint_s - view.seconds_since(pod.drain_requested)
        if left_s > 0:
            return None, left_s
    return _eviction(pod, view, view.policy.pod_deletion.grace_period_second), None


def _eviction(pod: PodView, view: NodeView, grace_s: int | None) -> Evict | None:
    if pod.is_terminating or pod.is_mirror:
        return None
    if pod.is_bare and not leftovers.may_evict_bare(pod, view):
        return None
    if pod.has_empty_dir and not leftovers.may_lose_data(pod, view):
        return None
    return Evict(pod.namespace, pod.name, pod.uid, grace_s, "its node is to be rebooted")


def _kill(pod: PodView) -> DeletePod:
    return DeletePod(pod.namespace, pod.name, pod.uid, 0, "its time is over, and force is allowed")


def _all_of(pods: Iterable[tuple[PodWrite | None, float | None]]) -> Act:
    writes, waits = [], []
    for write, again_s in pods:
        if write is not None:
            writes.append(write)
        if again_s is not None:
            waits.append(again_s)
    return Act(pods=tuple(writes), look_again_s=min(waits, default=None))
