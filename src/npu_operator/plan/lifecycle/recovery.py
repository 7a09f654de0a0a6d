"""Recovery: a sick chip is taken out and the node goes on; sometimes a reboot cures it.

The node agent asks for the reboot in what it found in this boot; a request of an earlier boot, or of a chip that came
back by itself, does not exist here. Source: product.md §4.14; facts/peers.md L11–L27.
"""

from npu_operator.model.ctl import share
from npu_operator.model.names import Purpose
from npu_operator.model.policies import Healer, RecoveryPolicy
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import stamps
from npu_operator.plan.lifecycle.effects import No
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.view import NodeView


def why_not(view: NodeView) -> No | None:
    """Why a node that needs a recovery reboot gets no attempt at all; None when it may have one."""
    said = view.found.recovery.message if view.found is not None else ""
    if view.wanted is None:
        return No(Reason.RebootByHand, f"{said or 'a chip is sick'}; the driver is the host's, so reboot it by hand")
    if view.recovery.healer is Healer.MINDCLUSTER:
        return No(Reason.LeftToMindCluster, f"{said or 'a chip is sick'}; the policy leaves healing to MindCluster")
    used = len(counted(view))
    if used >= view.recovery.max_attempts:
        return No(
            Reason.ColdRebootNeeded,
            f"{said or 'a chip is sick'} after {used} recovery reboots; switch the node off and on",
        )
    ended = view.record.ended
    if ended is not None and ended.purpose is Purpose.RECOVERY and ended.reason is Reason.Aborted:
        return No(Reason.Aborted, "somebody aborted its recovery; it is asked for again after the next boot")
    return None


def is_wanted(view: NodeView) -> bool:
    """Whether a recovery reboot is asked for and may be had in principle."""
    return view.needs_recovery and why_not(view) is None


def counted(view: NodeView) -> tuple[str, ...]:
    """Moments of this node's recovery reboots that still count against `maxAttempts`. Other reboots never do."""
    return tuple(at for at in view.record.recoveries if view.seconds_since(at) < view.recovery.window_second)


def forgotten_in_s(view: NodeView) -> float | None:
    """Seconds until the next remembered recovery reboot counts no more; None when none is remembered."""
    left = [view.recovery.window_second - view.seconds_since(at) for at in view.record.recoveries]
    return max(0.0, min(left)) if left else None


def has_been_up(view: NodeView, fleet: Fleet) -> No | None:
    """A gate: `minUptimeSecond`, or a wedge right after the boot would loop."""
    need_s = view.recovery.min_uptime_second
    left_s = need_s - view.seconds_since(view.up_since)
    if left_s <= 0:
        return None
    return No(
        Reason.UptimeTooShort,
        f"it has to be up for {need_s} s before another recovery reboot",
        stamps.after(view.up_since, need_s),
        left_s,
    )


def breaker(sick: int, healthy_before: int, policy: RecoveryPolicy) -> No | None:
    """Too many sick nodes at once, of those that were healthy an hour ago: the tool is broken, not the fleet."""
    most = share(policy.max_unhealthy, of=healthy_before)
    if sick <= most:
        return None
    return No(
        Reason.TooManyUnhealthy,
        f"more nodes are sick at once than maxUnhealthy {policy.max_unhealthy} allows, so nothing reboots; "
        "look at npu-smi and the driver first",
    )
