"""The status of an `NPUOperatorCtl`: one layer, the truth about chips.

Written only when something changed, so nothing in it moves by itself: no "now", no age, no counter of seconds.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from .fields import Item, Keyed, Line, Stamp, Status, Text, Word


class Truth(StrEnum):
    """The status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class RolloutResult(StrEnum):
    """How a rollout ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SUPERSEDED = "Superseded"
    ABORTED = "Aborted"


class Condition(Item, frozen=True, kw_only=True, gc=False):
    """One statement about the whole, in the form all of Kubernetes uses."""

    type: Annotated[str, Meta(min_length=1, max_length=316), "What is stated, for example Ready."]
    status: Annotated[Truth, "Whether it holds."]
    reason: Annotated[str, Meta(min_length=1, max_length=1024), "One word why; see the reference of reasons."]
    message: Annotated[str, Meta(max_length=32768), "The same for people, with names and numbers."] = ""
    last_transition_time: Annotated[Stamp | None, "When `status` last changed."] = None
    observed_generation: Annotated[int, "The generation of the object that this was said about."] = 0


class NodeCounts(Status, frozen=True, kw_only=True, gc=False):
    """The fleet in numbers."""

    total: Annotated[int, "Nodes with an NPU."] = 0
    ready: Annotated[int, "Nodes whose healthy chips are all allocatable and validated."] = 0
    npus: Annotated[int, "Chips."] = 0
    allocatable: Annotated[int, "Chips that pods can ask for."] = 0
    unhealthy: Annotated[int, "Chips that are sick or lost."] = 0
    summary: Annotated[Word, "`ready/total`, for the table."] = ""
    npu_summary: Annotated[Word, "`allocatable/npus`, for the table."] = ""


class ComponentStatus(Item, frozen=True, kw_only=True, gc=False):
    """One component in numbers of pods."""

    name: Annotated[str, Meta(min_length=1, max_length=63), "The component as it is spelled in the spec."]
    desired: Annotated[int, "Pods that should run."] = 0
    ready: Annotated[int, "Pods that are ready."] = 0
    updated: Annotated[int, "Pods of the newest template."] = 0
    message: Annotated[Text, "What is missing, where, and why."] = ""


class PoolStatus(Item, frozen=True, kw_only=True, gc=False):
    """Nodes with the same chip, kernel and operating system: they share a driver image."""

    name: Annotated[str, Meta(min_length=1, max_length=63), "Value of the label npu-operator.alauda.io/pool."]
    chip: Annotated[Word, "Chip family."] = ""
    kernel: Annotated[Line, "The nodes' `uname -r`."] = ""
    os: Annotated[Line, "The nodes' operating system."] = ""
    nodes: Annotated[int, "Nodes in the pool."] = 0
    image: Annotated[Line, "The driver image the pool needs; empty where the host's driver is used."] = ""
    digest: Annotated[Line, "Digest the image was pinned to."] = ""
    image_present: Annotated[Truth, "Whether the registry has the image; Unknown when it could not be asked."] = (
        Truth.UNKNOWN
    )


class UpgradeStatus(Status, frozen=True, kw_only=True, gc=False):
    """The rollout under way, in numbers of nodes. All zero and empty: there is none."""

    target: Annotated[Line, "Driver version the nodes are taken to."] = ""
    total: Annotated[int, "Nodes that belong to this rollout."] = 0
    done: Annotated[int, "Nodes that run the target and serve."] = 0
    staged: Annotated[int, "Nodes on which the target lies ready and that wait for approval or a slot."] = 0
    in_progress: Annotated[int, "Nodes that are out of service for it."] = 0
    waiting: Annotated[int, "Nodes whose turn has not come."] = 0
    failed: Annotated[int, "Nodes on which it failed."] = 0
    skipped: Annotated[int, "Nodes that are left out."] = 0
    blocked_by: Annotated[tuple[Line, ...], Meta(max_length=20), "What keeps it from going on, worst first."] = ()
    started_at: Annotated[Stamp | None, "When it began."] = None
    summary: Annotated[Word, "`done/total`, for the table; empty without a rollout."] = ""


class Rollout(Item, frozen=True, kw_only=True, gc=False):
    """A rollout that is over."""

    target: Annotated[Line, "Driver version."]
    started_at: Annotated[Stamp | None, "When it began."] = None
    finished_at: Annotated[Stamp | None, "When it ended."] = None
    result: Annotated[RolloutResult, "How it ended."] = RolloutResult.SUCCEEDED
    total: Annotated[int, "Nodes that belonged to it."] = 0
    done: Annotated[int, "Nodes that ran the target in the end."] = 0
    failed: Annotated[int, "Nodes on which it failed."] = 0
    skipped: Annotated[int, "Nodes that were left out."] = 0


HISTORY_LENGTH = 10


class CtlStatus(Status, frozen=True, kw_only=True, gc=False):
    """What is, as opposed to what should be."""

    observed_generation: Annotated[int, "The generation of the spec that this status speaks about."] = 0
    conditions: Annotated[tuple[Condition, ...], Meta(max_length=64), Keyed("type"), "Statements about the whole."] = ()
    nodes: Annotated[NodeCounts, "The fleet in numbers."] = NodeCounts()
    components: Annotated[
        tuple[ComponentStatus, ...], Meta(max_length=32), Keyed("name"), "The components in numbers."
    ] = ()
    pools: Annotated[tuple[PoolStatus, ...], Meta(max_length=256), "Pools of nodes and their driver images."] = ()
    upgrade: Annotated[UpgradeStatus, "The rollout under way."] = UpgradeStatus()
    history: Annotated[
        tuple[Rollout, ...], Meta(max_length=HISTORY_LENGTH), "The last rollouts, the newest first."
    ] = ()

    def condition(self, kind: str) -> Condition | None:
        """The condition of this type, or None."""
        return next((condition for condition in self.conditions if condition.type == kind), None)


def with_transition_times(new: Sequence[Condition], old: Sequence[Condition], *, now: Stamp) -> tuple[Condition, ...]:
    """`new` with the right `lastTransitionTime`: the old one as long as the status is the same, else `now`."""
    before = {condition.type: condition for condition in old}
    return tuple(_with_time(condition, before.get(condition.type), now) for condition in new)


def _with_time(condition: Condition, before: Condition | None, now: Stamp) -> Condition:
    same = before is not None and before.status == condition.status
    stamp = before.last_transition_time if before is not None and same else None
    return Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        last_transition_time=stamp or now,
        observed_generation=condition.observed_generation,
    )
