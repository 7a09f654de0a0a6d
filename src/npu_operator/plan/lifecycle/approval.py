"""Approvals: for which reboot somebody's word counts, and when it moves from the annotation into the record.

`true` counts for the reboot that waits now or, given in advance, for the next upgrade; `recovery`, `recovery-force`,
an attempt id and a version are exact. Moving it is one patch with the rest of the record, so it can neither be lost nor
be used twice; the moment of the move is the order in which approved nodes go. Source: product.md §4.7.
"""

import msgspec

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle.effects import Act, No, NodeChange, told
from npu_operator.plan.lifecycle.record import Approval, Attempt, Phase, Record
from npu_operator.plan.lifecycle.view import EMPTYING, NodeView

FOR_RECOVERY = frozenset({names.APPROVE_RECOVERY, names.APPROVE_RECOVERY_FORCE})
TAKEN = NodeChange(annotations={names.APPROVE_REBOOT: None})


def text_of(view: NodeView) -> str:
    """What the annotation says; empty without one."""
    return view.node.annotations.get(names.APPROVE_REBOOT, "").strip()


def counts_for(text: str, attempt: Attempt, record: Record) -> bool:
    """Whether this text approves this attempt, which waits."""
    if attempt.purpose is Purpose.RECOVERY:
        return text in FOR_RECOVERY or text == attempt.id or (text == names.TRUE and record.advance != text)
    if attempt.purpose is not Purpose.UPGRADE:
        return False
    return text in (names.TRUE, attempt.id) or (attempt.target is not None and text == attempt.target.version)


def is_given_in_advance(view: NodeView) -> bool:
    """Whether the annotation will count for the upgrade to the wanted driver once its attempt is made."""
    text = text_of(view)
    return view.wanted is not None and text in (names.TRUE, view.wanted.version)


def approval_of(record: Record) -> Approval | None:
    """The recorded approval that the attempt may use; a rollback is covered by that of its upgrade."""
    if record.attempt is None:
        return None
    return record.recovery_approval if record.attempt.purpose is Purpose.RECOVERY else record.approval


def take(view: NodeView) -> Act:
    """Move the annotation's word into the record and take the annotation away; nothing when it is for no reboot here.

    A node that is being emptied for a recovery takes one more word: `recovery-force`.
    """
    text, record, attempt = text_of(view), view.record, view.attempt
    if record.advance and record.advance != text:
        record = msgspec.structs.replace(record, advance="")
    if not text or attempt is None:
        return Act(record=record)
    is_waiting = attempt.phase is Phase.WAITING and counts_for(text, attempt, record)
    is_being_emptied = attempt.purpose is Purpose.RECOVERY and view.state in EMPTYING
    if not is_waiting and not (is_being_emptied and text == names.APPROVE_RECOVERY_FORCE):
        return Act(record=record)
    field = "recovery_approval" if attempt.purpose is Purpose.RECOVERY else "approval"
    said = f"{names.APPROVE_REBOOT}={text} counts for attempt {attempt.id} (reason={attempt.purpose})"
    return Act(
        record=msgspec.structs.replace(record, **{field: Approval(given=text, at=view.now)}),
        change=TAKEN,
        notes=(told(view.node, Reason.ApprovedReboot, said),),
    )


def objection(view: NodeView) -> No | None:
    """What an attempt that needs an approval waits for."""
    if approval_of(view.record) is not None:
        return None
    text = text_of(view)
    how = f"annotate the node {names.APPROVE_REBOOT}=true"
    if view.purpose is Purpose.RECOVERY:
        how = f"annotate the node {names.APPROVE_REBOOT}={names.APPROVE_RECOVERY}"
    other = f"; {names.APPROVE_REBOOT}={text} is for another reboot" if text else ""
    return No(Reason.WaitsForApproval, f"waits for approval: {how}{other}")
