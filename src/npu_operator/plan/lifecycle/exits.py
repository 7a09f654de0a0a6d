"""When a state is over, and how long it may take: the cells of the table that only look."""

import math
from collections.abc import Iterable

from npu_operator.model.names import Purpose
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import gates, leftovers, stamps
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.view import NodeView, PodView

UNCORDON_LIMIT_S = 600
"""The device plugin registers within seconds of `uncordon-required`; what takes longer will not come by itself."""


# --- over when


def needs_another_driver(view: NodeView, fleet: Fleet) -> bool:
    """The node runs another driver of ours than the wanted one, and has not failed with that or been left out of it."""
    return (
        view.needs_upgrade and fleet.halted is None and view.purpose is not Purpose.RUNTIME and not is_left_alone(view)
    )


def may_start(view: NodeView, fleet: Fleet) -> bool:
    """No gate says no, and the node holds its slot."""
    return gates.may_start(view, fleet) is None


def wants_a_walk(view: NodeView, fleet: Fleet) -> bool:
    """There is an upgrade to wait for, or a recovery that may start at once."""
    if view.purpose is Purpose.RECOVERY and may_start(view, fleet):
        return True
    return needs_another_driver(view, fleet)


def is_cordoned(view: NodeView, fleet: Fleet) -> bool:
    """By us or by others; a cordon that somebody took away in our walk is not put back."""
    return view.node.unschedulable or view.record.uncordoned


def jobs_are_over(view: NodeView, fleet: Fleet) -> bool:
    """No pod that was to be waited for still runs."""
    if not view.policy.wait_for_completion.pod_selector:
        return True
    return view.pods is not None and not leftovers.awaited(view)


def npu_pods_are_gone(view: NodeView, fleet: Fleet) -> bool:
    """No pod holds a chip, not even a terminating one."""
    return view.pods is not None and not view.npu_pods


def is_empty(view: NodeView, fleet: Fleet) -> bool:
    """Nothing is left that a drain removes, and no pod holds a chip unless force was allowed."""
    if view.pods is None or (view.npu_pods and not view.is_forced):
        return False
    return not leftovers.to_be_drained(view)


def has_new_boot(view: NodeView, fleet: Fleet) -> bool:
    """A new boot id, and nothing else, proves a reboot; none is needed where the target runs already."""
    return view.has_rebooted or needs_no_reboot(view)


def has_driver(view: NodeView, fleet: Fleet) -> bool:
    """What the attempt was to bring is loaded in this boot."""
    return view.runs_target


def is_validated(view: NodeView, fleet: Fleet) -> bool:
    """The validator passed what is loaded, in this boot; a pod that is ready may be left over from before."""
    if view.found is None or view.loaded is None:
        return False
    verdict = view.found.validation
    return verdict.passed and verdict.boot_id == view.node.boot_id and verdict.version == view.loaded.version


def serves_again(view: NodeView, fleet: Fleet) -> bool:
    """The kubelet offers what it should, and our cordon is gone."""
    return chips_are_allocatable(view) and not view.is_cordoned_by_us


def is_forgotten(view: NodeView, fleet: Fleet) -> bool:
    """Its slot is somebody else's, and a canary has worked for long enough."""
    return not view.holds_slot and view.seconds_in_state >= view.soak_s


def is_to_start_anew(view: NodeView, fleet: Fleet) -> bool:
    """Another driver is wanted than the one that failed here, whatever is loaded now; or a recovery may start."""
    if view.purpose is Purpose.RUNTIME:
        return False
    ended = view.record.ended
    failed_for_another = ended is not None and ended.purpose is not Purpose.RECOVERY and not is_left_alone(view)
    if failed_for_another and view.wanted is not None and not view.runs_wanted and fleet.halted is None:
        return True
    return wants_a_walk(view, fleet)


# --- limits, in seconds; None: no limit


def no_limit(view: NodeView) -> int | None:
    """Waits for others, and says for whom."""
    return None


def cordon_limit(view: NodeView) -> int | None:
    """A cordon is part of the patch that enters the state."""
    return UNCORDON_LIMIT_S


def jobs_limit(view: NodeView) -> int | None:
    """`waitForCompletion.timeoutSecond`; 0 is none."""
    return view.policy.wait_for_completion.timeout_second or None


def pods_limit(view: NodeView) -> int | None:
    """`podDeletion.timeoutSecond`, or `recoveryPolicy.drain.timeoutSecond`, and what pods asked for on top."""
    policy = view.recovery.drain if view.purpose is Purpose.RECOVERY else view.policy.pod_deletion
    return _with_their_own_time(view, policy.timeout_second, view.npu_pods)


def drain_limit(view: NodeView) -> int | None:
    """`drainSpec.timeoutSecond`, and grace periods beyond it."""
    pods = (*view.npu_pods, *leftovers.to_be_drained(view))
    return _with_their_own_time(view, view.policy.drain_spec.timeout_second, pods)


def reboot_limit(view: NodeView) -> int | None:
    """Until it went down, `rebootDownSecond`; from then on `rebootUpSecond` for the whole."""
    deadlines = view.policy.deadlines
    return deadlines.reboot_up_second if view.is_executed else deadlines.reboot_down_second


def restart_limit(view: NodeView) -> int | None:
    """`podRestartSecond`."""
    return view.policy.deadlines.pod_restart_second


def validation_limit(view: NodeView) -> int | None:
    """`validationSecond`."""
    return view.policy.deadlines.validation_second


def uncordon_limit(view: NodeView) -> int | None:
    """Ours: nobody has to set it."""
    return UNCORDON_LIMIT_S


def reboot_late(view: NodeView) -> Reason:
    """Did it not go down, or not come back?"""
    return Reason.NodeNotBack if view.is_executed else Reason.RebootNotExecuted


# --- what several cells ask


def is_left_alone(view: NodeView) -> bool:
    """The wanted driver is the one that failed here, or that somebody took this node out of."""
    ended = view.record.ended
    if ended is None or ended.target is None or view.wanted is None or ended.purpose is Purpose.RECOVERY:
        return False
    return ended.target.is_met_by(view.wanted)


def needs_no_reboot(view: NodeView) -> bool:
    """The driver that the attempt is to bring runs already (somebody else's reboot brought it)."""
    attempt = view.attempt
    return attempt is not None and attempt.target is not None and view.runs_target


def chips_are_allocatable(view: NodeView) -> bool:
    """The agent has put the chips back into service, and every one that should be offered can be asked for.

    Without the first half, a number from before the reboot would do.
    """
    return view.found is not None and view.found.in_service and view.allocatable >= view.offered


def _with_their_own_time(view: NodeView, limit_s: int, pods: Iterable[PodView]) -> int | None:
    """A limit that leaves each pod the checkpoint it asked for and its own grace period, however long. 0: no limit."""
    if limit_s == 0:
        return None
    there = list(pods)
    checkpoint_s = max((pod.checkpoint_s or 0 for pod in there), default=0)
    entered = view.record.since.get(view.state or "", "")
    grace_s = max((stamps.between(entered, pod.gone_by) for pod in there if pod.is_terminating), default=0.0)
    return max(limit_s + checkpoint_s, math.ceil(grace_s))
