"""The vocabulary: condition types and reasons, one CamelCase word each, with the sentence that explains it.

Tables, alerts and `kubectl npu why` show the words; the reference page of reasons is made from the sentences. Words are
stable: one that is out there never changes its meaning.
"""

from enum import StrEnum


class ConditionType(StrEnum):
    """Types of the conditions of an `NPUOperatorCtl`; besides these there is one `<Component>Ready` per component."""

    Ready = "Ready"
    """Every NPU node has its chips allocatable and validated."""
    Progressing = "Progressing"
    """Something is being rolled out or upgraded; the message says what."""
    Degraded = "Degraded"
    """Something needs a person."""
    SpecAccepted = "SpecAccepted"
    """The spec could be read as a whole; False names each unknown field and each wrong value."""
    PreflightPassed = "PreflightPassed"
    """Driver images and everything else an upgrade needs are there."""
    UpgradePaused = "UpgradePaused"
    """No further node starts an upgrade."""
    Conflict = "Conflict"
    """Another object is in charge, or this one lies in the wrong namespace."""
    ComponentConflict = "ComponentConflict"
    """Two parts that are switched on do not go together."""
    UnsupportedByVersion = "UnsupportedByVersion"
    """A part that is switched on does not know a chip that is there."""
    HostDriver = "HostDriver"
    """Some nodes use a driver that their host installed and loads by itself."""
    DriverOwnedByUs = "DriverOwnedByUs"
    """The driver is switched off, but some nodes run the one that we loaded."""
    RebootByHand = "RebootByHand"
    """A chip needs a reboot of its node, which nobody but the admin may do here."""
    MixedSuperPod = "MixedSuperPod"
    """Nodes of one super pod run different driver versions for the moment."""
    RuntimeHandlersAgree = "RuntimeHandlersAgree"
    """All NPU nodes know the handler that RuntimeClass `ascend` names."""
    FleetBreaker = "FleetBreaker"
    """Too many nodes became sick at once; no recovery reboot takes place."""

    @staticmethod
    def of_component(name: str) -> str:
        """The type for a component as it is spelled in the spec: `devicePlugin` → `DevicePluginReady`."""
        return f"{name[:1].upper()}{name[1:]}Ready"


class Reason(StrEnum):
    """Why something is as it is. `str(reason)` is the word, `reason.sentence` explains it."""

    sentence: str

    def __new__(cls, word: str, sentence: str = "") -> "Reason":
        """A member is its word; the sentence goes with it."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.sentence = sentence
        return member

    # --- all is well, or on its way
    Ready = "Ready", "Everything that the spec asks for is there and works."
    AllPassed = "AllPassed", "All checks passed."
    InSync = "InSync", "The wanted driver is loaded and validated."
    Disabled = "Disabled", "The part is switched off in the spec."
    NoNodes = "NoNodes", "No node with an NPU has been found."
    Installing = "Installing", "A first driver is being put on a bare node; this needs no reboot and no approval."
    RollingOut = "RollingOut", "Pods are being created or replaced."
    Upgrading = "Upgrading", "Nodes are being taken to another driver version."
    Recovering = "Recovering", "Nodes with sick chips are being rebooted."
    Waiting = "Waiting", "The present step is under way; the message says what ends it."
    StateOver = "StateOver", "The step is done and the next one begins."
    Staging = "Staging", "The new driver is being copied to the node and checked, while the old one serves."
    Staged = "Staged", "The new driver lies on the node, checked and ready to be loaded by a reboot."
    UpgradeDone = "UpgradeDone", "The node runs the wanted driver again and takes work."
    RebootRequired = "RebootRequired", "The node needs a reboot; the message says for what."
    ApprovedReboot = "ApprovedReboot", "Somebody approved the reboot that waits."
    Restored = "Restored", "What somebody had overwritten was put back."

    # --- not ready
    NotReady = "NotReady", "Something that the spec asks for is missing; the message names nodes and causes."
    ChipsNotAllocatable = "ChipsNotAllocatable", "Chips that work are not offered to pods yet."
    ChipUnhealthy = "ChipUnhealthy", "A chip reports a fault and is not offered to pods."
    ChipLost = "ChipLost", "A chip that should be there does not answer."
    PodsNotReady = "PodsNotReady", "Pods of the component are not ready; the message names the first of them."
    AgentSilent = "AgentSilent", "The node agent has not reported for the present boot of the node."
    AgentFailed = "AgentFailed", "An agent cannot do its work on the node; the message is its own."
    NodeNotReady = "NodeNotReady", "Kubernetes says that the node is not ready."
    NotValidated = "NotValidated", "The validator has not proved this driver in this boot."
    DriverNotLoaded = "DriverNotLoaded", "No Ascend driver is loaded on the node."
    ToolWedged = "ToolWedged", "The vendor's tool does not answer, so nothing is known about the chips."
    DiscoveryIncomplete = "DiscoveryIncomplete", "Kernel or operating system of the node is not known yet."

    # --- the object itself
    Accepted = "Accepted", "Every field of the spec is known and valid."
    UnknownField = (
        "UnknownField",
        "The spec has a field that does not exist; the message names it and the nearest known one.",
    )
    InvalidSpec = "InvalidSpec", "A value in the spec cannot be used; nothing new is started until it is corrected."
    QuestionableSpec = "QuestionableSpec", "The spec is valid, but two settings hardly mean what they say together."
    WrongNamespace = "WrongNamespace", "The object lies outside the operator's namespace and is ignored."
    Conflict = "Conflict", "An older object is in charge; this one takes over when that is gone."
    ComponentConflict = (
        "ComponentConflict",
        "Two parts that are switched on do not go together; neither is deployed on the nodes concerned.",
    )
    UnsupportedByVersion = (
        "UnsupportedByVersion",
        "The part's version does not know the chip; it is not deployed on the nodes concerned.",
    )
    Paused = "Paused", "The mode is Paused: what runs is finished, nothing is started."
    PlanOnly = "PlanOnly", "The mode is Plan: only the status is written."
    Deleting = "Deleting", "The object is being deleted and everything is being taken back."

    # --- who owns a driver
    HostDriver = "HostDriver", "The host installed this driver and loads it by itself; it is used as it is."
    DriverOwnedByUs = (
        "DriverOwnedByUs",
        "The driver is switched off, but the node runs one that we loaded; the loader stays for its next boot.",
    )
    ReadOnlyConfig = (
        "ReadOnlyConfig",
        "A configuration file of the host lies on a read-only file system and could not be changed.",
    )

    # --- images and staging
    ImageMissing = "ImageMissing", "The registry has no driver image with the tag that the pool needs."
    ImageArchitecture = "ImageArchitecture", "The driver image exists, but not for the architecture of the nodes."
    ImageUnchecked = "ImageUnchecked", "The registry could not be asked; staging will show whether the image is there."
    ImageChanged = "ImageChanged", "The tag of the driver image points to other content than when the rollout began."
    StageFailed = (
        "StageFailed",
        "The new driver could not be put on the node or did not pass its check; the node serves on.",
    )
    NoSpace = "NoSpace", "The disk of the node has no room for another driver version."
    KernelMismatch = "KernelMismatch", "The driver image holds no modules for the kernel of the node."
    ChipMismatch = "ChipMismatch", "The driver image is for another chip."
    PayloadDamaged = "PayloadDamaged", "A file of the driver image does not match its checksum."
    FirmwarePathUnavailable = (
        "FirmwarePathUnavailable",
        "The kernel would not find the device firmware that belongs to the new driver.",
    )
    FirmwareOutOfRange = "FirmwareOutOfRange", "The running firmware lies outside the range that the driver accepts."
    NoDriverForKernel = "NoDriverForKernel", "The node booted a kernel for which no driver lies on its disk."
    CannTooNew = "CannTooNew", "A running container uses a CANN version that the wanted driver does not support."
    PreflightFailed = (
        "PreflightFailed",
        "A check before the upgrade failed; the message says which and for which nodes.",
    )

    # --- waiting to start
    WaitsForApproval = "WaitsForApproval", "The node is staged and serves on until somebody approves its reboot."
    WaitsForSlot = "WaitsForSlot", "As many nodes are down as the policy allows."
    WaitsForWindow = "WaitsForWindow", "The maintenance window is closed."
    WaitsForCanary = "WaitsForCanary", "The canary nodes of the pool are being upgraded or soaked first."
    WaitsForOthers = "WaitsForOthers", "Other nodes come first in the order."
    MaxUnavailable = "MaxUnavailable", "As many nodes are unavailable, for any cause, as the policy allows."
    MaxFailures = "MaxFailures", "More nodes failed than the policy allows; the rollout is paused."
    CordonedByOthers = "CordonedByOthers", "Somebody else has cordoned the node, so it is left alone."
    SkippedByAnnotation = "SkippedByAnnotation", "The node asks to be left out of upgrades."
    NodeBusy = "NodeBusy", "Another attempt is under way on the node."
    SpecRejected = "SpecRejected", "The spec has an error, so no node starts anything new."

    # --- the walk of a node
    CordonRefused = "CordonRefused", "The node could not be cordoned."
    WaitsForJobs = "WaitsForJobs", "The node waits for running jobs to end."
    WaitsForCheckpoint = "WaitsForCheckpoint", "A pod is writing its checkpoint before it is evicted."
    PodDeletionTimeout = "PodDeletionTimeout", "Pods with NPUs did not go in time."
    DrainBlocked = (
        "DrainBlocked",
        "A pod or its budget keeps the node from being emptied; the node serves again and is tried later.",
    )
    NpuInUse = "NpuInUse", "A pod that holds an NPU still runs on the node, so it is not rebooted."
    RebootNotExecuted = "RebootNotExecuted", "The reboot was authorised, but the node did not go down."
    NodeNotBack = "NodeNotBack", "The node did not come back with a new boot id in time."
    DriverNotReady = "DriverNotReady", "The wanted driver was not loaded in time."
    ValidationFailed = "ValidationFailed", "The validator could not use the chips from a container."
    ValidationTimeout = "ValidationTimeout", "The validator gave no verdict in time."
    UncordonRefused = "UncordonRefused", "The node could not be uncordoned."
    AllocatableMissing = "AllocatableMissing", "The node does not offer all its healthy chips yet."
    ForeignUncordon = (
        "ForeignUncordon",
        "Somebody uncordoned the node during its upgrade; it is emptied once more before the reboot.",
    )
    TrialLost = "TrialLost", "The node rebooted before the new driver was validated and went back to the last good one."
    LoadCrashed = (
        "LoadCrashed",
        "Two boots in a row died loading this driver; it is not loaded again, the node stays up without chips.",
    )
    LoadFailed = "LoadFailed", "The kernel refused a module of the driver; the message has its words."
    Aborted = (
        "Aborted",
        "Somebody removed the state label; the node starts again only by retry, by hand or for another version.",
    )
    TargetChanged = "TargetChanged", "Another version is wanted now; the node goes back or starts anew."
    RolledBack = "RolledBack", "The upgrade failed and the node runs its last good driver again."
    RollbackFailed = "RollbackFailed", "The last good driver did not validate either; the node stays cordoned."
    NoRollback = "NoRollback", "The upgrade failed and there is no good driver to go back to, or rollback is off."

    # --- sick chips
    FaultNeedsReboot = "FaultNeedsReboot", "A chip reports a fault that a reboot of the node can cure."
    RecoveryBlocked = "RecoveryBlocked", "The node needs a reboot, but a pod holds an NPU; approve with force or wait."
    ColdRebootNeeded = "ColdRebootNeeded", "Reboots did not help; the node has to be switched off and on."
    RebootByHand = "RebootByHand", "The host owns the driver, so the reboot that the chip needs is left to people."
    TooManyUnhealthy = (
        "TooManyUnhealthy",
        "Too many nodes became sick at once, so the tool is to be doubted, not the fleet; nothing reboots.",
    )
    RecoveredByItself = "RecoveredByItself", "The chip came back without a reboot."
    UptimeTooShort = "UptimeTooShort", "The node booted too recently for another recovery reboot."
    LeftToMindCluster = "LeftToMindCluster", "Healing is MindCluster's business by the policy."
    HccnAddressLost = "HccnAddressLost", "A chip had an address in the chips' network before and has none now."
    HccnLinkDown = "HccnLinkDown", "The network port of a chip has no link."
    MixedSuperPod = "MixedSuperPod", "Nodes of one super pod run different driver versions for the moment."

    # --- container runtime
    RuntimeRestartNeeded = (
        "RuntimeRestartNeeded",
        "The runtime must be restarted before it takes the new settings; the node waits for its slot.",
    )
    RuntimeOverwritten = "RuntimeOverwritten", "Somebody overwrote our settings of containerd; they were repaired."
    RuntimeUnsupported = "RuntimeUnsupported", "The container runtime of the node is none that we can set up."
    HandlersDisagree = "HandlersDisagree", "The nodes do not all know the handler that RuntimeClass `ascend` names."
    CdiOutdated = "CdiOutdated", "The CDI file does not describe the chips that are there."

    # --- the cluster
    NoRights = "NoRights", "The API server refused a request of the operator; the message names verb and resource."
    CrdMissing = (
        "CrdMissing",
        "A resource definition is missing or older than the operator; the message says what to apply.",
    )
    Deferred = "Deferred", "The API server is busy or away; the operator tries again by itself."
