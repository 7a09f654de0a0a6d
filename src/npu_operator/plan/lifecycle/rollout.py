"""The rollout as people see it: numbers, what blocks it, and the ones that are over.

A rollout is one target. It begins when a node needs it, is over when no node is on its way or waits any more, and is
superseded by another target. Source: product.md §2 (status).
"""

from collections.abc import Mapping, Sequence

from npu_operator.model.reasons import Reason
from npu_operator.model.status import HISTORY_LENGTH, Rollout, RolloutResult, UpgradeStatus
from npu_operator.plan.lifecycle.book import Book, Kind
from npu_operator.plan.lifecycle.effects import No

UNDER_WAY = (Kind.STAGED, Kind.IN_PROGRESS, Kind.WAITING)
ATTENTION = (*UNDER_WAY, Kind.FAILED, Kind.SKIPPED)
WAITS_FOR_SOMETHING = (Kind.STAGED, Kind.WAITING, Kind.SKIPPED)
BLOCKERS = 20
WORST_FIRST = (
    Reason.SpecRejected,
    Reason.MaxFailures,
    Reason.ImageMissing,
    Reason.ImageArchitecture,
    Reason.ImageChanged,
    Reason.PreflightFailed,
    Reason.FirmwareOutOfRange,
    Reason.StageFailed,
    Reason.DrainBlocked,
    Reason.NodeNotReady,
    Reason.AgentSilent,
    Reason.WaitsForApproval,
    Reason.CordonedByOthers,
    Reason.SkippedByAnnotation,
    Reason.Paused,
    Reason.PlanOnly,
    Reason.WaitsForCanary,
    Reason.WaitsForWindow,
    Reason.MaxUnavailable,
    Reason.WaitsForSlot,
    Reason.WaitsForOthers,
)
"""What needs a person before what passes by itself; reasons not named here come last."""


def halted(*, is_paused: bool, is_plan_only: bool, is_rejected: bool) -> No | None:
    """What keeps every node from starting anything new."""
    if is_rejected:
        return No(Reason.SpecRejected, "the spec has an error, so nothing new is started; see condition SpecAccepted")
    if is_plan_only:
        return No(Reason.PlanOnly, "the mode is Plan")
    return No(Reason.Paused, "the mode is Paused") if is_paused else None


def too_many_failed(book: Book, max_failures: int) -> No | None:
    """`maxFailures`: a number that is not in the message, or each failure would write every waiting node's status."""
    if book.kinds[Kind.FAILED] <= max_failures:
        return None
    return No(
        Reason.MaxFailures,
        f"more nodes failed than maxFailures {max_failures} allows; look at them, then retry them or raise the limit",
    )


def status(book: Book, target: str, objections: Mapping[str, No], old: UpgradeStatus, now: str) -> UpgradeStatus:
    """`status.upgrade`. `objections` are those of waiting nodes, by name; `old` is what was written last."""
    kinds = book.kinds
    if not any(kinds[kind] for kind in ATTENTION):
        return UpgradeStatus()
    total, done = book.managed, kinds[Kind.DONE]
    is_same = old.target == target and old.started_at is not None
    return UpgradeStatus(
        target=target,
        total=total,
        done=done,
        staged=kinds[Kind.STAGED],
        in_progress=kinds[Kind.IN_PROGRESS],
        waiting=kinds[Kind.WAITING],
        failed=kinds[Kind.FAILED],
        skipped=kinds[Kind.SKIPPED],
        blocked_by=blocked_by(objections),
        started_at=old.started_at if is_same else now,
        summary=f"{done}/{total}",
    )


def blocked_by(objections: Mapping[str, No]) -> tuple[str, ...]:
    """One line for each thing that nodes wait for, with the first of them by name."""
    nodes_by_objection: dict[tuple[Reason, str], list[str]] = {}
    for name, no in objections.items():
        nodes_by_objection.setdefault((no.reason, no.message), []).append(name)
    rank = {reason: place for place, reason in enumerate(WORST_FIRST)}
    ordered = sorted(nodes_by_objection.items(), key=lambda item: (rank.get(item[0][0], len(rank)), item[0]))
    return tuple(_line(reason, message, sorted(nodes)) for (reason, message), nodes in ordered[:BLOCKERS])


def history(past: Sequence[Rollout], old: UpgradeStatus, new: UpgradeStatus, now: str) -> tuple[Rollout, ...]:
    """The last rollouts, the newest first, with the one that has just ended.

    One that ended with failed nodes stays in the status; when these are retried, its entry is written anew.
    """
    entry = _ended(old, new, now)
    if entry is None:
        return tuple(past)
    others = [one for one in past if (one.target, one.started_at) != (entry.target, entry.started_at)]
    before = next((one for one in past if (one.target, one.started_at) == (entry.target, entry.started_at)), None)
    if before is not None and _sums(before) == _sums(entry):
        return tuple(past)
    return (entry, *others)[:HISTORY_LENGTH]


def _ended(old: UpgradeStatus, new: UpgradeStatus, now: str) -> Rollout | None:
    is_going = bool(new.waiting or new.staged or new.in_progress)
    if old.started_at is not None and (new.target, new.started_at) != (old.target, old.started_at):
        if not new.target:
            return _entry(old, RolloutResult.SUCCEEDED, now, done=old.total - old.failed - old.skipped)
        return _entry(old, RolloutResult.SUPERSEDED, now, done=old.done)
    if new.started_at is None or is_going:
        return None
    result = RolloutResult.FAILED if new.failed else RolloutResult.ABORTED if new.skipped else RolloutResult.SUCCEEDED
    return _entry(new, result, now, done=new.done)


def _entry(of: UpgradeStatus, result: RolloutResult, now: str, *, done: int) -> Rollout:
    is_success = result is RolloutResult.SUCCEEDED
    return Rollout(
        target=of.target,
        started_at=of.started_at,
        finished_at=now,
        result=result,
        total=of.total,
        done=of.total if is_success else done,
        failed=0 if is_success else of.failed,
        skipped=0 if is_success else of.skipped,
    )


def _sums(one: Rollout) -> tuple[object, ...]:
    return one.result, one.total, one.done, one.failed, one.skipped


def _line(reason: Reason, message: str, nodes: Sequence[str]) -> str:
    who = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes (first: {nodes[0]})"
    return f"{reason}: {who}: {message}"[:1024]
