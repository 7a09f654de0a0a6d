"""What is true of one node: has it an NPU, which pool is it in, can its chips be used, and if not, why.

`judge` looks at nothing but its arguments, so a verdict stands as long as they are the same. What may stand between a
node and Ready is an ordered list of small checks; the first objection is what people see, in the status, in events and
in `kubectl npu why`.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from npu_operator.ascend import labels as signs
from npu_operator.ascend import tags
from npu_operator.components.pools import Pool, pool_of
from npu_operator.model import names
from npu_operator.model.chips import ChipFamily
from npu_operator.model.ctl import Discovery, Spec, driver_version_for, resource_name_for
from npu_operator.model.node import Node
from npu_operator.model.npunode import Found, ManagedBy, NPUNode
from npu_operator.model.reasons import Reason


class NodeState(StrEnum):
    """Where a node is outside of upgrades; an upgrade's own states take this place while it lasts."""

    NONE = "None"
    """No NPU: nothing of ours belongs there."""
    LEAVING = "Leaving"
    """The last sign of an NPU has gone; our labels stay for a while."""
    DISCOVERING = "Discovering"
    INSTALLING = "Installing"
    VALIDATING = "Validating"
    PUBLISHING = "Publishing"
    DEGRADED = "Degraded"
    """Serves, but not with all its chips."""
    UNREACHABLE = "Unreachable"
    READY = "Ready"


class Objection(msgspec.Struct, frozen=True):
    """Why a node is not ready. The message goes after "node a7: "."""

    state: NodeState
    reason: Reason
    message: str
    next: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One node, judged."""

    node: str
    has_npu: bool
    """Whether our labels belong on it, now or for a while yet."""
    sign: str | None = None
    """What says that there is an NPU; None when nothing does any more."""
    chip: ChipFamily | None = None
    pool: Pool | None = None
    """None while chip, kernel or OS are not known, and where the host's own driver is used."""
    state: NodeState = NodeState.NONE
    reason: Reason = Reason.NoNodes
    message: str = ""
    next: str = ""
    target: str = ""
    """Driver version wanted here; empty where the driver is the host's business."""
    chips: int = 0
    allocatable: int = 0
    unhealthy: int = 0
    in_sync: bool = True
    """Whether the loaded driver is the wanted one."""
    has_host_driver: bool = False
    has_our_driver_unwanted: bool = False
    """The driver is switched off, yet the node runs the one that we loaded."""
    runtime_handler: str = ""

    @property
    def is_ready(self) -> bool:
        """All chips that should be offered are offered and validated."""
        return self.state is NodeState.READY


class View(msgspec.Struct, frozen=True):
    """What a check may look at."""

    node: Node
    found: Found | None
    """None when no agent has reported in this boot of the node."""
    spec: Spec
    chip: ChipFamily | None
    is_passed_through: bool
    allocatable: int


def judge(node: Node, npu_node: NPUNode | None, spec: Spec) -> Verdict:
    """Judge one node under the spec in charge."""
    reported = npu_node.status.found if npu_node is not None else None
    found = reported if reported is not None and reported.boot_id and reported.boot_id == node.boot_id else None
    sign, sign_chip = _sign(node, npu_node, found, spec)
    if sign is None and names.NPU_PRESENT not in node.labels:
        return Verdict(node=node.name, has_npu=False)
    chip = (reported.chip if reported is not None else None) or sign_chip or _labelled_chip(node)
    host_driver = _has_host_driver(node, found)
    ours = found is not None and found.driver.managed_by is ManagedBy.OPERATOR
    is_passed_through = host_driver or not spec.driver.enabled
    pool = None if host_driver or not (spec.driver.enabled or ours) else _pool(node, reported, chip)
    target = "" if is_passed_through or chip is None else driver_version_for(spec, chip)
    view = View(node, found, spec, chip, is_passed_through, _allocatable(node, spec, chip))
    objection = first_objection(view)
    if sign is None:
        objection = Objection(
            NodeState.LEAVING,
            Reason.NoNodes,
            "no label tells of an NPU any more",
            "our labels go when no sign has come back for ten minutes",
        )
    chips = found.chips if found is not None else ()
    return Verdict(
        node=node.name,
        has_npu=True,
        sign=sign,
        chip=chip,
        pool=pool,
        state=NodeState.READY if objection is None else objection.state,
        reason=Reason.Ready if objection is None else objection.reason,
        message=f"{view.allocatable} of {len(chips)} chips can be asked for"
        if objection is None
        else objection.message,
        next="" if objection is None else objection.next,
        target=target,
        chips=len(chips),
        allocatable=view.allocatable,
        unhealthy=sum(not chip.is_healthy for chip in chips),
        in_sync=not target or found is None or not found.driver.loaded or found.driver.version == target,
        has_host_driver=host_driver,
        has_our_driver_unwanted=ours and not spec.driver.enabled,
        runtime_handler=found.runtime.handler if found is not None else "",
    )


def kubernetes_says_ready(view: View) -> Objection | None:
    """A node that does not answer cannot serve, whatever was true before."""
    if view.node.is_ready:
        return None
    why = view.node.ready_reason or "its kubelet has not reported yet"
    return Objection(NodeState.UNREACHABLE, Reason.NodeNotReady, f"Kubernetes says NotReady ({why})", "the kubelet")


def agent_has_reported(view: View) -> Objection | None:
    """Nothing is known of the chips before the agent has looked at them in this boot."""
    if view.found is not None:
        return None
    return Objection(
        NodeState.DISCOVERING,
        Reason.AgentSilent,
        "the node agent has not reported in this boot",
        f"a report of the pod {names.NODE_AGENT} on the node",
    )


def agents_can_work(view: View) -> Objection | None:
    """An agent that cannot do its work says why in its own words."""
    said = next(iter(view.found.messages), None) if view.found is not None else None
    if said is None:
        return None
    return Objection(NodeState.DEGRADED, Reason.AgentFailed, f"{said.agent}: {said.reason}: {said.message}", said.agent)


def pool_is_known(view: View) -> Objection | None:
    """Without chip, kernel and OS nobody can tell which driver image is needed."""
    if view.is_passed_through or _pool(view.node, view.found, view.chip) is not None:
        return None
    missing = [
        what
        for what, value in (("chip", view.chip), ("kernel", view.node.kernel), ("OS", _os(view.node, view.found)[0]))
        if not value
    ]
    return Objection(
        NodeState.DISCOVERING, Reason.DiscoveryIncomplete, f"{' and '.join(missing)} not known yet", "the node agent"
    )


def driver_is_loaded(view: View) -> Objection | None:
    """No driver, no chips."""
    assert view.found is not None, "asked after agent_has_reported"
    driver = view.found.driver
    if driver.loaded:
        return None
    state = NodeState.INSTALLING
    if driver.message:
        return Objection(state, _known(driver.reason, Reason.DriverNotReady), driver.message, "the loader")
    if view.is_passed_through:
        return Objection(
            state, Reason.DriverNotLoaded, "no driver is loaded and driver.enabled is false", "a driver on the host"
        )
    return Objection(state, Reason.Installing, "the driver is being installed", "the loader to report the driver")


def chips_are_validated(view: View) -> Objection | None:
    """Only the validator's verdict about this boot and this driver counts."""
    assert view.found is not None, "asked after agent_has_reported"
    verdict, driver = view.found.validation, view.found.driver
    if verdict.boot_id != view.found.boot_id or verdict.version != driver.version:
        return Objection(
            NodeState.VALIDATING,
            Reason.NotValidated,
            "the validator has not given a verdict for this boot and driver",
            f"the pod {names.VALIDATOR} on the node",
        )
    if verdict.passed:
        return None
    reason = _known(verdict.reason, Reason.ValidationFailed)
    return Objection(NodeState.VALIDATING, reason, verdict.message or reason.sentence, "a validation that passes")


def chips_are_healthy(view: View) -> Objection | None:
    """A sick chip is named, with what it reports."""
    assert view.found is not None, "asked after agent_has_reported"
    sick = [chip for chip in view.found.chips if not chip.is_healthy]
    if not sick:
        return None
    first = sick[0]
    what = first.message or (f"fault {', '.join(first.fault_codes)}" if first.fault_codes else "")
    word = "lost" if first.state == "Lost" else str(first.health)
    more = f" and {len(sick) - 1} more" if len(sick) > 1 else ""
    reason = Reason.ChipLost if first.state == "Lost" else Reason.ChipUnhealthy
    message = f"chip {first.id} is {word}{f' ({what})' if what else ''}{more}"
    return Objection(NodeState.DEGRADED, reason, message, "the chip to recover, or somebody to isolate it")


def chips_are_allocatable(view: View) -> Objection | None:
    """What the kubelet offers is what pods get; our own opinion does not count."""
    assert view.found is not None, "asked after agent_has_reported"
    offered = sum(chip.is_offered for chip in view.found.chips)
    if not view.spec.device_plugin.enabled or view.allocatable >= offered:
        return None
    assert view.chip is not None, "chips were found, so their family is known"
    resource = resource_name_for(view.spec, view.chip)
    message = f"{view.allocatable} of {offered} chips are allocatable as {resource}"
    return Objection(NodeState.PUBLISHING, Reason.ChipsNotAllocatable, message, "the device plugin and the kubelet")


Check = Callable[[View], Objection | None]
CHECKS: tuple[Check, ...] = (
    kubernetes_says_ready,
    agent_has_reported,
    pool_is_known,
    driver_is_loaded,
    chips_are_validated,
    chips_are_healthy,
    chips_are_allocatable,
    agents_can_work,
)
"""In the order in which a node comes to life; an objection hides the later ones."""


def first_objection(view: View) -> Objection | None:
    """What stands between the node and Ready; None when nothing does."""
    return next((no for check in CHECKS if (no := check(view)) is not None), None)


def _sign(
    node: Node, npu_node: NPUNode | None, found: Found | None, spec: Spec
) -> tuple[str | None, ChipFamily | None]:
    """What says that the node has an NPU. Our own labels never do: they would keep themselves alive."""
    label = signs.sign_of_npu(node.labels)
    if label is not None:
        return label.label, ChipFamily(label.chip) if label.chip is not None else None
    if spec.discovery is Discovery.AUTO:
        if found is not None and found.chips:
            return "the node agent sees chips", found.chip
        if npu_node is not None and names.LABEL_MANAGED_BY not in npu_node.metadata.labels:
            return "the discovery pod found a chip", npu_node.status.found.chip
    return None, None


def _labelled_chip(node: Node) -> ChipFamily | None:
    value = node.labels.get(names.CHIP)
    return ChipFamily(value) if value in set(ChipFamily) else None


def _has_host_driver(node: Node, found: Found | None) -> bool:
    if found is None or node.labels.get(names.DRIVER_MANAGED) == names.TRUE:
        return False
    return found.driver.managed_by is ManagedBy.HOST and found.driver.autoload


def _os(node: Node, found: Found | None) -> tuple[str, str]:
    """ID and VERSION_ID: the agent has read os-release itself, NFD is second best."""
    if found is not None and found.os_id:
        return found.os_id, found.os_version
    return node.labels.get(names.NFD_OS_ID, ""), node.labels.get(names.NFD_OS_VERSION, "")


def _pool(node: Node, found: Found | None, chip: ChipFamily | None) -> Pool | None:
    if chip is None or not node.kernel:
        return None
    os_id, os_version = _os(node, found)
    try:
        pool = pool_of(chip, node.kernel, os_id, os_version)
    except ValueError:
        return None
    # Without any word about the OS the rule's stand-in is no knowledge; an agent that has read os-release may use it.
    return None if pool.os == tags.DEFAULT_OS_ID and not os_id and found is None else pool


def _allocatable(node: Node, spec: Spec, chip: ChipFamily | None) -> int:
    return node.allocatable.get(resource_name_for(spec, chip), 0) if chip is not None else 0


def _known(word: str, otherwise: Reason) -> Reason:
    """An agent may be newer than we are and use a word that we do not know."""
    return Reason(word) if word in set(Reason) else otherwise
