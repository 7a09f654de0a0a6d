"""May this node start now? Lists to be read aloud; their order is part of their meaning.

What a person has to do comes before what passes by itself: nobody wants to learn when the window opens that an image is
missing. Each gate says no with the reason that users see. The slot comes last and is no gate here: a node without any
objection is a candidate, `slots.Budget` chooses among them, and only a node that holds its slot is started. Source:
product.md §4; the order of gates is tested as a whole.
"""

from collections.abc import Callable, Mapping

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.npunode import StageState
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import approval, recovery, stamps
from npu_operator.plan.lifecycle.effects import No
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.record import Phase
from npu_operator.plan.lifecycle.view import NodeView

Gate = Callable[[NodeView, Fleet], No | None]


def mode_lets_start(view: NodeView, fleet: Fleet) -> No | None:
    """Plan, Paused, or a spec with an error."""
    return fleet.halted


def nobody_skips_it(view: NodeView, fleet: Fleet) -> No | None:
    """The annotation by which people leave a node out."""
    if view.node.annotations.get(names.UPGRADE_SKIP) != names.TRUE:
        return None
    return No(Reason.SkippedByAnnotation, f"the annotation {names.UPGRADE_SKIP}=true leaves it out of upgrades")


def nobody_isolated_it(view: NodeView, fleet: Fleet) -> No | None:
    """A node that somebody took out by hand is his until he brings it back."""
    if not view.is_isolated:
        return None
    return No(Reason.CordonedByOthers, f"it is isolated ({names.HEALTH}={names.UNHEALTHY}); restore it first")


def nobody_else_cordoned_it(view: NodeView, fleet: Fleet) -> No | None:
    """With `ignoreCordoned`, a foreign cordon is respected before we start."""
    if not view.is_cordoned_by_others or not view.policy.ignore_cordoned:
        return None
    return No(Reason.CordonedByOthers, "somebody else has cordoned it; uncordon it, or set ignoreCordoned to false")


def image_is_there(view: NodeView, fleet: Fleet) -> No | None:
    """Preflight's word about the pool. What lies on the node already needs no registry."""
    return None if view.is_staged else view.image


def firmware_fits(view: NodeView, fleet: Fleet) -> No | None:
    """Under policy Require, a node whose firmware lies outside the target's range does not start."""
    return view.firmware


def driver_is_staged(view: NodeView, fleet: Fleet) -> No | None:
    """What can fail without downtime has to have succeeded."""
    if view.is_staged:
        return None
    failed = view.record.tried.get("stage")
    if failed is not None:
        return No(Reason.StageFailed, failed.message)
    if view.staged is not None and view.staged.state is StageState.FAILED:
        return No(Reason.StageFailed, view.staged.message or view.staged.reason)
    return No(Reason.Staging, f"driver {view.wanted} is not on the node yet")


def it_is_approved(view: NodeView, fleet: Fleet) -> No | None:
    """Every reboot needs somebody's word, unless `autoUpgrade` says otherwise."""
    return None if view.policy.auto_upgrade else approval.objection(view)


def recovery_is_approved(view: NodeView, fleet: Fleet) -> No | None:
    """The same for recovery reboots and `autoRecover`."""
    return None if view.recovery.auto_recover else approval.objection(view)


def back_off_is_over(view: NodeView, fleet: Fleet) -> No | None:
    """A node that could not be emptied is left in peace for a while."""
    failed = view.record.tried.get("drain")
    if failed is None or (view.purpose is Purpose.RECOVERY and view.is_forced):
        return None
    left_s = drain_pause_s(failed.count) - view.seconds_since(failed.at)
    if left_s <= 0:
        return None
    until = stamps.after(failed.at, drain_pause_s(failed.count))
    return No(failed.reason, f"{failed.message}; tried again at {until}", until, left_s)


def failures_are_few(view: NodeView, fleet: Fleet) -> No | None:
    """`maxFailures`."""
    return fleet.failures


def window_is_open(view: NodeView, fleet: Fleet) -> No | None:
    """Maintenance windows."""
    return fleet.window


def window_is_open_or_approved(view: NodeView, fleet: Fleet) -> No | None:
    """A recovery that starts by itself keeps to the window; a person's word for it is not made to wait."""
    return None if view.record.recovery_approval is not None else fleet.window


def window_is_open_or_it_is_out(view: NodeView, fleet: Fleet) -> No | None:
    """A rollback on a node that serves nobody is not made to wait."""
    return None if view.node.unschedulable else fleet.window


def canaries_have_worked(view: NodeView, fleet: Fleet) -> No | None:
    """The canary nodes of the pool first."""
    return None if view.node.name in fleet.canary_nodes else fleet.canaries.get(view.pool)


def node_answers(view: NodeView, fleet: Fleet) -> No | None:
    """A node whose kubelet is silent can be neither emptied nor rebooted."""
    if view.node.is_ready and view.found is not None:
        return None
    if not view.node.is_ready:
        return No(Reason.NodeNotReady, f"Kubernetes says NotReady ({view.node.ready_reason or 'no report yet'})")
    return No(Reason.AgentSilent, "the node agent has not reported in this boot")


def registry_goes_last(view: NodeView, fleet: Fleet) -> No | None:
    """The node with the driver images' registry waits until nobody needs it any more."""
    if not view.hosts_registry or fleet.is_all_staged:
        return None
    return No(Reason.WaitsForOthers, "the registry of the driver images runs on it, and other nodes still have to pull")


def breaker_is_closed(view: NodeView, fleet: Fleet) -> No | None:
    """Too many sick nodes at once: the tool is to be doubted."""
    return fleet.breaker


UPGRADE_GATES: tuple[Gate, ...] = (
    mode_lets_start,
    nobody_skips_it,
    nobody_isolated_it,
    nobody_else_cordoned_it,
    image_is_there,
    firmware_fits,
    driver_is_staged,
    it_is_approved,
    failures_are_few,
    node_answers,
    back_off_is_over,
    window_is_open,
    canaries_have_worked,
    registry_goes_last,
)
RECOVERY_GATES: tuple[Gate, ...] = (
    mode_lets_start,
    nobody_isolated_it,
    nobody_else_cordoned_it,
    breaker_is_closed,
    recovery_is_approved,
    node_answers,
    recovery.has_been_up,
    back_off_is_over,
    window_is_open_or_approved,
)
ROLLBACK_GATES: tuple[Gate, ...] = (window_is_open_or_it_is_out,)
STAGING_GATES: tuple[Gate, ...] = UPGRADE_GATES[: UPGRADE_GATES.index(driver_is_staged)]
"""What may keep a node from being staged."""
_GATES_OF: Mapping[Purpose | None, tuple[Gate, ...]] = {
    None: UPGRADE_GATES,
    Purpose.UPGRADE: UPGRADE_GATES,
    Purpose.RECOVERY: RECOVERY_GATES,
    Purpose.ROLLBACK: ROLLBACK_GATES,
    Purpose.RUNTIME: (mode_lets_start,),
}


def objection(view: NodeView, fleet: Fleet, purpose: Purpose | None = None) -> No | None:
    """The first objection to a start for this purpose (default: that of the attempt); None: a slot is all it needs."""
    return first_of(_GATES_OF[purpose if purpose is not None else view.purpose], view, fleet)


def first_of(gates: tuple[Gate, ...], view: NodeView, fleet: Fleet) -> No | None:
    """The first objection in this list."""
    return next((no for gate in gates if (no := gate(view, fleet)) is not None), None)


def may_start(view: NodeView, fleet: Fleet) -> No | None:
    """The first objection, or None: the node has an attempt that waits, no gate says no, and it holds its slot."""
    no = objection(view, fleet)
    if no is not None:
        return no
    if view.record.phase is not Phase.WAITING:
        return No(Reason.Waiting, "its attempt has not been recorded yet")
    if not view.holds_slot:
        return No(Reason.WaitsForSlot, "it waits for its slot")
    return None


def drain_pause_s(count: int) -> float:
    """Seconds to leave a node in peace after it could not be emptied for the `count`-th time: 5 min to 1 h."""
    return min(300.0 * 2.0 ** max(0, count - 1), 3600.0)
