"""The plan for the cluster: who is in charge, what changed nodes need, which objects should be there, what to report.

`Planner.plan` gives the same answer whether it saw every event or starts from nothing: what it keeps between two calls
are verdicts that still stand, and a test compares both ways. A plan costs what changed, not what exists.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from npu_operator.components import build, labels
from npu_operator.components.build import Component
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.pools import Pool
from npu_operator.model import names
from npu_operator.model.ctl import Mode, Spec
from npu_operator.model.node import Node
from npu_operator.model.npunode import Found, NodePlan, NPUNode
from npu_operator.model.reading import ParsedCtl
from npu_operator.model.status import CtlStatus
from npu_operator.plan import charge, marks, notes, status
from npu_operator.plan.snapshot import ObjectKey, Snapshot
from npu_operator.plan.tally import Tally
from npu_operator.plan.verdict import NodeState, Verdict, judge
from npu_operator.plan.writes import (
    CreateNPUNode,
    DeleteNPUNode,
    Ensure,
    NodeWrite,
    ObjectWrite,
    Remove,
    ReportCtl,
    ReportNode,
)

SIGN_PATIENCE_S = 600.0
"""How long our labels stay after the last sign of an NPU has gone. Source: product.md §7."""
UNINSTALL_GRACE_S = 5.0
"""How long no object may be in charge before everything is taken back: a delete-and-create is no uninstall."""


class Plan(msgspec.Struct, kw_only=True):
    """What to do now, and when to look again if nothing happens."""

    objects: tuple[ObjectWrite, ...] = ()
    nodes: dict[str, tuple[NodeWrite, ...]] = {}
    """For each node that was looked at: what to write; an empty tuple means that nothing is to be written any more."""
    ctls: tuple[ReportCtl, ...] = ()
    unsigned: tuple[str, ...] = ()
    """Nodes of those looked at that keep our labels without a sign of an NPU; someone has to count the time."""
    resources: tuple[str, ...] = ()
    """Resource names to which the spec renames chips: they have to be read from Nodes."""
    look_again_s: float | None = None


class Planner:
    """Plans for one operator process."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._ctl: ParsedCtl | None = None
        self._built: tuple[Spec, ClusterFacts, tuple[Component, ...]] | None = None

    def plan(self, snapshot: Snapshot, changed: Iterable[str]) -> Plan:
        """Plan for the nodes in `changed` and for everything that is not about single nodes.

        When another object, or another generation of it, came into charge, all nodes are looked at.
        """
        charged = charge.in_charge(snapshot.ctls.values(), snapshot.namespace)
        ctl = charged.ctl
        refused = [
            _report(snapshot.ctls[key], status.refused_status(snapshot.ctls[key], refusal, snapshot.now))
            for key, refusal in sorted(charged.refused.items())
        ]
        names_changed = set(changed)
        if _identity(ctl) != _identity(self._ctl):
            names_changed |= snapshot.nodes.keys() | self.tally.verdicts.keys()
        self._ctl = ctl
        plan = self._take_back(snapshot, names_changed) if ctl is None else self._bring_up(ctl, snapshot, names_changed)
        plan.ctls = (*plan.ctls, *(report for report in refused if report is not None))
        return plan

    def components(self, spec: Spec, facts: ClusterFacts) -> tuple[Component, ...]:
        """What should be there; built again only when spec or facts differ from last time."""
        if self._built is None or self._built[:2] != (spec, facts):
            self._built = (spec, facts, build.wanted(spec, facts))
        return self._built[2]

    def _bring_up(self, ctl: ParsedCtl, snapshot: Snapshot, changed: set[str]) -> Plan:
        acts = ctl.spec.mode is Mode.APPLY and ctl.may_disrupt
        plan = Plan()
        for name in changed:
            plan.nodes[name] = self._plan_node(name, ctl.spec, snapshot, acts=acts)
        plan.resources = tuple(ctl.spec.device_plugin.resource_names.values())
        plan.unsigned = tuple(name for name in changed if self._is_unsigned(name))
        waits = [
            SIGN_PATIENCE_S - seconds for seconds in snapshot.seconds_without_sign.values() if seconds < SIGN_PATIENCE_S
        ]
        pools = tuple(sorted(self.tally.pools, key=lambda pool: pool.key))
        facts = ClusterFacts(
            namespace=snapshot.namespace,
            operator_image=snapshot.operator_image,
            operator_version=snapshot.operator_version,
            policy_name=ctl.metadata.name,
            has_service_monitor_crd=snapshot.has_service_monitor_crd,
            runtime_handler=_common_handler(self.tally),
            pools=pools,
            pools_to_keep=pools,  # in passthrough only nodes that run our driver have a pool
        )
        components = self.components(ctl.spec, facts)
        if acts:
            plan.objects = tuple(object_writes(components, snapshot.objects, self.tally.pools))
        conflicts = [conflict for component in components for conflict in component.conflicts]
        new = status.status_of(ctl, snapshot, self.tally, components, conflicts)
        report = _report(ctl, new)
        plan.ctls = () if report is None else (report,)
        plan.look_again_s = max(0.0, min(waits)) if waits else None
        return plan

    def _plan_node(self, name: str, spec: Spec, snapshot: Snapshot, *, acts: bool) -> tuple[NodeWrite, ...]:
        node = snapshot.nodes.get(name)
        if node is None:
            self.tally.drop(name)
            return ()
        npu_node = snapshot.npu_nodes.get(name)
        verdict = judge(node, npu_node, spec)
        if verdict.state is NodeState.LEAVING and snapshot.seconds_without_sign.get(name, 0.0) >= SIGN_PATIENCE_S:
            verdict = Verdict(node=name, has_npu=False)
        self.tally.put(verdict)
        if not acts:
            return ()
        found = _found_in_this_boot(npu_node, node.boot_id)
        writes: list[NodeWrite | None] = [marks.mark(node, verdict, found, spec)]
        if not verdict.has_npu:
            writes.append(_delete(npu_node))
        elif npu_node is None:
            writes.append(CreateNPUNode(name, node.metadata.uid))
        else:
            writes.append(_report_node(node, npu_node, verdict, snapshot.now))
        return tuple(write for write in writes if write is not None)

    def _is_unsigned(self, name: str) -> bool:
        verdict = self.tally.verdicts.get(name)
        return verdict is not None and verdict.state is NodeState.LEAVING

    def _take_back(self, snapshot: Snapshot, changed: set[str]) -> Plan:
        """No object is in charge: nothing of ours stays, but for the modules, which nobody unloads before a boot."""
        if snapshot.seconds_without_ctl < UNINSTALL_GRACE_S:
            return Plan(look_again_s=UNINSTALL_GRACE_S - snapshot.seconds_without_ctl)
        plan = Plan()
        why = "no NPUOperatorCtl is in charge"
        for name, node in snapshot.nodes.items():
            self.tally.drop(name)
            writes: list[NodeWrite | None] = [marks.unmark(node, why), _delete(snapshot.npu_nodes.get(name))]
            plan.nodes[name] = tuple(write for write in writes if write is not None)
        for name in changed - snapshot.nodes.keys():
            self.tally.drop(name)
        plan.objects = tuple(_remove(key, body, why) for key, body in snapshot.objects.items())
        return plan


def object_writes(
    components: Sequence[Component], live: Mapping[ObjectKey, Mapping[str, Any]], pools: Mapping[Pool, int]
) -> Iterable[ObjectWrite]:
    """What to ensure and what to remove.

    A component in conflict keeps what it has. A driver's DaemonSet goes only when three things agree: no pod of it is
    wanted, none runs where it should not, and no node is in its pool. Any single one of them has led other operators
    into endless deletion and creation (facts/peers.md §3.4).
    """
    wanted: set[ObjectKey] = set()
    frozen = {component.name for component in components if component.conflicts}
    for component in components:
        for body in component.objects:
            key = ObjectKey.of(body)
            wanted.add(key)
            there = live.get(key)
            if key.kind == "RuntimeClass" and there is not None and there.get("handler") != body.get("handler"):
                yield _remove(key, there, f"its handler cannot be changed from {there.get('handler')}")
            else:
                yield Ensure(component.name, body)
    hashes = {pool.hash for pool in pools}
    for key, old in live.items():
        if key in wanted or old["metadata"].get("labels", {}).get(labels.COMPONENT_OF) in frozen:
            continue
        if key.kind == "DaemonSet" and key.name.startswith(names.DRIVER_PREFIX) and not _is_empty(old, hashes):
            continue
        yield _remove(key, old, "the spec wants it no more")


def _is_empty(body: Mapping[str, Any], hashes: set[str]) -> bool:
    pods = body.get("status", {})
    runs = sum(pods.get(which, 0) for which in ("desiredNumberScheduled", "numberMisscheduled"))
    return not runs and body["metadata"]["name"].removeprefix(names.DRIVER_PREFIX) not in hashes


def _remove(key: ObjectKey, body: Mapping[str, Any], why: str) -> Remove:
    metadata = body["metadata"]
    return Remove(
        component=metadata.get("labels", {}).get(labels.COMPONENT_OF, ""),
        api_version=key.api_version,
        kind=key.kind,
        namespace=key.namespace,
        name=key.name,
        uid=metadata["uid"],
        why=why,
    )


def _delete(npu_node: NPUNode | None) -> DeleteNPUNode | None:
    return None if npu_node is None else DeleteNPUNode(npu_node.metadata.name, npu_node.metadata.uid)


def _report_node(node: Node, npu_node: NPUNode, verdict: Verdict, now: str) -> ReportNode | None:
    """The plan as people see it, when it says something else than the one that is there."""
    old = npu_node.status.plan
    same_state = (old.state, old.reason) == (verdict.state, verdict.reason)
    new = NodePlan(
        state=verdict.state,
        since=old.since if same_state and old.since else now,
        target=verdict.target,
        reason=verdict.reason,
        message=verdict.message,
        next=verdict.next,
    )
    if new == old:
        return None
    return ReportNode(node.name, msgspec.to_builtins(new), tuple(notes.of_node(node, old, verdict)))


def _report(ctl: ParsedCtl, new: CtlStatus) -> ReportCtl | None:
    if new == ctl.status:
        return None
    told = tuple(notes.of_conditions(ctl, new))
    return ReportCtl(ctl.metadata.namespace, ctl.metadata.name, msgspec.to_builtins(new), told)


def _common_handler(tally: Tally) -> str:
    """The handler that most nodes know; the usual one before any has reported."""
    most = max(sorted(tally.handlers), key=lambda handler: tally.handlers[handler], default="")
    return most or "runc"


def _found_in_this_boot(npu_node: NPUNode | None, boot_id: str) -> Found | None:
    found = npu_node.status.found if npu_node is not None else None
    return found if found is not None and found.boot_id and found.boot_id == boot_id else None


def _identity(ctl: ParsedCtl | None) -> tuple[str, int] | None:
    return None if ctl is None else (ctl.metadata.uid, ctl.metadata.generation)
