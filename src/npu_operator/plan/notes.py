"""Events for people: one for each change that somebody may ask about later, none for what only repeats itself."""

from collections.abc import Iterator

from npu_operator.model import names
from npu_operator.model.node import Node
from npu_operator.model.npunode import NodePlan
from npu_operator.model.reading import ParsedCtl
from npu_operator.model.reasons import ConditionType
from npu_operator.model.status import CtlStatus, Truth
from npu_operator.plan.verdict import NodeState, Verdict
from npu_operator.plan.writes import Note

TOLD = (ConditionType.Ready, ConditionType.Degraded, ConditionType.SpecAccepted, ConditionType.Conflict)
"""Conditions whose changes are worth an event."""
GOOD_WHEN = {ConditionType.Ready: Truth.TRUE, ConditionType.SpecAccepted: Truth.TRUE}
"""The others are good when they are False."""
BAD_STATES = frozenset({NodeState.DEGRADED, NodeState.UNREACHABLE})


def of_conditions(ctl: ParsedCtl, new: CtlStatus) -> Iterator[Note]:
    """Events about the object itself. The first status of a new object tells only what is bad about it."""
    for kind in TOLD:
        before, after = ctl.status.condition(kind), new.condition(kind)
        is_good = after is None or after.status is GOOD_WHEN.get(kind, Truth.FALSE)
        if after is None or (before is None and is_good) or (before is not None and before.status is after.status):
            continue
        if before is None and kind is ConditionType.Ready:
            continue  # a new object is never ready at once
        yield Note(
            names.CTL_KIND,
            ctl.metadata.namespace,
            ctl.metadata.name,
            ctl.metadata.uid,
            after.reason,
            f"{kind} is {after.status}: {after.message}",
            is_warning=not is_good,
        )


def of_node(node: Node, before: NodePlan, verdict: Verdict) -> Iterator[Note]:
    """Events about a node that stopped serving with all its chips, or serves with all of them again."""
    was_bad, is_bad = before.state in BAD_STATES, verdict.state in BAD_STATES
    if is_bad and (before.state, before.reason) != (verdict.state, verdict.reason):
        yield Note("Node", "", node.name, node.metadata.uid, verdict.reason, verdict.message, is_warning=True)
    elif was_bad and verdict.is_ready:
        yield Note("Node", "", node.name, node.metadata.uid, verdict.reason, verdict.message)
