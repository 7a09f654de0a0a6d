"""Slots: who may be down. One `Lease` lists the holders; every start is one guarded update of it before the cordon.

Two operators that both believe to lead write the same object, and the API server lets one of them win, so the limits
hold even then. What a holder means is decided by its Node alone. Source: product.md §4.6; facts/peers.md §4.1, §4.4.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from npu_operator.model import names
from npu_operator.model.ctl import share
from npu_operator.model.fields import Stamp
from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.policies import UpgradePolicy
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle.effects import No
from npu_operator.plan.lifecycle.record import Phase
from npu_operator.plan.writes import Object

HOLDERS: Final = f"{names.GROUP}/slot-holders"
"""Annotation of the Lease: the holders as JSON."""
LEASE_S: Final = 15.0
"""How long a holder that its Node does not bear out is left alone: the leader's lease, after which no other operator
can still be acting on what it saw before."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """One slot."""

    node: str
    """Name, for people."""
    uid: str
    """UID of the Node: one that was created anew under the same name is another."""
    attempt: str
    purpose: Purpose
    since: Stamp


class Slots(msgspec.Struct, frozen=True, kw_only=True):
    """The object as observed."""

    holders: tuple[Holder, ...] = ()
    resource_version: str = ""
    """Empty: there is no such object yet."""
    problem: str = ""
    """Why the holders could not be read; nodes that are on their way get their slots back from their records."""


class WriteSlots(msgspec.Struct, frozen=True):
    """Write the Lease as a whole: an update guarded by the resourceVersion in it, or without one a creation."""

    body: Object
    why: str


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What slots have to know of a node; a part of its `Brief`."""

    name: str
    uid: str
    pool: str = ""
    state: UpgradeState | None = None
    purpose: Purpose | None = None
    phase: Phase | None = None
    attempt: str = ""
    rolls_back: str = ""
    left: str = ""
    runtime_done: str = ""
    """Attempt for which the agent restarted the runtime last."""
    is_down: bool = False
    is_started: bool = False
    is_control_plane: bool = False

    def is_meant_by(self, holder: Holder) -> bool:
        """A rollback keeps the slot of the attempt that failed."""
        return holder.uid == self.uid and holder.attempt != "" and holder.attempt in (self.attempt, self.rolls_back)


_DECODER = msgspec.json.Decoder(tuple[Holder, ...])
_ENCODER = msgspec.json.Encoder(order="deterministic")


def read(body: Mapping[str, Any] | None) -> Slots:
    """The slots from the Lease in JSON form; None: there is none."""
    if body is None:
        return Slots()
    metadata = body.get("metadata") or {}
    version = str(metadata.get("resourceVersion", ""))
    text = (metadata.get("annotations") or {}).get(HOLDERS, "[]")
    try:
        return Slots(holders=_DECODER.decode(text), resource_version=version)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return Slots(resource_version=version, problem=f"the annotation {HOLDERS} cannot be read: {error}")


def write(slots: Slots, holders: Iterable[Holder], *, namespace: str, why: str) -> WriteSlots:
    """The update that makes these the holders."""
    listed = tuple(sorted(holders, key=lambda holder: (holder.since, holder.node, holder.attempt)))
    metadata: dict[str, Any] = {
        "name": names.LEASE_SLOTS,
        "namespace": namespace,
        "labels": {names.LABEL_MANAGED_BY: names.OPERATOR_NAME},
        "annotations": {HOLDERS: _ENCODER.encode(listed).decode()},
    }
    if slots.resource_version:
        metadata["resourceVersion"] = slots.resource_version
    spec = {"holderIdentity": ",".join(holder.node for holder in listed)[:1024]} if listed else {}
    return WriteSlots(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}, why
    )


def is_free(holder: Holder, standing: Standing | None, *, unborne_s: float) -> bool:
    """Whether a holder's slot may be given to somebody else.

    `standing` is None when no Node has the holder's UID. `unborne_s`: for how long this process has seen that the Node
    does not bear the holder out. At once only where the Node itself shows that it will never go on with the attempt.
    """
    if standing is None or holder.attempt == standing.left:
        return True
    if not standing.is_meant_by(holder):
        finished_restart = holder.purpose is Purpose.RUNTIME and holder.attempt == standing.runtime_done
        return finished_restart or unborne_s >= LEASE_S
    return standing.state is UpgradeState.DONE


def is_borne_out(holder: Holder, standing: Standing | None) -> bool:
    """Whether the Node shows the holder's attempt."""
    return standing is not None and standing.is_meant_by(holder)


def is_lost(standing: Standing, holders: Iterable[Holder]) -> bool:
    """Whether a node is down for an attempt whose slot somebody deleted; it has to be counted again."""
    return standing.is_started and standing.attempt != "" and not any(map(standing.is_meant_by, holders))


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How many more nodes may go down, and which.

    A node that is down already does not count against itself: taking it up makes nothing worse.
    """

    policy: UpgradePolicy
    nodes: int
    """Managed nodes; `maxUnavailable` is a share of them."""
    holders: tuple[Holder, ...] = ()
    down: frozenset[str] = frozenset()
    """Names of managed nodes that take no work for any cause, those with a slot for a reboot included."""
    serving_by_pool: Mapping[str, int] = {}
    size_by_pool: Mapping[str, int] = {}
    control_plane: int = 0
    """Nodes of the control plane, with or without chips."""
    control_plane_ready: frozenset[str] = frozenset()
    """Those of them that are ready, by name."""
    taken: tuple[Standing, ...] = ()
    """Nodes that got a slot in this very decision."""

    def with_taken(self, standing: Standing) -> "Budget":
        """The budget after this node got a slot."""
        return msgspec.structs.replace(self, taken=(*self.taken, standing))

    def objection(self, standing: Standing, purpose: Purpose) -> No | None:
        """Why this node may not go down now; None when it may. Nodes that hold a slot are not asked again."""
        rules = _RULES_OF[purpose]
        return next((no for rule in rules if (no := rule(self, standing)) is not None), None)


def quorum_stays(budget: Budget, node: Standing) -> No | None:
    """The control plane keeps its quorum, and its last ready node is never taken; a single one has none to lose."""
    if not node.is_control_plane or budget.control_plane <= 1:
        return None
    gone = {other.name for other in budget.taken} | budget.down | {node.name}
    left = len(budget.control_plane_ready - gone)
    needed = max(1, min(budget.control_plane // 2 + 1, budget.control_plane - 1))
    if left >= needed:
        return None
    return No(
        Reason.MaxUnavailable,
        f"it belongs to the control plane, of which {needed} of {budget.control_plane} nodes have to stay ready",
    )


def pool_keeps_a_node(budget: Budget, node: Standing) -> No | None:
    """The last serving node of a pool is not taken, unless it is the only one there is."""
    if budget.size_by_pool.get(node.pool, 0) <= 1 or node.name in budget.down:
        return None
    taken = sum(other.pool == node.pool and other.name not in budget.down for other in budget.taken)
    if budget.serving_by_pool.get(node.pool, 0) - taken > 1:
        return None
    return No(Reason.MaxUnavailable, "it is the last node of its pool that serves")


def not_too_many_are_down(budget: Budget, node: Standing) -> No | None:
    """`maxUnavailable`, counted over nodes that are down for any cause."""
    down = (budget.down | {other.name for other in budget.taken}) - {node.name}
    limit = budget.policy.max_unavailable
    if len(down) < share(limit, of=budget.nodes):
        return None
    return No(Reason.MaxUnavailable, f"as many nodes are down, for any cause, as maxUnavailable {limit} allows")


def a_slot_is_free(budget: Budget, node: Standing) -> No | None:
    """`maxParallelUpgrades`; 0 is no limit."""
    most = budget.policy.max_parallel_upgrades
    if most == 0 or len(budget.holders) + len(budget.taken) < most:
        return None
    return No(Reason.WaitsForSlot, f"all slots are taken (maxParallelUpgrades {most})")


def no_other_runtime_restarts(budget: Budget, node: Standing) -> No | None:
    """Container runtimes are restarted one at a time."""
    others = [holder for holder in budget.holders if holder.purpose is Purpose.RUNTIME and holder.uid != node.uid]
    taken = [other for other in budget.taken if other.purpose is Purpose.RUNTIME]
    return (
        No(Reason.WaitsForSlot, "the container runtime of another node is being restarted") if others or taken else None
    )


_RULES_OF = {
    Purpose.UPGRADE: (quorum_stays, pool_keeps_a_node, not_too_many_are_down, a_slot_is_free),
    Purpose.RECOVERY: (quorum_stays, not_too_many_are_down, a_slot_is_free),  # a sick node's pool gains by it
    Purpose.ROLLBACK: (),  # keeps the slot of the attempt that failed
    Purpose.RUNTIME: (no_other_runtime_restarts, a_slot_is_free),  # pods run on, nothing goes down
}
