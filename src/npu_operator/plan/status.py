"""The status of the object in charge, from the tally and from what our DaemonSets report; nothing moves by itself."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from npu_operator.components.build import Component
from npu_operator.components.conflicts import Conflict
from npu_operator.components.pools import driver_image
from npu_operator.model.ctl import Mode, Spec, driver_version_for
from npu_operator.model.reading import ParsedCtl
from npu_operator.model.reasons import ConditionType, Reason
from npu_operator.model.status import (
    ComponentStatus,
    Condition,
    CtlStatus,
    NodeCounts,
    PoolStatus,
    Truth,
    UpgradeStatus,
    with_transition_times,
)
from npu_operator.plan.charge import Refusal
from npu_operator.plan.snapshot import ObjectKey, Snapshot
from npu_operator.plan.tally import Tally
from npu_operator.plan.verdict import NodeState, Verdict

NAMED = 3
"""How many nodes a message names before it says "and 5 more": enough to start looking, short enough to read."""
MOVING = (NodeState.DISCOVERING, NodeState.INSTALLING, NodeState.VALIDATING, NodeState.PUBLISHING)
BROKEN = (NodeState.DEGRADED, NodeState.UNREACHABLE)


class PartState(msgspec.Struct, frozen=True):
    """One component in pods, summed over its DaemonSets."""

    status: ComponentStatus
    reason: Reason

    @property
    def is_ready(self) -> bool:
        """Everything wanted runs."""
        return self.reason in (Reason.Ready, Reason.NoNodes)


def refused_status(ctl: ParsedCtl, refusal: Refusal, now: str) -> CtlStatus:
    """The status of an object that is not in charge: two conditions say so; nothing else could be taken for truth."""
    told = [
        _condition(ConditionType.Ready, Truth.FALSE, refusal.reason, refusal.message),
        _condition(ConditionType.Conflict, Truth.TRUE, refusal.reason, refusal.message),
    ]
    return _finish(ctl, CtlStatus(), told, now)


def status_of(
    ctl: ParsedCtl,
    snapshot: Snapshot,
    tally: Tally,
    components: Sequence[Component],
    conflicts: Sequence[Conflict],
) -> CtlStatus:
    """The status of the object in charge."""
    parts = [part_state(component, snapshot) for component in components if _has_pods(component)]
    conditions = [
        _ready(ctl, snapshot, tally, parts),
        _progressing(tally, parts),
        _degraded(ctl, snapshot, tally, parts),
        _spec_accepted(ctl),
        *_modes(ctl),
        *_fleet_conditions(tally),
        *_conflict_conditions(conflicts),
        *(
            _condition(
                ConditionType.of_component(part.status.name),
                Truth.TRUE if part.is_ready else Truth.FALSE,
                part.reason,
                part.status.message,
            )
            for part in parts
        ),
    ]
    status = CtlStatus(
        nodes=NodeCounts(
            total=tally.npu_nodes,
            ready=tally.ready,
            npus=tally.chips,
            allocatable=tally.allocatable,
            unhealthy=tally.unhealthy,
            summary=f"{tally.ready}/{tally.npu_nodes}",
            npu_summary=f"{tally.allocatable}/{tally.chips}",
        ),
        components=tuple(part.status for part in parts),
        pools=tuple(_pools(ctl.spec, tally)),
        upgrade=_upgrade(ctl.spec, tally),
        history=ctl.status.history,
    )
    return _finish(ctl, status, conditions, snapshot.now)


def part_state(component: Component, snapshot: Snapshot) -> PartState:
    """How far a component's DaemonSets are, and what the API server refused of it."""
    name = component.name[:1].lower() + component.name[1:]
    keys = [ObjectKey.of(body) for body in component.objects]
    refused = [f"{key.kind} {key.name}: {no}" for key in keys if (no := snapshot.refused_objects.get(key))]
    sets = [snapshot.objects.get(key) for key in keys if key.kind == "DaemonSet"]
    wanted, ready, updated = (
        sum(int(_pods(body).get(field, 0)) for body in sets)
        for field in ("desiredNumberScheduled", "numberReady", "updatedNumberScheduled")
    )
    unseen = not all(body is not None and _is_observed(body) for body in sets)
    if refused:
        reason, message = Reason.NotReady, "; ".join(refused)
    elif unseen:
        reason, message = Reason.RollingOut, "the cluster has not taken notice of the DaemonSet yet"
    elif wanted == 0:
        reason, message = Reason.NoNodes, "no node needs it"
    elif ready < wanted:
        reason, message = Reason.PodsNotReady, f"{ready} of {wanted} pods are ready"
    else:
        reason, message = Reason.Ready, f"{ready} of {wanted} pods are ready"
    return PartState(ComponentStatus(name=name, desired=wanted, ready=ready, updated=updated, message=message), reason)


def sentence(verdicts: Iterable[Verdict], total: int) -> str:
    """`a7: chip Ascend910-3 is Critical; a8: … and 5 more`."""
    named = [f"{verdict.node}: {verdict.message}" for verdict in verdicts]
    more = f"; and {total - len(named)} more" if total > len(named) else ""
    return "; ".join(named) + more


def _ready(ctl: ParsedCtl, snapshot: Snapshot, tally: Tally, parts: Sequence[PartState]) -> Condition:
    missing = tally.npu_nodes - tally.ready
    if snapshot.api_problems:
        return _condition(ConditionType.Ready, Truth.FALSE, Reason.NoRights, "; ".join(snapshot.api_problems))
    if missing:
        reasons = [reason for reason, nodes in tally.nodes_by_reason.items() if nodes]
        reason = reasons[0] if len(reasons) == 1 else Reason.NotReady
        message = (
            f"{missing} of {tally.npu_nodes} nodes not ready: {sentence(tally.first_nodes(reasons, NAMED), missing)}"
        )
        return _condition(ConditionType.Ready, Truth.FALSE, reason, message)
    late = [part for part in parts if not part.is_ready]
    if late:
        message = "; ".join(f"{part.status.name}: {part.status.message}" for part in late)
        return _condition(ConditionType.Ready, Truth.FALSE, late[0].reason, message)
    if not tally.npu_nodes:
        return _condition(
            ConditionType.Ready,
            Truth.FALSE,
            Reason.NoNodes,
            "no node with an NPU has been found; see the labels in the installation guide"
            if ctl.spec.mode is Mode.APPLY
            else f"no node with an NPU has been found, and the mode is {ctl.spec.mode}",
        )
    message = f"{_nodes(tally.ready)}, {tally.allocatable} NPUs allocatable"
    return _condition(ConditionType.Ready, Truth.TRUE, Reason.Ready, message)


def _progressing(tally: Tally, parts: Sequence[PartState]) -> Condition:
    moving = sum(tally.states[state] for state in MOVING)
    if moving:
        told = "; ".join(f"{tally.states[state]} {state}" for state in MOVING if tally.states[state])
        return _condition(ConditionType.Progressing, Truth.TRUE, Reason.RollingOut, f"nodes: {told}")
    late = [part.status.name for part in parts if not part.is_ready]
    if late:
        return _condition(
            ConditionType.Progressing, Truth.TRUE, Reason.RollingOut, f"waits for pods of {', '.join(late)}"
        )
    return _condition(ConditionType.Progressing, Truth.FALSE, Reason.InSync, "nothing is under way")


def _degraded(ctl: ParsedCtl, snapshot: Snapshot, tally: Tally, parts: Sequence[PartState]) -> Condition:
    if snapshot.api_problems:
        return _condition(ConditionType.Degraded, Truth.TRUE, Reason.NoRights, "; ".join(snapshot.api_problems))
    if snapshot.stale_definitions:
        message = "; ".join(snapshot.stale_definitions)
        return _condition(ConditionType.Degraded, Truth.TRUE, Reason.CrdMissing, message)
    if not ctl.may_disrupt:
        message = "; ".join(str(problem) for problem in ctl.errors)
        return _condition(ConditionType.Degraded, Truth.TRUE, Reason.SpecRejected, message)
    broken = sum(tally.states[state] for state in BROKEN)
    if broken:
        verdicts = [verdict for verdict in tally.first_nodes(tally.nodes_by_reason, 10**6) if verdict.state in BROKEN]
        reasons = {verdict.reason for verdict in verdicts}
        reason = reasons.pop() if len(reasons) == 1 else Reason.NotReady
        return _condition(ConditionType.Degraded, Truth.TRUE, reason, sentence(verdicts[:NAMED], broken))
    refused = [part for part in parts if part.reason is Reason.NotReady]
    if refused:
        message = "; ".join(f"{part.status.name}: {part.status.message}" for part in refused)
        return _condition(ConditionType.Degraded, Truth.TRUE, Reason.NotReady, message)
    return _condition(ConditionType.Degraded, Truth.FALSE, Reason.AllPassed, "nothing needs a person")


def _spec_accepted(ctl: ParsedCtl) -> Condition:
    if ctl.errors:
        reason = ctl.errors[0].reason
        message = "; ".join(str(problem) for problem in ctl.errors)
        return _condition(ConditionType.SpecAccepted, Truth.FALSE, reason, message)
    if ctl.problems:
        message = "; ".join(str(problem) for problem in ctl.problems)
        return _condition(ConditionType.SpecAccepted, Truth.TRUE, Reason.QuestionableSpec, message)
    return _condition(ConditionType.SpecAccepted, Truth.TRUE, Reason.Accepted, "every field is known and valid")


def _modes(ctl: ParsedCtl) -> Iterable[Condition]:
    if ctl.spec.mode is Mode.PAUSED:
        yield _condition(ConditionType.UpgradePaused, Truth.TRUE, Reason.Paused, Reason.Paused.sentence)
    if ctl.spec.mode is Mode.PLAN:
        yield _condition(ConditionType.UpgradePaused, Truth.TRUE, Reason.PlanOnly, Reason.PlanOnly.sentence)


def _fleet_conditions(tally: Tally) -> Iterable[Condition]:
    if tally.host_drivers:
        names = ", ".join(sorted(tally.host_drivers)[:NAMED])
        yield _condition(
            ConditionType.HostDriver,
            Truth.TRUE,
            Reason.HostDriver,
            f"{_nodes(len(tally.host_drivers))} with a driver that the host loads at boot, which is used as it is: "
            f"{names}; to hand one over, switch its autoload off and label the node "
            "npu.openfuyao.com/driver-managed=true",
        )
    if tally.orphaned_drivers:
        names = ", ".join(sorted(tally.orphaned_drivers)[:NAMED])
        yield _condition(
            ConditionType.DriverOwnedByUs,
            Truth.TRUE,
            Reason.DriverOwnedByUs,
            f"driver.enabled is false, but these nodes run the driver that we loaded and keep its loader: {names}",
        )
    if len(tally.handlers) > 1:
        told = ", ".join(f"{handler} on {count}" for handler, count in sorted(tally.handlers.items()))
        yield _condition(
            ConditionType.RuntimeHandlersAgree,
            Truth.FALSE,
            Reason.HandlersDisagree,
            f"RuntimeClass ascend can name one handler, the nodes know: {told}",
        )


def _conflict_conditions(conflicts: Sequence[Conflict]) -> Iterable[Condition]:
    for kind in (ConditionType.ComponentConflict, ConditionType.UnsupportedByVersion):
        mine = [conflict for conflict in conflicts if str(conflict.reason) == str(kind)]
        if mine:
            message = "; ".join(conflict.message for conflict in mine)
            yield _condition(kind, Truth.TRUE, Reason(mine[0].reason), message)


def _pools(spec: Spec, tally: Tally) -> Iterable[PoolStatus]:
    for pool in sorted(tally.pools, key=lambda pool: pool.key):
        try:
            image = driver_image(spec, pool)
        except ValueError:
            image = ""
        yield PoolStatus(
            name=pool.hash, chip=pool.chip, kernel=pool.kernel, os=pool.os, nodes=tally.pools[pool], image=image
        )


def _upgrade(spec: Spec, tally: Tally) -> UpgradeStatus:
    if not tally.out_of_sync:
        return UpgradeStatus()
    targets = sorted({driver_version_for(spec, pool.chip) for pool in tally.pools})
    total = sum(tally.pools.values())
    done = total - tally.out_of_sync
    return UpgradeStatus(
        target=", ".join(targets), total=total, done=done, waiting=tally.out_of_sync, summary=f"{done}/{total}"
    )


def _finish(ctl: ParsedCtl, status: CtlStatus, conditions: Sequence[Condition], now: str) -> CtlStatus:
    generation = ctl.metadata.generation
    told = [msgspec.structs.replace(condition, observed_generation=generation) for condition in conditions]
    return msgspec.structs.replace(
        status,
        observed_generation=generation,
        conditions=with_transition_times(told, ctl.status.conditions, now=now),
    )


def _condition(kind: str, status: Truth, reason: Reason, message: str) -> Condition:
    return Condition(type=str(kind), status=status, reason=str(reason), message=message)


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _has_pods(component: Component) -> bool:
    return any(body["kind"] == "DaemonSet" for body in component.objects)


def _is_observed(body: Mapping[str, Any]) -> bool:
    return int(_pods(body).get("observedGeneration", 0)) >= int(body["metadata"].get("generation", 0))


def _pods(body: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return body.get("status", {}) if body is not None else {}
