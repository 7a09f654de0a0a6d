"""What a decision wants done, as values; carrying one out twice is harmless."""

from typing import Any

import msgspec

from npu_operator.model import names
from npu_operator.model.fields import Stamp
from npu_operator.model.names import UpgradeState
from npu_operator.model.node import Node
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle.record import Record
from npu_operator.plan.writes import Note, PatchNode


class No(msgspec.Struct, frozen=True):
    """An objection, for the status, the event and `kubectl npu why`, unchanged.

    The message holds nothing that moves by itself, or the status would be written all the time.
    """

    reason: Reason
    message: str
    until: Stamp = ""
    """When it passes by itself, if that is known."""
    in_s: float | None = None
    """Seconds until then."""


class NodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one Node: all of it or nothing. None as a value takes a label or an annotation away."""

    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {}
    unschedulable: bool | None = None
    """True: cordon, False: uncordon, None: leave."""

    def then(self, later: "NodeChange") -> "NodeChange":
        """Both in one; the later wins."""
        return NodeChange(
            labels={**self.labels, **later.labels},
            annotations={**self.annotations, **later.annotations},
            unschedulable=self.unschedulable if later.unschedulable is None else later.unschedulable,
        )

    def patch(self, node: Node, why: str) -> PatchNode | None:
        """The merge patch with the resourceVersion it was made from; None when the Node is like this already."""
        labels = {key: value for key, value in self.labels.items() if node.labels.get(key) != value}
        annotations = {key: value for key, value in self.annotations.items() if node.annotations.get(key) != value}
        cordon = self.unschedulable if self.unschedulable != node.unschedulable else None
        if not labels and not annotations and cordon is None:
            return None
        metadata: dict[str, Any] = {"resourceVersion": node.metadata.resource_version}
        if labels:
            metadata["labels"] = labels
        if annotations:
            metadata["annotations"] = annotations
        body: dict[str, Any] = {"metadata": metadata}
        if cordon is not None:
            body["spec"] = {"unschedulable": True if cordon else None}
        return PatchNode(node.name, body, why)


CORDON = NodeChange(annotations={names.CORDON_MARK: names.TRUE}, unschedulable=True)
UNCORDON = NodeChange(annotations={names.CORDON_MARK: None}, unschedulable=False)
UNMARK = NodeChange(annotations={names.CORDON_MARK: None})
"""The cordon, if there is one, is somebody else's from now on."""


def joined(first: PatchNode | None, second: PatchNode | None) -> PatchNode | None:
    """Two patches of one version of one Node as one, or the second would fail on the first's new version."""
    if first is None or second is None:
        return first or second
    assert first.node == second.node, "patches of two nodes cannot be joined"
    body = {**first.body, **second.body, "metadata": {**first.body["metadata"], **second.body["metadata"]}}
    for kind in ("labels", "annotations"):
        both = first.body["metadata"].get(kind, {}) | second.body["metadata"].get(kind, {})
        if both:
            body["metadata"][kind] = both
    if "spec" in first.body and "spec" in second.body:
        body["spec"] = first.body["spec"] | second.body["spec"]
    return PatchNode(first.node, body, f"{first.why}; {second.why}")


class Evict(msgspec.Struct, frozen=True):
    """Ask for the eviction of exactly this pod. A refusal comes back as `PodView.blocked_by`."""

    namespace: str
    name: str
    uid: str
    grace_s: int | None
    """None: the pod's own."""
    why: str


class DeletePod(msgspec.Struct, frozen=True):
    """Delete exactly this pod past its budgets, with this grace period. Only where somebody allowed force."""

    namespace: str
    name: str
    uid: str
    grace_s: int
    why: str


class AnnotatePod(msgspec.Struct, frozen=True):
    """Set annotations on exactly this pod."""

    namespace: str
    name: str
    uid: str
    annotations: dict[str, str]
    why: str


class SwapDriverPod(msgspec.Struct, frozen=True):
    """Delete the node's driver pod, so that its DaemonSet makes one of the newest template."""

    node: str
    namespace: str
    name: str
    uid: str
    why: str


PodWrite = Evict | DeletePod | AnnotatePod | SwapDriverPod


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What a cell of the table does."""

    record: Record | None = None
    """The record afterwards; None: as it was."""
    change: NodeChange = NodeChange()
    pods: tuple[PodWrite, ...] = ()
    notes: tuple[Note, ...] = ()
    look_again_s: float | None = None


NOTHING = Act()


def told(node: Node, reason: Reason | str, message: str, *, is_warning: bool = False) -> Note:
    """An event about a node."""
    return Note("Node", "", node.name, node.metadata.uid, str(reason), message, is_warning=is_warning)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The next step of one node: where it is afterwards, why, and what to write.

    Notes are told when the patch was accepted; without a patch, at once.
    """

    to: UpgradeState | None
    reason: Reason
    message: str
    """A sentence for people; goes after "node a7: "."""
    waits_for: str = ""
    until: Stamp = ""
    """When the wait ends by itself, or is given up."""
    patch: PatchNode | None = None
    pods: tuple[PodWrite, ...] = ()
    notes: tuple[Note, ...] = ()
    look_again_s: float | None = None
    needs_pods: bool = False
    """Somebody has to watch the pods of this node from now on."""
    objection: No | None = None
    """What keeps a node that wants to start from starting; the slot alone is no objection here."""
