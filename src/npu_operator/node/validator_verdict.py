"""What the validator has to try, what it found, and what that means. Pure.

A container with all chips must be able to open them, find the libraries, and get an answer of `npu-smi` that tells of
the same chips and the same driver as the node agent does; and where the chips had network addresses before the reboot,
they must have them again. A chip that is busy is in use and has not failed. The health of a chip is not asked for: a
sick chip is taken out by itself, and says nothing against the driver. Source: product.md §3 and §4.15.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

import msgspec

from npu_operator.ascend import versions
from npu_operator.ascend.smi import reader
from npu_operator.ascend.smi.readings import ErrorKind, InfoTable
from npu_operator.model import names
from npu_operator.model.chips import ChipState
from npu_operator.model.npunode import Validation
from npu_operator.model.reasons import Reason
from npu_operator.node.state import NodeState, PortAddress

MANAGER: Final = "/dev/davinci_manager"
LIBRARIES: Final[dict[str, tuple[str, ...]]] = {
    "libascend_hal.so": tuple(f"{names.CONTAINER_DRIVER}/lib64{part}" for part in ("/driver", "", "/common")),
    "libdcmi.so": (names.CONTAINER_DCMI, f"{names.CONTAINER_DRIVER}/lib64/driver", f"{names.CONTAINER_DRIVER}/lib64"),
}
"""Library → where vendor images look for it; it must lie in one of them."""
NOT_THERE: Final = frozenset({ChipState.LOST, ChipState.PASSTHROUGH})


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a container with all chips must be able to do."""

    chips: tuple[int, ...]
    """Physical ids of the chips that are there."""
    devices: tuple[str, ...]
    """Device nodes, by their paths in the container."""
    version: str
    addresses: tuple[PortAddress, ...] = ()


class Opened(StrEnum):
    """How opening a device went."""

    OPENED = "opened"
    BUSY = "busy"
    FAILED = "failed"


class DeviceTried(msgspec.Struct, frozen=True):
    """One device node."""

    path: str
    how: Opened
    error: str = ""


class ToolTried(msgspec.Struct, frozen=True):
    """One run of a vendor's tool. `error` says why it could not be started; empty when it could."""

    out: str = ""
    code: int = 0
    timed_out: bool = False
    error: str = ""


class PortTried(msgspec.Struct, frozen=True):
    """The network port of a chip; None where the tool does not tell."""

    physical: int
    address: str | None = None
    link_up: bool | None = None
    error: str = ""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in the container."""

    devices: tuple[DeviceTried, ...] = ()
    libraries: dict[str, str] = {}
    """Library → where it was found; one that is missing is not in it."""
    tree_version: str = ""
    """Of `version.info`; empty when there is none."""
    npu_smi: ToolTried = ToolTried()
    ports: tuple[PortTried, ...] = ()


class Complaint(msgspec.Struct, frozen=True):
    """Something that does not work."""

    reason: Reason
    message: str


class Inconclusive(Exception):
    """Somebody uses the chips, so nothing can be proved now; the text says how that shows. To be tried again."""


def wanted(state: NodeState) -> Wanted:
    """What this node promises its containers."""
    chips = [one for one in state.chips if one.chip.state not in NOT_THERE]
    numbers = tuple(int(one.chip.id.rpartition("-")[2]) for one in chips)
    shared = [path.container for path in state.shared_devices if path.container != MANAGER]
    return Wanted(
        chips=numbers,
        devices=(MANAGER, *shared, *(device_of(number) for number in numbers)),
        version=state.driver.version,
        addresses=state.addresses,
    )


def device_of(number: int) -> str:
    """The device node of a chip, by its physical id."""
    return f"/dev/davinci{number}"


def judge(asked: Wanted, tried: Tried) -> tuple[Complaint, ...]:
    """All that does not work, the cause before its effects; empty: passed. Raises `Inconclusive`."""
    table = reader.read(tried.npu_smi.out)
    error = table.error
    if error is not None and error.kind is ErrorKind.DEVICE_OCCUPIED:
        raise Inconclusive(f"npu-smi says that the chips are in use: {error.text}")
    return tuple(complaint for check in CHECKS for complaint in check(asked, tried))


def validation(state: NodeState, tried: Tried, complaints: Iterable[Complaint]) -> Validation:
    """The verdict as `NPUNode` shows it, for the boot and the driver that it is about."""
    found = tuple(complaints)
    chips = {device_of(number) for number in wanted(state).chips}
    return Validation(
        passed=not found,
        boot_id=state.boot_id,
        version=state.driver.version,
        digest=state.driver.digest,
        chips=sum(device.path in chips and device.how is Opened.OPENED for device in tried.devices),
        reason=found[0].reason if found else "",
        message="; ".join(complaint.message for complaint in found),
    )


def _devices(asked: Wanted, tried: Tried) -> Iterable[Complaint]:
    for device in tried.devices:
        if device.how is Opened.FAILED:
            yield Complaint(Reason.ValidationFailed, f"cannot open {device.path}: {device.error}")


def _libraries(asked: Wanted, tried: Tried) -> Iterable[Complaint]:
    for name, places in LIBRARIES.items():
        if name not in tried.libraries:
            yield Complaint(Reason.ValidationFailed, f"{name} is in none of {', '.join(places)}")


def _tool(asked: Wanted, tried: Tried) -> Iterable[Complaint]:
    ran = tried.npu_smi
    if ran.timed_out:
        yield Complaint(Reason.ToolWedged, "npu-smi did not answer in time")
    elif ran.error:
        yield Complaint(Reason.ValidationFailed, f"{names.CONTAINER_NPU_SMI} cannot be run: {ran.error}")
    elif (error := reader.read(ran.out).error) is not None:
        yield Complaint(Reason.ValidationFailed, f"npu-smi says: {error.text} (exit status {ran.code})")


def _count(asked: Wanted, tried: Tried) -> Iterable[Complaint]:
    table = _table(tried)
    if table is None:
        return
    answering = sum(chip.answers for chip in table.chips)
    if answering != len(asked.chips):
        yield Complaint(
            Reason.ChipLost,
            f"npu-smi tells of {answering} chips that answer, the node agent of {len(asked.chips)}",
        )


def _version(asked: Wanted, tried: Tried) -> Iterable[Complaint]:
    table = _table(tried)
    by_source = {
        "npu-smi": "" if table is None else table.driver_version or "",
        f"{names.CONTAINER_DRIVER}/version.info": tried.tree_version,
    }
    for source, found in by_source.items():
        if found and not _same(found, asked.version):
            yield Complaint(
                Reason.ValidationFailed, f"{source} names driver {found}, the one that is loaded is {asked.version}"
            )
    if not tried.tree_version:
        yield Complaint(
            Reason.ValidationFailed, f"{names.CONTAINER_DRIVER}/version.info is missing or names no version"
        )


def _addresses(asked: Wanted, tried: Tried) -> Iterable[Complaint]:
    by_chip = {port.physical: port for port in tried.ports}
    for before in asked.addresses:
        now = by_chip.get(before.physical, PortTried(before.physical))
        if now.address != before.address:
            has = f"has {now.address}" if now.address else "has none" + (f" ({now.error})" if now.error else "")
            yield Complaint(
                Reason.HccnAddressLost, f"chip {before.physical} had network address {before.address} and {has}"
            )


def _links(asked: Wanted, tried: Tried) -> Iterable[Complaint]:
    by_chip = {port.physical: port for port in tried.ports}
    for before in asked.addresses:
        now = by_chip.get(before.physical)
        if before.link_up and now is not None and now.link_up is False:
            yield Complaint(Reason.HccnLinkDown, f"the network port of chip {before.physical} has no link")


CHECKS: Final[tuple[Callable[[Wanted, Tried], Iterable[Complaint]], ...]] = (
    _devices,
    _libraries,
    _tool,
    _count,
    _version,
    _addresses,
    _links,
)


def _table(tried: Tried) -> InfoTable | None:
    """What npu-smi told of the chips; None when it told an error instead."""
    read = reader.read(tried.npu_smi.out)
    return read if isinstance(read, InfoTable) and read.error is None else None


def _same(one: str, other: str) -> bool:
    """Two spellings of one version: `25.3.RC1` and `25.3.rc1`."""
    read, known = versions.try_parse(one), versions.try_parse(other)
    return read == known if read is not None and known is not None else one.casefold() == other.casefold()
