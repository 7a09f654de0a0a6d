"""What we write on a Node because of its verdict: labels for our selectors, feature labels, and the optional taint.

All of it goes in one merge patch. It carries the node's uid; where it also says what we did to the node, or replaces
its taints, it carries the resourceVersion it was made from. Labels alone follow from what was found and are planned
again with each change, so a kubelet's heartbeat in between is no reason to refuse them. Only exact keys of ours are
touched; a taint only when our mark says that we put it there, since many clusters carry the same taint by hand.
"""

from typing import Any

from npu_operator.model import names
from npu_operator.model.ctl import Spec, TaintMode
from npu_operator.model.node import Node, Taint
from npu_operator.model.npunode import Found
from npu_operator.plan.verdict import Verdict
from npu_operator.plan.writes import PatchNode

TAINT_MARK = f"{names.GROUP}/tainted"
"""Annotation: the key of the taint that we put on the node."""
LABELS = (
    names.NPU_PRESENT,
    names.POOL,
    names.CHIP,
    names.CHIP_COUNT,
    names.CHIP_MEMORY,
    names.DRIVER_VERSION,
    names.UPGRADE_STATE,
    names.REBOOT_REQUIRED,
)
"""Every label that the operator may have put on a node."""
ANNOTATIONS = (
    names.ATTEMPT,
    names.CORDON_MARK,
    names.REBOOT_IN_PROGRESS,
    names.PRE_REBOOT_BOOT_ID,
    TAINT_MARK,
)
"""Every annotation that the operator may have put on a node. Those that people set are theirs."""


def mark(node: Node, verdict: Verdict, found: Found | None, spec: Spec) -> PatchNode | None:
    """The patch that brings the node's marks in line with its verdict; None when they are."""
    if not verdict.has_npu:
        return unmark(node, "the node has no NPU")
    labels: dict[str, str | None] = {names.NPU_PRESENT: names.TRUE}
    if verdict.pool is not None:
        labels[names.POOL] = verdict.pool.hash
    elif found is not None:
        labels[names.POOL] = None  # the agent has looked: the driver is the host's business
    if found is not None and found.chips:
        labels |= _features(verdict, found)
    return _patch(node, labels, {}, _taint(node, verdict, spec), _why(node, verdict))


def unmark(node: Node, why: str) -> PatchNode | None:
    """The patch that takes back everything of ours, our own cordon included; None when nothing of ours is there."""
    annotations: dict[str, str | None] = dict.fromkeys(ANNOTATIONS)
    spec: dict[str, Any] = {}
    if TAINT_MARK in node.annotations:
        spec["taints"] = _without_taint(node, node.annotations[TAINT_MARK])
    if names.CORDON_MARK in node.annotations and names.KEEP_CORDONED not in node.annotations:
        spec["unschedulable"] = None
    return _patch(node, dict.fromkeys(LABELS), annotations, (spec, {}), why)


def _features(verdict: Verdict, found: Found) -> dict[str, str | None]:
    memory_mib = min((chip.memory_mib for chip in found.chips if chip.memory_mib), default=0)
    return {
        names.CHIP: verdict.chip,
        names.CHIP_COUNT: str(len(found.chips)),
        names.CHIP_MEMORY: f"{round(memory_mib / 1024)}Gi" if memory_mib else None,
        names.DRIVER_VERSION: found.driver.version if found.driver.loaded and found.driver.version else None,
    }


def _taint(node: Node, verdict: Verdict, spec: Spec) -> tuple[dict[str, Any], dict[str, str | None]]:
    """What to change in the Node's spec, and in its annotations, so that the taint is as the spec wants it."""
    taint = spec.placement.taint
    ours = node.annotations.get(TAINT_MARK)
    is_new = names.NPU_PRESENT not in node.labels
    wanted = taint.mode is TaintMode.KEEP or (
        taint.mode is TaintMode.UNTIL_READY and not verdict.is_ready and (is_new or ours == taint.key)
    )
    if ours is not None and (not wanted or ours != taint.key):
        return {"taints": _without_taint(node, ours)}, {TAINT_MARK: None}
    if wanted and not any(there.key == taint.key for there in node.taints):
        taints = [*_plain(node.taints), {"key": taint.key, "effect": "NoSchedule"}]
        return {"taints": taints}, {TAINT_MARK: taint.key}
    return {}, {}


def _patch(
    node: Node,
    labels: dict[str, str | None],
    annotations: dict[str, str | None],
    taint: tuple[dict[str, Any], dict[str, str | None]],
    why: str,
) -> PatchNode | None:
    spec, taint_annotations = taint
    label_changes = {key: value for key, value in labels.items() if node.labels.get(key) != value}
    annotation_changes = {
        key: value for key, value in {**annotations, **taint_annotations}.items() if node.annotations.get(key) != value
    }
    if not (label_changes or annotation_changes or spec):
        return None
    metadata: dict[str, Any] = {"uid": node.metadata.uid}
    if spec or annotation_changes:
        metadata = {"resourceVersion": node.metadata.resource_version}
    if label_changes:
        metadata["labels"] = label_changes
    if annotation_changes:
        metadata["annotations"] = annotation_changes
    body: dict[str, Any] = {"metadata": metadata}
    if spec:
        body["spec"] = spec
    return PatchNode(node.name, body, why)


def _without_taint(node: Node, key: str) -> list[dict[str, str]] | None:
    return _plain(tuple(taint for taint in node.taints if taint.key != key)) or None


def _plain(taints: tuple[Taint, ...]) -> list[dict[str, str]]:
    return [
        {"key": taint.key, "effect": taint.effect}
        | ({"value": taint.value} if taint.value else {})
        | ({"timeAdded": taint.time_added} if taint.time_added else {})
        for taint in taints
    ]


def _why(node: Node, verdict: Verdict) -> str:
    if names.NPU_PRESENT not in node.labels:
        return f"an NPU was found: {verdict.sign}"
    return "the node's chip, pool or readiness changed"
