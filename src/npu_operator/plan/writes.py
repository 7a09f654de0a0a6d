"""What a plan wants written. Each write says why; carrying one out twice is harmless."""

from typing import Any

import msgspec

Object = dict[str, Any]


class Note(msgspec.Struct, frozen=True):
    """An event for people: about what, why, and a sentence."""

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    message: str
    is_warning: bool = False


class PatchNode(msgspec.Struct, frozen=True):
    """Change our marks on a Node. `body` is a merge patch that holds the resourceVersion it was made from."""

    node: str
    body: Object
    why: str


class CreateNPUNode(msgspec.Struct, frozen=True):
    """Make the `NPUNode` of a node, owned by it."""

    node: str
    node_uid: str


class DeleteNPUNode(msgspec.Struct, frozen=True):
    """Remove the `NPUNode` of a node that has no NPU any more."""

    node: str
    uid: str


class ReportNode(msgspec.Struct, frozen=True):
    """Publish `NPUNode.status.plan`, for people; `notes` are told once that is done."""

    node: str
    plan: Object
    notes: tuple[Note, ...] = ()


class Ensure(msgspec.Struct, frozen=True):
    """An object of ours should be like this; written only where the live one does not contain it."""

    component: str
    body: Object


class Remove(msgspec.Struct, frozen=True):
    """An object of ours is wanted no more."""

    component: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    why: str


class ReportCtl(msgspec.Struct, frozen=True):
    """Publish the status of an `NPUOperatorCtl`, whole; `notes` are told once that is done."""

    namespace: str
    name: str
    status: Object
    notes: tuple[Note, ...] = ()


NodeWrite = PatchNode | CreateNPUNode | DeleteNPUNode | ReportNode
ObjectWrite = Ensure | Remove
