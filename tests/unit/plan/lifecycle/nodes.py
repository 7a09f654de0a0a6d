"""Builders for tests of the life cycle: a test names only what it is about."""

from typing import Any

import msgspec

from npu_operator.components.driver import WantedDriver
from npu_operator.model import lenient, names
from npu_operator.model.metadata import Metadata
from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.node import Node
from npu_operator.model.npunode import (
    DriverFound,
    Found,
    ManagedBy,
    RebootReport,
    RecoveryRequest,
    StagedVersion,
    StageState,
    Validation,
)
from npu_operator.model.policies import RecoveryPolicy, UpgradePolicy
from npu_operator.plan.lifecycle import record as records
from npu_operator.plan.lifecycle.effects import Step
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.record import Approval, Attempt, Ended, Record, Target
from npu_operator.plan.lifecycle.slots import Holder
from npu_operator.plan.lifecycle.step import step
from npu_operator.plan.lifecycle.view import DriverPod, NodeView, PodView

S = UpgradeState
NOW = "2026-11-30T12:00:00Z"
EARLIER = "2026-11-30T11:00:00Z"
OLD, NEW, OTHER = "25.3.RC1", "25.5.0", "25.7.0"
BOOT, NEXT_BOOT = "boot-1", "boot-2"
KERNEL = "6.6.0-145.0.4.135.oe2403sp3.aarch64"
FLEET = Fleet()
STARTED = (S.CORDON, S.JOBS, S.POD_DELETION, S.DRAIN, S.REBOOT, S.RESTART, S.VALIDATION, S.UNCORDON)
AFTER_BOOT = (S.RESTART, S.VALIDATION, S.UNCORDON)


def a_target(version: str = NEW, **changes: Any) -> Target:
    return Target(**{"version": version, "options": ""} | changes)


def found(loaded: str = OLD, **changes: Any) -> Found:
    """What the agent says of a node with `loaded`, validated, and the new driver on its disk."""
    boot = changes.pop("boot_id", BOOT)
    driver = DriverFound(
        version=loaded, loaded=bool(loaded), managed_by=ManagedBy.OPERATOR, good_version=changes.pop("good", OLD)
    )
    fields: dict[str, Any] = {
        "boot_id": boot,
        "driver": driver,
        "in_service": True,
        "staged": (StagedVersion(version=NEW, kernel=KERNEL),),
        "validation": Validation(passed=True, boot_id=boot, version=loaded),
    }
    return Found(**(fields | changes))


def an_attempt(purpose: Purpose = Purpose.UPGRADE, **changes: Any) -> Attempt:
    fields: dict[str, Any] = {"id": "try-1", "purpose": purpose, "made_at": EARLIER}
    if purpose is Purpose.UPGRADE:
        fields |= {"target": a_target(), "good": Target(version=OLD)}
    if purpose is Purpose.ROLLBACK:
        fields |= {"target": Target(version=OLD), "rolls_back": "try-0"}
    return Attempt(**(fields | changes))


def a_record(state: UpgradeState | None = None, purpose: Purpose | None = Purpose.UPGRADE, **changes: Any) -> Record:
    """The record of a node in this state, as earlier steps would have left it."""
    attempt = changes.pop("attempt", an_attempt(purpose) if purpose is not None else None)
    boots = {S.REBOOT: BOOT, S.RESTART: BOOT, S.VALIDATION: BOOT, S.UNCORDON: BOOT, S.DONE: BOOT}
    if attempt is not None and not attempt.boot_before and state in boots:
        attempt = msgspec.structs.replace(attempt, boot_before=boots[state])
    fields: dict[str, Any] = {"attempt": attempt}
    if purpose is Purpose.UPGRADE and state is not None:
        fields |= {"target": a_target(), "approval": Approval(given="true", at=EARLIER)}
    if purpose is Purpose.ROLLBACK:
        fields |= {"target": a_target(), "ended": a_failure()}
    return Record(**(fields | changes)).entered(state, EARLIER)


def a_failure(**changes: Any) -> Ended:
    fields: dict[str, Any] = {
        "attempt": "try-0",
        "purpose": Purpose.UPGRADE,
        "reason": "ValidationFailed",
        "message": "no chip could be opened",
        "at": EARLIER,
        "target": a_target(),
        "boot": BOOT,
    }
    fields |= changes
    return msgspec.convert(msgspec.to_builtins(fields), Ended)


def a_node(record: Record = records.EMPTY, **changes: Any) -> Node:
    """A ready node whose marks follow from its record; in a walk it is cordoned by us."""
    labels, annotations = records.keys_of(record)
    ours = changes.pop("cordon_is_ours", record.state in STARTED)
    all_labels = {**labels, **changes.pop("labels", {})}
    all_annotations = {names.CORDON_MARK: "true" if ours else None, **annotations, **changes.pop("annotations", {})}
    fields: dict[str, Any] = {
        "metadata": Metadata(
            name=changes.pop("name", "a7"),
            uid="uid-a7",
            resource_version=changes.pop("version", "7"),
            labels={key: value for key, value in all_labels.items() if value is not None},
            annotations={key: value for key, value in all_annotations.items() if value is not None},
        ),
        "unschedulable": ours,
        "ready": "True",
        "boot_id": NEXT_BOOT if record.state in AFTER_BOOT else BOOT,
        "kernel": KERNEL,
    }
    return Node(**(fields | changes))


def a_view(state: UpgradeState | None = None, purpose: Purpose | None = Purpose.UPGRADE, **changes: Any) -> NodeView:
    """A node in this state of a walk for this purpose, observed right after it entered the state.

    Without anything else said it holds its slot, has no pods, and after its reboot runs what it should.
    """
    purpose = None if state is None and purpose is Purpose.UPGRADE else purpose
    record = changes.pop("record", a_record(state, purpose))
    node_changes = {
        key: changes.pop(key)
        for key in ("unschedulable", "cordon_is_ours", "labels", "annotations", "boot_id", "ready", "name", "version")
        if key in changes
    }
    node = changes.pop("node", a_node(record, **node_changes))
    attempt = record.attempt
    boot = node.boot_id
    loaded = OLD if purpose is not Purpose.UPGRADE or state not in AFTER_BOOT else NEW
    executed = RebootReport(attempt=attempt.id, boot_id=BOOT) if attempt and state in AFTER_BOOT else RebootReport()
    fields: dict[str, Any] = {
        "node": node,
        "reading": records.read(node),
        "found": found(loaded, boot_id=boot, reboot=executed),
        "now": NOW,
        "up_since": "2026-11-30T00:00:00Z",
        "wanted": a_target(),
        "pods": (),
        "driver_pod": a_driver_pod(),
        "held": (a_holder(attempt),) if attempt is not None else (),
        "offered": 8,
        "allocatable": 8,
        "pool": "pool-1",
    }
    return NodeView(**(fields | changes))


def a_holder(of: Attempt | None = None, **changes: Any) -> Holder:
    fields: dict[str, Any] = {
        "node": "a7",
        "uid": "uid-a7",
        "attempt": "try-1",
        "purpose": Purpose.UPGRADE,
        "since": EARLIER,
    }
    if of is not None:
        fields |= {"attempt": of.rolls_back or of.id, "purpose": of.purpose}
    return Holder(**(fields | changes))


def a_driver_pod(version: str = NEW, **changes: Any) -> DriverPod:
    fields: dict[str, Any] = {
        "namespace": "npu-operator",
        "name": "npu-driver-x",
        "uid": "uid-x",
        "wanted": WantedDriver(version),
        "created": EARLIER,
    }
    return DriverPod(**(fields | changes))


def a_pod(name: str = "train-0", **changes: Any) -> PodView:
    fields: dict[str, Any] = {"namespace": "ml", "name": name, "uid": f"uid-{name}"}
    return PodView(**(fields | changes))


def an_npu_pod(name: str = "train-0", **changes: Any) -> PodView:
    return a_pod(name, holds_npu=True, **changes)


def policy(**written: Any) -> UpgradePolicy:
    """As written in a spec."""
    read, problems = lenient.read(UpgradePolicy, written, "upgradePolicy")
    assert not problems
    return read


def recovery_policy(**written: Any) -> RecoveryPolicy:
    """As written in a spec."""
    read, problems = lenient.read(RecoveryPolicy, written, "recoveryPolicy")
    assert not problems
    return read


SICK = RecoveryRequest(needed=True, reason="ToolWedged", message="npu-smi hangs", since=EARLIER)
STAGE_FAILED = StagedVersion(version=NEW, kernel=KERNEL, state=StageState.FAILED, reason="NoSpace", message="disk full")


def after(view: NodeView, found_step: Step) -> NodeView:
    """The view once the step's patch was accepted."""
    if found_step.patch is None:
        return view
    node = patched(view.node, found_step.patch.body)
    return msgspec.structs.replace(view, node=node, reading=records.read(node), seconds_in_state=0.0)


def patched(node: Node, body: dict[str, Any]) -> Node:
    """A Node after a merge patch of its metadata and its cordon."""

    def merged(old: Any, new: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in {**old, **new}.items() if value is not None}

    metadata = body["metadata"]
    assert metadata["resourceVersion"] == node.metadata.resource_version, "the patch is not guarded"
    cordon = body.get("spec", {}).get("unschedulable", node.unschedulable)
    return msgspec.structs.replace(
        node,
        metadata=msgspec.structs.replace(
            node.metadata,
            labels=merged(node.labels, metadata.get("labels", {})),
            annotations=merged(node.annotations, metadata.get("annotations", {})),
            resource_version=str(int(node.metadata.resource_version) + 1),
        ),
        unschedulable=bool(cordon),
    )


def record_after(view: NodeView, fleet: Fleet = FLEET) -> Record:
    """What the Node's record says after one step."""
    return after(view, step(view, fleet)).record
