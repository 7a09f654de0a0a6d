"""What we remember on a Node: the annotation `npu-operator.alauda.io/attempt`, as JSON.

It is written in the same patch as the state label, the cordon and its mark, so no crash can separate them. `state`
repeats the label that we wrote: a label that differs was edited by hand. An attempt is one reboot (or one restart of
the container runtime) with its id; it is made when the reboot becomes required and armed right before it. The rest is
memory that outlives an attempt: how the last one ended, how often something was tried, when recovery reboots were.

The rebooter and the node agent read this too, by `read` and `authorised`. Source: product.md §4.6, 4.7, 4.9, 4.12–4.14.
"""

import hashlib
from enum import StrEnum
from typing import Final

import msgspec

from npu_operator.model import names
from npu_operator.model.fields import Stamp
from npu_operator.model.names import Purpose, UpgradeState
from npu_operator.model.node import Node
from npu_operator.model.reasons import Reason

FORMAT_VERSION: Final = 1
ID_DIGITS: Final = 10


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part of the record; what is at its default is left out of the annotation."""


class Phase(StrEnum):
    """How far an attempt has come."""

    WAITING = "waiting"
    """For approval, gates and a slot."""
    RUNNING = "running"
    """The node is being emptied; for a restart of the runtime: the agent may do it."""
    ARMED = "armed"
    """The rebooter may reboot."""
    BOOTED = "booted"
    """A new boot id has been seen, or no reboot was needed."""


PHASE_OF: Final[dict[UpgradeState | None, Phase]] = {
    UpgradeState.CORDON: Phase.RUNNING,
    UpgradeState.JOBS: Phase.RUNNING,
    UpgradeState.POD_DELETION: Phase.RUNNING,
    UpgradeState.DRAIN: Phase.RUNNING,
    UpgradeState.REBOOT: Phase.ARMED,
    UpgradeState.RESTART: Phase.BOOTED,
    UpgradeState.VALIDATION: Phase.BOOTED,
    UpgradeState.UNCORDON: Phase.BOOTED,
    UpgradeState.DONE: Phase.BOOTED,
}
"""Of the attempt of a node in this state; in all others it waits."""


class Target(Part, frozen=True, kw_only=True):
    """A driver: what matters for an installed one."""

    version: str
    digest: str = ""
    """Digest of the image it comes from (`sha256:…`); empty when not known."""
    options: str | None = None
    """Hash of the module options, empty for none; None: they do not matter (a rollback)."""
    content: str = ""
    """First digits of the digest of the payload's manifest, as the node agent names it; empty when not known."""

    def is_met_by(self, other: "Target") -> bool:
        """Whether `other` will do. Digests and options count only when both sides know them."""
        return (
            self.version == other.version
            and (not self.digest or not other.digest or self.digest == other.digest)
            and (not self.content or not other.content or self.content == other.content)
            and (self.options is None or other.options is None or self.options == other.options)
        )

    def __str__(self) -> str:
        return self.version


class Approval(Part, frozen=True, kw_only=True):
    """Somebody's word for a reboot, moved here from the annotation."""

    given: str
    """The annotation's text."""
    at: Stamp
    """Server time when we saw it: approved nodes go in this order."""

    @property
    def is_force(self) -> bool:
        """Whether pods with NPUs may be killed for it."""
        return self.given == names.APPROVE_RECOVERY_FORCE


class Attempt(Part, frozen=True, kw_only=True):
    """One reboot: at most one execution per id."""

    id: str
    purpose: Purpose
    target: Target | None = None
    """The driver that should be loaded afterwards; None: whatever is active (recovery, runtime)."""
    phase: Phase = Phase.WAITING
    made_at: Stamp = ""
    good: Target | None = None
    """The driver to go back to: the last one that was validated here; None when there is none."""
    boot_before: str = ""
    """Boot id of the Node when it was armed; a new one is the only proof of a reboot."""
    deadline: Stamp = ""
    """When armed: by when the node has to be down; a rebooter that comes later does nothing."""
    rearmed: int = 0
    """How often a foreign reboot came in between."""
    rolls_back: str = ""
    """For a rollback: the id of the attempt that failed. The slot and the approval are that one's."""


class Ended(Part, frozen=True, kw_only=True):
    """How the last attempt ended that did not succeed; the node does not start again by itself for the same target."""

    attempt: str
    purpose: Purpose
    reason: Reason
    """What went wrong, or Aborted."""
    message: str
    at: Stamp
    target: Target | None = None
    outcome: Reason | None = None
    """What became of it: RolledBack, RollbackFailed, NoRollback; None when the old driver was never left."""
    boot: str = ""
    """Boot id of the node at the end."""


class Tried(Part, frozen=True, kw_only=True):
    """Something that did not work yet and is tried again with back-off."""

    count: int
    at: Stamp
    reason: Reason
    message: str


class Record(Part, frozen=True, kw_only=True):
    """The whole annotation."""

    v: int = FORMAT_VERSION
    state: UpgradeState | None = None
    since: dict[str, Stamp] = {}
    """When each state of the present walk was entered."""
    target: Target | None = None
    """What the present walk leads to; None outside of upgrades."""
    attempt: Attempt | None = None
    approval: Approval | None = None
    """For the upgrade to `target`, and for its rollback."""
    recovery_approval: Approval | None = None
    advance: str = ""
    """Text of an approval that was there before the recovery that waits now: not for it, but for the next upgrade."""
    left: str = ""
    """Id of an attempt that this node will never go on with: its slot is free."""
    uncordoned: bool = False
    """Somebody uncordoned the node in our walk; we do not cordon it again."""
    ended: Ended | None = None
    tried: dict[str, Tried] = {}
    """By what: `stage`, `drain`, `runtime`."""
    recoveries: tuple[Stamp, ...] = ()
    """When recovery reboots were armed, as long as they count."""

    @property
    def is_empty(self) -> bool:
        """Nothing to remember: the annotation goes."""
        return self == EMPTY

    @property
    def phase(self) -> Phase | None:
        """The phase of the attempt; None without one."""
        return self.attempt.phase if self.attempt is not None else None

    def entered(self, state: UpgradeState | None, now: Stamp) -> "Record":
        """The same record in another state, with the moment of the change and the phase that belongs to it."""
        since = {**self.since, state.value: now} if state is not None else {}
        attempt = self.attempt
        if attempt is not None and attempt.purpose is not Purpose.RUNTIME:
            attempt = msgspec.structs.replace(attempt, phase=PHASE_OF.get(state, Phase.WAITING))
        return msgspec.structs.replace(self, state=state, since=since, attempt=attempt)

    def with_attempt(self, **changes: object) -> "Record":
        """The same record with changes to its attempt, which must exist."""
        assert self.attempt is not None, "only an attempt that was made can be changed"
        return msgspec.structs.replace(self, attempt=msgspec.structs.replace(self.attempt, **changes))


EMPTY: Final = Record()


def keys_of(record: Record) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """All labels and annotations that follow from a record, so that none can be left over: None means it goes."""
    attempt = record.attempt if record.attempt is not None and record.attempt.purpose is not Purpose.RUNTIME else None
    is_armed = attempt is not None and attempt.phase is Phase.ARMED
    is_required = attempt is not None and attempt.phase is not Phase.BOOTED
    labels = {
        names.UPGRADE_STATE: record.state.value if record.state is not None else None,
        names.REBOOT_REQUIRED: names.TRUE if is_required else None,
    }
    annotations = {
        names.ATTEMPT: write(record),
        names.REBOOT_IN_PROGRESS: names.TRUE if is_armed else None,
        names.PRE_REBOOT_BOOT_ID: attempt.boot_before if attempt is not None and is_armed else None,
    }
    return labels, annotations


_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(Record)


class Reading(msgspec.Struct, frozen=True):
    """A record as it was found. `problem` is empty when it could be read, else a sentence; `record` is then empty."""

    record: Record
    problem: str = ""
    is_newer: bool = False
    """A newer operator wrote it: nothing is broken, but this one must keep its hands off."""


def read(node: Node) -> Reading:
    """The record on a Node. Never fails: a broken record is a reason, and the node's label still tells where it is."""
    text = node.annotations.get(names.ATTEMPT)
    if text is None:
        return Reading(EMPTY)
    where = f"the annotation {names.ATTEMPT}"
    try:
        version = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).get("v", msgspec.Raw(b"1"))
        number = msgspec.json.decode(version, type=int)
        if number > FORMAT_VERSION:
            return Reading(EMPTY, f"{where} has format {number}, a newer operator wrote it", is_newer=True)
        return Reading(_DECODER.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return Reading(EMPTY, f"{where} cannot be read: {error}")


def write(record: Record) -> str | None:
    """The annotation's text; None when it should go. Same record, same text."""
    return None if record.is_empty else _ENCODER.encode(record).decode()


def new_id(node: Node, purpose: Purpose) -> str:
    """An id that no other attempt has or will have.

    Two attempts of a node never begin from the same version of its Node, since the patch that makes one is guarded by
    it.
    """
    seed = f"{node.metadata.uid}/{node.metadata.resource_version}/{purpose}"
    return hashlib.sha256(seed.encode()).hexdigest()[:ID_DIGITS]


def authorised(node: Node) -> Attempt | None:
    """The attempt for which this node may be rebooted now; None: there is none.

    All of it has to agree: the state label, an armed attempt, and the boot id that the node had when it was armed.
    """
    attempt = read(node).record.attempt
    if attempt is None or attempt.phase is not Phase.ARMED or attempt.boot_before != node.boot_id:
        return None
    return attempt if node.labels.get(names.UPGRADE_STATE) == UpgradeState.REBOOT else None
