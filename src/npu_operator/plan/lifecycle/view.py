"""Everything that a decision about one node may look at, frozen.

Elapsed times are observed facts. What was found counts only for the Node's present boot, so the maker of a view leaves
it out when the boot ids differ.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from npu_operator.components import environment
from npu_operator.components.driver import WantedDriver
from npu_operator.components.pools import HASH_DIGITS
from npu_operator.model import names
from npu_operator.model.fields import Stamp
from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.node import Node
from npu_operator.model.npunode import Found, ManagedBy, StagedVersion, StageState
from npu_operator.model.policies import RecoveryPolicy, UpgradePolicy
from npu_operator.plan.lifecycle import stamps
from npu_operator.plan.lifecycle.effects import Act, No
from npu_operator.plan.lifecycle.record import Attempt, Phase, Reading, Record, Target, keys_of
from npu_operator.plan.lifecycle.slots import Holder


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    """One pod on the node, as emptying sees it."""

    namespace: str
    name: str
    uid: str
    holds_npu: bool = False
    """Asks for a chip in one of the resources under which chips are offered (not the validation resource)."""
    is_mirror: bool = False
    is_daemon: bool = False
    is_finished: bool = False
    is_terminating: bool = False
    is_bare: bool = False
    """Without a controller: nobody puts it back elsewhere."""
    has_empty_dir: bool = False
    is_operator: bool = False
    """A pod of this operator's own Deployment: it goes down and comes up with the node, else nobody could uncordon a
    cluster of one node."""
    is_awaited: bool = False
    """Matches a selector of `waitForCompletion` that is not empty."""
    is_selected: bool = True
    """Matches `drainSpec.podSelector`, or that is empty."""
    checkpoint_s: int | None = None
    """Seconds the pod wants for a checkpoint; None: it does not ask."""
    drain_requested: Stamp = ""
    is_checkpoint_done: bool = False
    gone_by: Stamp = ""
    """While it terminates: when its own grace period is over."""
    blocked_by: str = ""
    """What the last eviction was refused with, with the budget's name."""

    @property
    def title(self) -> str:
        """As people know it."""
        return f"{self.namespace}/{self.name}"


class DriverPod(msgspec.Struct, frozen=True, kw_only=True):
    """The node's pod of its pool's driver DaemonSet."""

    namespace: str
    name: str
    uid: str
    wanted: WantedDriver
    """What it was made to bring (`components.driver.wanted_of` of its annotations)."""
    created: Stamp = ""
    is_terminating: bool = False
    is_loader_broken: bool = False
    """Its loader is in a crash loop, cannot be pulled or sits in a pod that has failed."""
    trouble: str = ""
    """Why one of its containers waits or failed, in the kubelet's words."""


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One node at one moment."""

    node: Node
    found: Found | None
    """None when no agent has reported in this boot."""
    reading: Reading
    """The attempt record, as read from the Node."""
    now: Stamp
    """Server time, for stamps that are kept and for spans between them."""
    seconds_in_state: float = 0.0
    up_since: Stamp = ""
    """When this boot of the node was first seen; never before it began."""
    wanted: Target | None
    """The driver that should be loaded; None where that is not our business."""
    policy: UpgradePolicy = UpgradePolicy()
    recovery: RecoveryPolicy = RecoveryPolicy()
    pods: tuple[PodView, ...] | None = None
    """Pods bound to the node; None when nobody has asked for them yet (see `needs_pods`)."""
    driver_pod: DriverPod | None = None
    seconds_without_pod: float = 0.0
    """How long the node has had no driver pod; 0 while it has one."""
    held: tuple[Holder, ...] = ()
    """Slots that the slots object, as observed, gives to this node."""
    image: No | None = None
    """What preflight has against the node's pool; None: nothing."""
    firmware: No | None = None
    """What is wrong with the running firmware under policy Require; None: nothing."""
    offered: int = 0
    """Chips that should be allocatable."""
    allocatable: int = 0
    pool: str = ""
    """Hash of the pool; empty: not known yet."""
    soak_s: int = 0
    """Seconds this node has to work after its upgrade before it is forgotten; 0 unless it is a canary."""
    hosts_registry: bool = False
    """The registry of the driver images runs on this node."""

    @property
    def record(self) -> Record:
        """What we remember; empty when it could not be read."""
        return self.reading.record

    @property
    def attempt(self) -> Attempt | None:
        """The attempt that waits or runs."""
        return self.record.attempt

    @property
    def purpose(self) -> Purpose | None:
        """What the attempt is for."""
        return self.attempt.purpose if self.attempt is not None else None

    @property
    def holds_slot(self) -> bool:
        """Whether a slot is there for the attempt; a rollback has that of the attempt that failed."""
        attempt = self.attempt
        return attempt is not None and any(one.attempt in (attempt.id, attempt.rolls_back) for one in self.held)

    @property
    def label(self) -> str:
        """The state label as it stands on the Node; empty without one."""
        return self.node.labels.get(names.UPGRADE_STATE, "")

    @property
    def state(self) -> UpgradeState | None:
        """Where the node is by our record."""
        return self.record.state

    @property
    def is_started(self) -> bool:
        """Has the node been taken out of service for the attempt, and has that not ended?"""
        return self.state in STARTED

    @property
    def is_in_flight(self) -> bool:
        """Is something under way that has to be finished in every mode?"""
        return self.is_started or self.state is UpgradeState.DONE or self.purpose is Purpose.ROLLBACK

    @property
    def loaded(self) -> Target | None:
        """The driver of ours that is loaded in this boot; None when none is, or nobody has reported yet."""
        driver = self.found.driver if self.found is not None else None
        if driver is None or not driver.loaded or driver.managed_by is not ManagedBy.OPERATOR:
            return None
        options = {one.module: one.options for one in driver.module_options if one.options}
        return Target(
            version=driver.version, digest=driver.image_digest, options=hash_of(options), content=driver.digest
        )

    @property
    def runs_wanted(self) -> bool:
        """The wanted driver is known to be loaded in this boot."""
        return self.wanted is not None and self.loaded is not None and self.wanted.is_met_by(self.loaded)

    @property
    def needs_upgrade(self) -> bool:
        """Another driver of ours than the wanted one is known to be loaded. A first install is no upgrade."""
        return self.wanted is not None and self.loaded is not None and not self.wanted.is_met_by(self.loaded)

    @property
    def runs_target(self) -> bool:
        """What the attempt is to bring is loaded; for an attempt without a target, any driver of ours."""
        target = self.attempt.target if self.attempt is not None else None
        return self.loaded is not None and (target is None or target.is_met_by(self.loaded))

    @property
    def staged(self) -> StagedVersion | None:
        """What the agent says of the wanted driver on its disk, for the kernel that runs."""
        if self.found is None or self.wanted is None:
            return None
        return next(
            (
                one
                for one in self.found.staged
                if one.version == self.wanted.version
                and (not self.wanted.digest or one.image_digest in ("", self.wanted.digest))
                and one.kernel in ("", self.node.kernel)
            ),
            None,
        )

    @property
    def has_new_pod(self) -> bool:
        """The node's driver pod was made to bring the wanted driver, with the wanted options."""
        pod = self.driver_pod
        if pod is None or pod.is_terminating or self.wanted is None:
            return False
        return target_of(pod.wanted).is_met_by(self.wanted)

    @property
    def is_staged(self) -> bool:
        """The wanted driver lies on the node, checked, and the loader of the next boot knows about it."""
        return self.has_new_pod and self.staged is not None and self.staged.state is StageState.STAGED

    @property
    def needs_recovery(self) -> bool:
        """The agent of this boot says that a reboot would cure chips."""
        return self.found is not None and self.found.recovery.needed

    @property
    def is_cordoned_by_us(self) -> bool:
        """Our mark and the cordon, both."""
        return names.CORDON_MARK in self.node.annotations and self.node.unschedulable

    @property
    def is_cordoned_by_others(self) -> bool:
        """A cordon without our mark."""
        return self.node.unschedulable and names.CORDON_MARK not in self.node.annotations

    @property
    def is_isolated(self) -> bool:
        """Somebody took the node out by hand."""
        return self.node.labels.get(names.HEALTH) == names.UNHEALTHY

    @property
    def is_down(self) -> bool:
        """Does the node take no work, for whatever cause?"""
        driver_is_missing = self.found is not None and self.wanted is not None and not self.found.driver.loaded
        return not self.node.is_ready or self.node.unschedulable or driver_is_missing

    @property
    def npu_pods(self) -> tuple[PodView, ...]:
        """Pods that hold chips, Terminating included; empty also when nobody has looked (ask `pods` first)."""
        return tuple(pod for pod in self.pods or () if pod.holds_npu and not pod.is_finished)

    @property
    def is_forced(self) -> bool:
        """May pods with NPUs be killed once their time is over?"""
        if self.purpose is Purpose.RECOVERY:
            approval = self.record.recovery_approval
            return self.recovery.drain.force or (approval is not None and approval.is_force)
        return self.policy.pod_deletion.force

    @property
    def has_rebooted(self) -> bool:
        """A boot id that differs from the one at arming is the proof, and the only one."""
        attempt = self.attempt
        return attempt is not None and bool(attempt.boot_before) and attempt.boot_before != self.node.boot_id

    @property
    def is_executed(self) -> bool:
        """The rebooter says that it carried out this attempt, or the node is already going down."""
        attempt = self.attempt
        if attempt is None:
            return False
        said = self.found is not None and self.found.reboot.attempt == attempt.id
        return said or (attempt.phase is Phase.ARMED and not self.node.is_ready)

    def seconds_since(self, stamp: str) -> float:
        """Seconds from a stamp to now; 0 when it is none."""
        return stamps.between(stamp, self.now)

    def after(self, act: Act) -> "NodeView":
        """The view as it will be once this is written."""
        record, change = act.record if act.record is not None else self.record, act.change
        own_labels, own_annotations = keys_of(record)
        labels = _merged(self.node.labels, change.labels, own_labels)
        notes = _merged(self.node.annotations, change.annotations, own_annotations)
        metadata = msgspec.structs.replace(self.node.metadata, labels=labels, annotations=notes)
        cordon = self.node.unschedulable if change.unschedulable is None else change.unschedulable
        return msgspec.structs.replace(
            self,
            node=msgspec.structs.replace(self.node, metadata=metadata, unschedulable=cordon),
            reading=Reading(record),
            seconds_in_state=self.seconds_in_state if record.state is self.state else 0.0,
        )


STARTED = frozenset(UpgradeState) - {UpgradeState.REQUIRED, UpgradeState.DONE, UpgradeState.FAILED}
"""States between the cordon and the uncordon."""
EMPTYING = frozenset({UpgradeState.CORDON, UpgradeState.JOBS, UpgradeState.POD_DELETION, UpgradeState.DRAIN})
BEFORE_BOOT = EMPTYING | {UpgradeState.REBOOT}
WITH_PODS = BEFORE_BOOT
"""States in which somebody has to watch the pods of the node."""


def _merged(*layers: Mapping[str, str | None]) -> dict[str, str]:
    merged: dict[str, str | None] = {}
    for layer in layers:
        merged |= layer
    return {key: value for key, value in merged.items() if value is not None}


def target_of(wanted: WantedDriver) -> Target:
    """What the pods of a pool are made to bring, as a target."""
    return Target(version=wanted.version, digest=wanted.digest, options=wanted.module_options)


def hash_of(options: dict[str, str]) -> str:
    """Module options as they are compared; the same as on driver pods."""
    if not options:
        return ""
    return hashlib.sha256(environment.as_json(options).encode()).hexdigest()[:HASH_DIGITS]
