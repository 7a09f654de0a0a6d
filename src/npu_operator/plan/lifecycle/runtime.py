"""The restart of a node's container runtime: an attempt with a slot, without cordon and without approval.

The agent asks, the operator takes the slot and writes the record, the agent restarts once per attempt id and reports,
the operator takes record and slot away. One at a time, never while the node has another attempt. Source: product.md
§4.6.
"""

import msgspec

from npu_operator.model.names import Purpose
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import stamps
from npu_operator.plan.lifecycle.effects import Act, told
from npu_operator.plan.lifecycle.record import Attempt, Phase, Tried
from npu_operator.plan.lifecycle.slots import Holder
from npu_operator.plan.lifecycle.view import NodeView

LIMIT_S = 600.0
"""An agent restarts the runtime within seconds and waits for it to answer; after this long its slot is better used."""
PAUSE_S = 600.0
"""Between two attempts on one node, after one that brought nothing."""


def is_wanted(view: NodeView) -> bool:
    """Whether the agent asks for a restart and this node may be given one now, slots apart."""
    asked = view.found is not None and view.found.runtime_restart.wanted and view.node.is_ready
    failed = view.record.tried.get("runtime")
    has_paused = failed is None or view.seconds_since(failed.at) >= PAUSE_S
    return asked and has_paused and view.attempt is None and not view.is_in_flight


def slot_of(view: NodeView) -> Holder | None:
    """The slot that this node was given for a restart of its runtime."""
    return next((holder for holder in view.held if holder.purpose is Purpose.RUNTIME), None)


def is_granted(view: NodeView) -> bool:
    """Whether a slot waits to be written down on the Node."""
    holder = slot_of(view)
    if holder is None or view.found is None or holder.attempt == view.record.left:
        return False
    return is_wanted(view) and view.found.runtime_restart.done_attempt != holder.attempt


def proceed(view: NodeView) -> Act:
    """Write the attempt down, or take it away when it is over."""
    record, attempt = view.record, view.attempt
    if attempt is None:
        holder = slot_of(view)
        assert holder is not None, "asked after is_granted"
        made = Attempt(id=holder.attempt, purpose=Purpose.RUNTIME, phase=Phase.RUNNING, made_at=view.now)
        return Act(record=msgspec.structs.replace(record, attempt=made), look_again_s=LIMIT_S)
    asked = view.found.runtime_restart if view.found is not None else None
    over = msgspec.structs.replace(record, attempt=None, left=attempt.id if view.holds_slot else "")
    if asked is not None and (asked.done_attempt == attempt.id or not asked.wanted):
        tried = {what: one for what, one in record.tried.items() if what != "runtime"}
        return Act(record=msgspec.structs.replace(over, tried=tried))
    left_s = LIMIT_S - view.seconds_since(attempt.made_at)
    if left_s > 0:
        return Act(record=record, look_again_s=left_s)
    message = f"the container runtime was not restarted within {LIMIT_S:.0f} s; it is tried again at " + stamps.after(
        view.now, PAUSE_S
    )
    count = record.tried["runtime"].count + 1 if "runtime" in record.tried else 1
    failed = Tried(count=count, at=view.now, reason=Reason.RuntimeRestartNeeded, message=message)
    return Act(
        record=msgspec.structs.replace(over, tried={**record.tried, "runtime": failed}),
        notes=(told(view.node, Reason.RuntimeRestartNeeded, message, is_warning=True),),
        look_again_s=PAUSE_S,
    )
