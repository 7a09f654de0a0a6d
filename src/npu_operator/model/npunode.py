"""`NPUNode`: one object per node with chips, so that `kubectl get npunodes` answers the daily question.

`spec` is for people. `status.found` is written by the node agent alone and counts only for the boot it names.
`status.plan` is written by the operator alone, for people, and never read back.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from .chips import ChipFamily, ChipHealth, ChipState
from .fields import Distinct, Item, Line, Pattern, Section, Stamp, Status, Text, Word
from .metadata import Metadata

DeviceId = Annotated[
    str,
    Meta(max_length=32),
    Pattern("(Ascend910|Ascend310P|Ascend310|npu)-[0-9]{1,4}", "must be a device id, for example Ascend910-3"),
]
SICK = frozenset({ChipHealth.ALARM, ChipHealth.CRITICAL, ChipHealth.UNKNOWN})
OFFERED = frozenset({ChipState.FREE, ChipState.IN_USE})


class ManagedBy(StrEnum):
    """Whose driver is loaded."""

    NOBODY = "None"
    """No driver is loaded."""
    OPERATOR = "Operator"
    HOST = "Host"
    """Installed on the host by somebody else."""


class StageState(StrEnum):
    """How far a driver version has come on its way to the disk."""

    STAGING = "Staging"
    STAGED = "Staged"
    FAILED = "Failed"


class Chip(Item, frozen=True, kw_only=True, gc=False):
    """One chip. The three ids are three number spaces of the vendor; none can be worked out from another."""

    id: Annotated[DeviceId, "Device id as in pods and in `isolatedChips`, for example Ascend910-3."]
    model: Annotated[Word, "Model as the tool names it, for example 910B3."] = ""
    physical: Annotated[int | None, "Physical id: the N of /dev/davinciN; null when not known."] = None
    logic: Annotated[int | None, "Logic id: the number by which the driver's library counts."] = None
    card: Annotated[int | None, "Card id: the NPU number in the tool's table."] = None
    index: Annotated[int, "Number of the chip on its card."] = 0
    bus: Annotated[Word, "PCI address."] = ""
    numa: Annotated[int | None, "NUMA node; null when the host does not say."] = None
    serial: Annotated[Word, "Serial number of the card."] = ""
    memory_mib: Annotated[int, "Memory in MiB."] = 0
    health: Annotated[ChipHealth, "Health as the tool words it."] = ChipHealth.OK
    fault_codes: Annotated[tuple[Word, ...], Meta(max_length=64), "Fault codes that stand, in hex."] = ()
    state: Annotated[ChipState, "What the chip is doing."] = ChipState.FREE
    message: Annotated[Line, "What is wrong with it."] = ""

    @property
    def is_healthy(self) -> bool:
        """Can it work? Isolation, sharing and the like are no illness."""
        return self.health not in SICK and self.state is not ChipState.LOST

    @property
    def is_offered(self) -> bool:
        """May pods get it, as far as the chip itself is concerned (the node may be out of service)?"""
        return self.is_healthy and self.state in OFFERED


class ModuleOptions(Item, frozen=True, kw_only=True, gc=False):
    """Options with which one kernel module was loaded."""

    module: Annotated[Word, "Name of the module."]
    options: Annotated[Line, "Its options."] = ""


class DriverFound(Status, frozen=True, kw_only=True, gc=False):
    """The driver on the node."""

    version: Annotated[Word, "Version that is loaded; empty when none is."] = ""
    digest: Annotated[Word, "First 12 hex digits of the digest of the loaded payload's manifest."] = ""
    image_digest: Annotated[Line, "Digest of the image the loaded payload came from; empty when not known."] = ""
    managed_by: Annotated[ManagedBy, "Whose driver it is."] = ManagedBy.NOBODY
    loaded: Annotated[bool, "Whether the modules are loaded."] = False
    autoload: Annotated[bool, "Whether the host loads a driver by itself at boot."] = False
    tree: Annotated[Line, "Where the driver lies on the host."] = ""
    device_count: Annotated[int, "Chips that the loaded driver found."] = 0
    module_options: Annotated[
        tuple[ModuleOptions, ...], Meta(max_length=64), "Options with which the modules were loaded."
    ] = ()
    active_version: Annotated[Word, "Version that the next boot loads."] = ""
    active_digest: Annotated[Word, "Digest of that version."] = ""
    good_version: Annotated[Word, "Version that was last validated here with this kernel."] = ""
    good_digest: Annotated[Word, "Digest of that version."] = ""
    trying_version: Annotated[Word, "Version that is on trial in this boot, until it is validated."] = ""
    trying_attempt: Annotated[Word, "Attempt that put it on trial."] = ""
    reason: Annotated[Word, "Why the driver is not as it should be."] = ""
    message: Annotated[Text, "The same for people."] = ""


class StagedVersion(Item, frozen=True, kw_only=True, gc=False):
    """A driver version on the node's disk, or on its way there."""

    version: Annotated[Word, "Driver version."]
    digest: Annotated[Word, "First 12 hex digits of the digest of the payload's manifest."] = ""
    image_digest: Annotated[Line, "Digest of the image it came from; empty when not known."] = ""
    kernel: Annotated[Line, "Kernel its modules are for."] = ""
    state: Annotated[StageState, "How far it has come."] = StageState.STAGED
    reason: Annotated[Word, "Why it failed."] = ""
    message: Annotated[Text, "The same for people."] = ""


class RuntimeFound(Status, frozen=True, kw_only=True, gc=False):
    """The container runtime of the node."""

    name: Annotated[Word, "Name, for example containerd."] = ""
    version: Annotated[Word, "Version."] = ""
    handler: Annotated[Word, "Handler that RuntimeClass `ascend` must name for this node."] = ""
    configured: Annotated[bool, "Whether our settings are in effect."] = False
    message: Annotated[Text, "What is not as it should be."] = ""


class RuntimeRestart(Status, frozen=True, kw_only=True, gc=False):
    """The agent's request for the right to restart the container runtime, and its answer."""

    wanted: Annotated[bool, "Whether a restart is asked for."] = False
    message: Annotated[Line, "What it is for."] = ""
    done_attempt: Annotated[Word, "Attempt for which the runtime was restarted last."] = ""


class CdiFound(Status, frozen=True, kw_only=True, gc=False):
    """The CDI file."""

    path: Annotated[Line, "Where it lies; empty when there is none."] = ""
    devices: Annotated[int, "Chips it describes."] = 0
    message: Annotated[Text, "What is wrong with it."] = ""


class Validation(Status, frozen=True, kw_only=True, gc=False):
    """The validator's last verdict. It speaks only about the boot and the driver that it names."""

    passed: Annotated[bool, "Whether chips, libraries and tools worked from a container."] = False
    boot_id: Annotated[Word, "Boot in which it was given; empty: there is none."] = ""
    version: Annotated[Word, "Driver version that was validated."] = ""
    digest: Annotated[Word, "Digest of that version."] = ""
    chips: Annotated[int, "Chips that were opened."] = 0
    reason: Annotated[Word, "Why it failed."] = ""
    message: Annotated[Text, "The same for people."] = ""


class RecoveryRequest(Status, frozen=True, kw_only=True, gc=False):
    """The agent's wish for a reboot that would cure chips."""

    needed: Annotated[bool, "Whether a reboot is needed."] = False
    reason: Annotated[Word, "Why."] = ""
    message: Annotated[Text, "The same for people."] = ""
    since: Annotated[Stamp | None, "Since when."] = None


class RebootReport(Status, frozen=True, kw_only=True, gc=False):
    """What the rebooter did last."""

    attempt: Annotated[Word, "Attempt that it recorded as executed; empty: none."] = ""
    boot_id: Annotated[Word, "Boot in which it did."] = ""
    message: Annotated[Text, "Why it did not reboot, when it should have."] = ""


class AgentMessage(Item, frozen=True, kw_only=True, gc=False):
    """Something an agent on the node wants people to know."""

    agent: Annotated[Word, "Which agent."]
    reason: Annotated[Word, "One word why."]
    message: Annotated[Text, "The same for people."] = ""


class Found(Status, frozen=True, kw_only=True, gc=False):
    """What the node agent found. It is ignored when `bootId` differs from the Node's."""

    boot_id: Annotated[Word, "Boot in which all of this was found."] = ""
    agent_version: Annotated[Word, "Version of the agent."] = ""
    architecture: Annotated[Word, "Machine, for example aarch64."] = ""
    kernel: Annotated[Line, "`uname -r`."] = ""
    os_id: Annotated[Word, "ID of os-release."] = ""
    os_version: Annotated[Word, "VERSION_ID of os-release; empty on systems without one."] = ""
    chip: Annotated[ChipFamily | None, "Chip family by PCI id; null before the agent has looked."] = None
    super_pod: Annotated[Word, "Super pod that the node belongs to."] = ""
    summary: Annotated[Line, "Chips by model, for the table, for example 8x910B3."] = ""
    healthy: Annotated[Word, "Healthy chips of all, for the table, for example 8/8."] = ""
    chips: Annotated[tuple[Chip, ...], Meta(max_length=128), "The chips."] = ()
    in_service: Annotated[bool, "Whether the node's chips are offered to pods."] = False
    driver: Annotated[DriverFound, "The driver."] = DriverFound()
    staged: Annotated[tuple[StagedVersion, ...], Meta(max_length=16), "Driver versions on the disk."] = ()
    running_firmware: Annotated[Word, "Firmware that the chips run."] = ""
    runtime: Annotated[RuntimeFound, "The container runtime."] = RuntimeFound()
    runtime_restart: Annotated[RuntimeRestart, "Request to restart the container runtime."] = RuntimeRestart()
    cdi: Annotated[CdiFound, "The CDI file."] = CdiFound()
    validation: Annotated[Validation, "The validator's last verdict."] = Validation()
    recovery: Annotated[RecoveryRequest, "Wish for a reboot that would cure chips."] = RecoveryRequest()
    reboot: Annotated[RebootReport, "What the rebooter did last."] = RebootReport()
    cann_versions: Annotated[tuple[Word, ...], Meta(max_length=32), "CANN versions seen in running containers."] = ()
    messages: Annotated[tuple[AgentMessage, ...], Meta(max_length=32), "What agents want people to know."] = ()


class NodePlan(Status, frozen=True, kw_only=True, gc=False):
    """What the operator is doing with the node and what it waits for."""

    state: Annotated[Word, "Where the node is: a state of the upgrade, or a word such as Ready."] = ""
    since: Annotated[Stamp | None, "Since when."] = None
    target: Annotated[Word, "Driver version that the node is taken to."] = ""
    reason: Annotated[Word, "One word why; see the reference of reasons."] = ""
    message: Annotated[Text, "The same for people."] = ""
    next: Annotated[Line, "What comes next, and what it waits for."] = ""
    deadline: Annotated[Stamp | None, "When waiting for it is given up; null: never."] = None


class NPUNodeSpec(Section, frozen=True, kw_only=True):
    """What people want of the node's chips."""

    isolated_chips: Annotated[
        tuple[DeviceId, ...],
        Meta(max_length=128),
        Distinct(),
        "Device ids that are not to be offered to pods, for example Ascend910-3.",
    ] = ()


class NPUNodeStatus(Status, frozen=True, kw_only=True, gc=False):
    """Two halves with one writer each."""

    found: Annotated[Found, "What the node agent found; written by it alone."] = Found()
    plan: Annotated[NodePlan, "What the operator is doing; written by it alone, never read back."] = NodePlan()


class NPUNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The object as it is read; cluster-scoped, named like the Node, owned by it."""

    metadata: Metadata = Metadata()
    spec: NPUNodeSpec = NPUNodeSpec()
    status: NPUNodeStatus = NPUNodeStatus()


decode = msgspec.json.Decoder(NPUNode).decode
"""An `NPUNode` from what the API server sent; raises `msgspec.DecodeError`."""


def models(chips: Iterable[Chip]) -> str:
    """`8x910B3`; several models in order of number, `?` for a model that is not known; empty without chips."""
    counted = Counter(chip.model or "?" for chip in chips)
    return ",".join(
        f"{count}x{model}" for model, count in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    )


def healthy(chips: Iterable[Chip]) -> str:
    """`7/8`: healthy chips of all; empty without chips."""
    states = [chip.is_healthy for chip in chips]
    return f"{sum(states)}/{len(states)}" if states else ""
