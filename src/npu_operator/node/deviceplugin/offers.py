"""From the node's state to what the kubelet is told: which resource, which devices, how each of them is.

A chip that may not be handed out stays in the list as unhealthy, so that a node's capacity tells how many chips it has
and its allocatable how many it gives. Nothing here looks at the age of the state: an old one means the last health.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from npu_operator.model import names
from npu_operator.model.chips import ChipFamily, ChipState
from npu_operator.model.ctl import Injection
from npu_operator.node.state import NodeChip, NodeState

VALIDATION_DEVICE: Final = "validation"
ALL: Final = "all"
"""Name of the CDI device with all chips."""
ABSENT: Final = frozenset({ChipState.LOST, ChipState.PASSTHROUGH})
"""Chips whose device nodes are not there to be given."""


class Offer(msgspec.Struct, frozen=True):
    """A device as the kubelet hears of it."""

    id: str
    why_not: str = ""
    """Why pods may not get it, in words; empty: they may."""
    numa: int | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether pods may get it."""
        return not self.why_not


def chips(state: NodeState) -> tuple[Offer, ...]:
    """The node's chips."""
    return tuple(Offer(one.chip.id, why_not(one, state), one.chip.numa) for one in state.chips)


def validation(state: NodeState) -> tuple[Offer, ...]:
    """The device of the validator: there as long as there are chips, in service or not."""
    return (Offer(VALIDATION_DEVICE),) if state.chips else ()


def why_not(one: NodeChip, state: NodeState) -> str:
    """Why a chip is not given to pods; empty when it is."""
    chip = one.chip
    if chip.id in state.isolated or chip.state is ChipState.ISOLATED:
        return "it is isolated by spec.isolatedChips of the node's NPUNode"
    if not chip.is_healthy:
        is_lost = chip.state is ChipState.LOST
        return ("it does not answer" if is_lost else f"its health is {chip.health.value}") + _because(chip.message)
    if not chip.is_offered:
        return f"its state is {chip.state.value}"
    return "" if state.in_service else "the node is not in service"


def resource(state: NodeState, renamed: Mapping[ChipFamily, str]) -> str:
    """The resource that the node's chips are; empty when their family is not known."""
    try:
        family = ChipFamily(state.chip_family)
    except ValueError:
        return ""
    return renamed.get(family, names.RESOURCE_OF[family])


def cdi_name(one: NodeChip) -> str:
    """A chip's name in the CDI file: its physical id."""
    return one.chip.id.rpartition("-")[2]


# --- May the plugin register? Asked in order; the first answer that is not empty says what it waits for. ---


def _driver(state: NodeState, injection: Injection) -> str:
    if state.driver.loaded:
        return ""
    return f"no Ascend driver is loaded{_because(state.driver.message)}"


def _chips(state: NodeState, injection: Injection) -> str:
    if not state.chips:
        return "the node agent has found no chips"
    if not resource(state, {}):
        return f"chips of family {state.chip_family!r} are not known to this version"
    return ""


def _cdi(state: NodeState, injection: Injection) -> str:
    if injection is Injection.DEVICES:
        return ""
    if not state.cdi_devices:
        return f"there is no CDI file {names.CDI_FILE} of this boot"
    missing = [cdi_name(one) for one in state.chips if one.chip.is_offered and cdi_name(one) not in state.cdi_devices]
    return f"the CDI file {names.CDI_FILE} lacks {', '.join(missing)}" if missing else ""


def _runtime(state: NodeState, injection: Injection) -> str:
    if injection is Injection.DEVICES or state.runtime.configured:
        return ""
    return f"the container runtime does not take our settings yet{_because(state.runtime.message)}"


def _paths(state: NodeState, injection: Injection) -> str:
    if injection is not Injection.DEVICES or (state.shared_devices and state.mounts):
        return ""
    return "the node agent does not tell which devices and libraries a container needs"


GATES: Final[tuple[Callable[[NodeState, Injection], str], ...]] = (_driver, _chips, _cdi, _runtime, _paths)


def waits_for(state: NodeState, injection: Injection) -> str:
    """What keeps the plugin from registering, in words; empty when nothing does.

    Asked only before it registers. Afterwards a CDI file that is being rewritten, say, takes no chip from the kubelet.
    """
    return next((objection for gate in GATES if (objection := gate(state, injection))), "")


def _because(message: str) -> str:
    return f": {message}" if message else ""
