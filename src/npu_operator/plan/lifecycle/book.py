"""The fleet's part in upgrades, kept by difference: a changed node costs one entry, whatever the size."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec

from npu_operator.model import names
from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.policies import UpgradePolicy
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import approval, exits, runtime, staging
from npu_operator.plan.lifecycle.effects import No
from npu_operator.plan.lifecycle.record import Phase
from npu_operator.plan.lifecycle.slots import Standing
from npu_operator.plan.lifecycle.view import NodeView

S = UpgradeState
Order = tuple[str, ...]
Key = TypeVar("Key")


class Kind(StrEnum):
    """Where a node stands in the rollout; each node is in exactly one."""

    OUTSIDE = "outside"
    """Its driver is not our business."""
    DONE = "done"
    STAGED = "staged"
    IN_PROGRESS = "in progress"
    WAITING = "waiting"
    FAILED = "failed"
    SKIPPED = "skipped"


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """What the fleet has to know of one node."""

    standing: Standing
    order: Order
    """Place in the usual order: the values of the labels in `order`, the super pod, the name."""
    kind: Kind = Kind.OUTSIDE
    is_well: bool = True
    """Runs what is wanted, is ready, and no chip asks for a reboot."""
    is_sick: bool = False
    """A chip asks for a reboot, or the node is having one for that."""
    approved_at: str = ""
    waits_with_attempt: bool = False
    wants_runtime_restart: bool = False
    may_be_staged: bool = False
    """A swap of its driver pod makes sense now, as far as the node itself is concerned."""
    is_being_staged: bool = False
    is_approved_in_advance: bool = False
    super_pod: str = ""
    loaded: str = ""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.standing.name

    @property
    def pool(self) -> str:
        """Hash of its pool."""
        return self.standing.pool


def brief_of(view: NodeView, order_keys: Iterable[str], super_pod: str) -> Brief:
    """Reduce a view."""
    attempt, record, node = view.attempt, view.record, view.node
    used = approval.approval_of(record)
    return Brief(
        standing=Standing(
            name=node.name,
            uid=node.metadata.uid,
            pool=view.pool,
            state=view.state,
            purpose=view.purpose,
            attempt=attempt.id if attempt is not None else "",
            rolls_back=attempt.rolls_back if attempt is not None else "",
            left=record.left,
            runtime_done=view.found.runtime_restart.done_attempt if view.found is not None else "",
            is_down=view.is_down,
            is_started=view.is_started,
            is_control_plane=any(key in node.labels for key in names.TAINTS_CONTROL_PLANE),
        ),
        order=(*(node.labels.get(key, "") for key in order_keys), super_pod, node.name),
        kind=kind_of(view),
        is_well=view.runs_wanted and node.is_ready and not view.needs_recovery and view.state is None,
        is_sick=is_sick(view),
        approved_at=used.at if used is not None else "",
        waits_with_attempt=attempt is not None and attempt.phase is Phase.WAITING,
        wants_runtime_restart=runtime.is_wanted(view) and runtime.slot_of(view) is None,
        may_be_staged=view.state is S.REQUIRED and staging.may_be_tried(view),
        is_being_staged=view.state is S.REQUIRED and staging.is_under_way(view),
        is_approved_in_advance=approval.is_given_in_advance(view),
        super_pod=super_pod,
        loaded=view.loaded.version if view.loaded is not None else "",
    )


def kind_of(view: NodeView) -> Kind:
    """Where the node stands in the rollout."""
    if view.wanted is None:
        return Kind.OUTSIDE
    if view.is_started and view.purpose is Purpose.RECOVERY:
        return Kind.WAITING if view.record.target is not None else Kind.DONE
    if view.is_started or view.purpose is Purpose.ROLLBACK:
        return Kind.IN_PROGRESS
    if exits.is_left_alone(view) and not view.runs_wanted:
        ended = view.record.ended
        return Kind.SKIPPED if ended is not None and ended.reason is Reason.Aborted else Kind.FAILED
    if view.state is not S.REQUIRED:
        return Kind.WAITING if view.needs_upgrade else Kind.DONE
    if is_left_out(view):
        return Kind.SKIPPED
    return Kind.STAGED if view.is_staged else Kind.WAITING


def is_sick(view: NodeView) -> bool:
    """Whether the breaker counts the node: it asks for a reboot, or is on its way to one for that. Upgrades excuse."""
    if view.is_started:
        return view.purpose is Purpose.RECOVERY
    return view.needs_recovery


def is_left_out(view: NodeView) -> bool:
    """Whether people keep this node out of upgrades at the moment."""
    foreign = view.is_cordoned_by_others and view.policy.ignore_cordoned
    return foreign or view.is_isolated or view.node.annotations.get(names.UPGRADE_SKIP) == names.TRUE


class Book:
    """Briefs by node, and the sums over them. `put` and `drop` are the only ways to change it."""

    def __init__(self) -> None:
        self._briefs: dict[str, Brief] = {}
        self._by_uid: dict[str, Brief] = {}
        self.kinds: Counter[Kind] = Counter()
        self.down: set[str] = set()
        """Managed nodes that take no work, for whatever cause."""
        self.sizes: Counter[str] = Counter()
        """Managed nodes by pool."""
        self.sick: set[str] = set()
        self.waiting: set[str] = set()
        """Nodes with an attempt that waits."""
        self.runtime: set[str] = set()
        """Nodes that ask for a restart of their container runtime and have no slot for it."""
        self.stageable: set[str] = set()
        self.being_staged: set[str] = set()
        self.started: set[str] = set()
        self._super_pods: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._canaries: dict[tuple[str, int], tuple[str, ...]] = {}

    def __getitem__(self, name: str) -> Brief:
        return self._briefs[name]

    def __contains__(self, name: str) -> bool:
        return name in self._briefs

    def by_uid(self, uid: str) -> Brief | None:
        """The node with this UID; None when it is gone."""
        return self._by_uid.get(uid)

    @property
    def managed(self) -> int:
        """Nodes whose driver is our business."""
        return len(self._briefs) - self.kinds[Kind.OUTSIDE]

    def put(self, brief: Brief) -> None:
        """Replace what was known of this node."""
        old = self._briefs.get(brief.name)
        if old == brief:
            return
        if old is not None:
            self._by_uid.pop(old.standing.uid, None)
            self._count(old, -1)
        if old is None or _place(old) != _place(brief):
            self._canaries.clear()
        self._briefs[brief.name] = brief
        self._by_uid[brief.standing.uid] = brief
        self._count(brief, +1)

    def drop(self, name: str) -> None:
        """Forget a node; one that is not known is no error."""
        old = self._briefs.pop(name, None)
        if old is not None:
            self._by_uid.pop(old.standing.uid, None)
            self._count(old, -1)
            self._canaries.clear()

    def in_order(self, chosen: Iterable[str]) -> list[Brief]:
        """These nodes in the usual order."""
        return sorted((self._briefs[name] for name in chosen), key=lambda brief: brief.order)

    def canaries(self, pool: str, count: int) -> tuple[str, ...]:
        """The first nodes of a pool that nobody has left out; always the same as long as nobody leaves out others."""
        key = (pool, count)
        if key not in self._canaries:
            members = (
                brief
                for brief in self._briefs.values()
                if brief.pool == pool and brief.kind not in (Kind.OUTSIDE, Kind.SKIPPED)
            )
            self._canaries[key] = tuple(brief.name for brief in sorted(members, key=lambda one: one.order)[:count])
        return self._canaries[key]

    def canary_objection(self, pool: str, policy: UpgradePolicy) -> No | None:
        """What the other nodes of a pool wait for; None when its canaries have worked for long enough."""
        for name in self.canaries(pool, policy.canary.nodes):
            brief = self._briefs[name]
            if not brief.is_well:
                how = "is being soaked" if brief.standing.state is S.DONE else f"is not through yet ({brief.kind})"
                return No(Reason.WaitsForCanary, f"canary {name} {how}")
        return None

    def mixed_super_pods(self) -> Mapping[str, tuple[str, ...]]:
        """Super pods whose nodes run different drivers at the moment, with the versions."""
        return {
            name: tuple(sorted(versions)) for name, versions in sorted(self._super_pods.items()) if len(versions) > 1
        }

    def _count(self, brief: Brief, by: int) -> None:
        name, is_there = brief.name, by > 0
        is_managed = brief.kind is not Kind.OUTSIDE
        _add(self.kinds, brief.kind, by)
        _include(self.down, name, is_there and is_managed and brief.standing.is_down)
        _include(self.sick, name, is_there and is_managed and brief.is_sick)
        _include(self.waiting, name, is_there and brief.waits_with_attempt)
        _include(self.runtime, name, is_there and brief.wants_runtime_restart)
        _include(self.stageable, name, is_there and brief.may_be_staged)
        _include(self.being_staged, name, is_there and brief.is_being_staged)
        _include(self.started, name, is_there and brief.standing.is_started)
        if is_managed:
            _add(self.sizes, brief.pool, by)
        if brief.super_pod and brief.loaded:
            versions = self._super_pods[brief.super_pod]
            _add(versions, brief.loaded, by)
            if not versions:
                del self._super_pods[brief.super_pod]


def _place(brief: Brief) -> tuple[str, Order, bool]:
    return brief.pool, brief.order, brief.kind in (Kind.OUTSIDE, Kind.SKIPPED)


def _add(counter: Counter[Key], key: Key, by: int) -> None:
    counter[key] += by
    if counter[key] == 0:
        del counter[key]


def _include(members: set[str], name: str, belongs: bool) -> None:
    if belongs:
        members.add(name)
    else:
        members.discard(name)
