"""States of made-up nodes for the tests of the agents that read them; a test names only what it is about."""

from pathlib import Path
from typing import Any

import msgspec

from npu_operator.model.chips import ChipFamily
from npu_operator.model.names import DEVICE_ID_PREFIX
from npu_operator.model.npunode import Chip, DriverFound, ManagedBy, RuntimeFound
from npu_operator.node import state
from npu_operator.node.state import NodeChip, NodeState, SharedPath

BOOT = "8d1f6e2a-7c3b-4f0e-9a54-1c2d3e4f5a6b"
OTHER_BOOT = "11111111-2222-3333-4444-555555555555"
VERSION = "25.5.0"
DIGEST = "0123456789ab"


def a_chip(number: int, family: ChipFamily = ChipFamily.ASCEND_910B, **about: Any) -> NodeChip:
    """A chip as the node agent tells of it. Fields of `Chip` and of `NodeChip` may be named alike."""
    of_node_chip = {name: value for name, value in about.items() if name in NodeChip.__struct_fields__}
    of_chip = {name: value for name, value in about.items() if name not in of_node_chip}
    usual: dict[str, Any] = {
        "id": f"{DEVICE_ID_PREFIX[family]}{number}",
        "model": "910B3",
        "physical": number,
        "logic": number,
        "card": number,
        "bus": f"0000:{0xC1 + number:02X}:00.0",
        "numa": number // 2,
        "memory_mib": 65536,
    }
    return NodeChip(chip=Chip(**{**usual, **of_chip}), device=f"/dev/davinci{number}", **of_node_chip)


def a_state(*chips: NodeChip, count: int = 8, family: ChipFamily = ChipFamily.ASCEND_910B, **about: Any) -> NodeState:
    """A node whose driver is loaded, whose runtime is set up, and which is in service."""
    usual: dict[str, Any] = {
        "node": "a7",
        "boot_id": BOOT,
        "chip_family": family,
        "chips": chips or tuple(a_chip(number, family) for number in range(count)),
        "in_service": True,
        "driver": DriverFound(
            version=VERSION, digest=DIGEST, managed_by=ManagedBy.OPERATOR, loaded=True, device_count=count
        ),
        "runtime": RuntimeFound(name="containerd", version="2.2.9", handler="runc", configured=True),
        "shared_devices": (
            SharedPath(host="/dev/davinci_manager_docker", container="/dev/davinci_manager"),
            SharedPath(host="/dev/devmm_svm", container="/dev/devmm_svm"),
            SharedPath(host="/dev/hisi_hdc", container="/dev/hisi_hdc"),
        ),
        "mounts": (SharedPath(host="/var/lib/Ascend/driver/lib64", container="/usr/local/Ascend/driver/lib64"),),
    }
    found = NodeState(**{**usual, **about})
    if "cdi_devices" in about:
        return found
    return msgspec.structs.replace(found, cdi_devices=(*(str(one.chip.physical) for one in found.chips), "all"))


def write(path: Path, content: NodeState | bytes) -> None:
    """Replace the state file in one step, as the node agent does."""
    beside = path.with_suffix(".tmp")
    beside.write_bytes(content if isinstance(content, bytes) else state.encode(content))
    beside.rename(path)
