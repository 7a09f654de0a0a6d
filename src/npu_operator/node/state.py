"""`/run/ascend/npu-state.json`: what the node agent tells the other agents of its node.

One writer, many readers, no API server: the node agent replaces the file by an atomic rename, the others read it.
Readers of another version ignore fields they do not know and refuse a file whose `schema` is higher than theirs. A file
of another boot is as good as none. Stamps are CLOCK_BOOTTIME seconds, which no clock change can move.
"""

import msgspec

from npu_operator.model.npunode import Chip, DriverFound, RuntimeFound, Validation

SCHEMA = 1


class ChipUse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who uses a chip, from the kubelet's pod-resources."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    container_id: str = ""
    cann: str = ""


class ChipProcess(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A process of the host that uses a chip; `container_id` is empty when it belongs to no container."""

    pid: int
    memory_mib: float | None = None
    container_id: str = ""


class Readings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Numbers of one chip; None where the tool has none. Units are in the names."""

    power_w: float | None = None
    temperature_c: float | None = None
    voltage_v: float | None = None
    aicore_pct: float | None = None
    vector_pct: float | None = None
    cube_pct: float | None = None
    overall_pct: float | None = None
    frequency_mhz: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    hbm_used_mib: float | None = None
    hbm_total_mib: float | None = None
    hbm_temperature_c: float | None = None
    hbm_bandwidth_pct: float | None = None
    ecc_enabled: bool | None = None
    ecc_single: int | None = None
    ecc_double: int | None = None
    ecc_single_total: int | None = None
    """Over the chip's life, as are the isolated pages."""
    ecc_double_total: int | None = None
    isolated_pages_single: int | None = None
    isolated_pages_double: int | None = None
    link_up: bool | None = None
    link_speed_mbps: float | None = None
    network_healthy: bool | None = None
    optical_present: bool | None = None
    optical_voltage_mv: float | None = None
    optical_temperature_c: float | None = None
    optical_tx_power_mw: tuple[float, ...] = ()
    """By lane, at most four."""
    optical_rx_power_mw: tuple[float, ...] = ()
    processes: int | None = None
    read_at_s: dict[str, float] = {}
    """When each metric group was read last, in CLOCK_BOOTTIME seconds; a group that fails keeps its old stamp. The
    groups are those of `npu_operator.node.exporter.groups`."""


class NodeChip(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One chip as the agents need it: what `NPUNode` shows, plus numbers, users and neighbours."""

    chip: Chip
    readings: Readings = Readings()
    users: tuple[ChipUse, ...] = ()
    running: tuple[ChipProcess, ...] = ()
    vdie_id: str = ""
    """Number burnt into the die, as the tool prints it; empty when not known."""
    package: str = ""
    """Chips with the same word sit in one package or card (A3 dies, Duo pairs); empty: alone."""
    ring: str = ""
    """Chips with the same word are joined by HCCS directly (910A rings of four); empty: not known."""
    device: str = ""
    """Device node on the host, e.g. `/dev/davinci3`."""
    health_since_s: float = 0.0


class SharedPath(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A device node, file or directory that every container with a chip gets: where it is on the host, where inside."""

    host: str
    container: str


class PortAddress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the network port of a chip had before the reboot that loaded this driver."""

    physical: int
    address: str
    link_up: bool = True


class NodeState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole file."""

    schema: int = SCHEMA
    node: str = ""
    boot_id: str = ""
    written_at_s: float = 0.0
    """CLOCK_BOOTTIME seconds of the last probe that gave an answer; readers work out the age from it."""
    chip_family: str = ""
    chips: tuple[NodeChip, ...] = ()
    in_service: bool = False
    """Whether chips may be offered to pods; health is another matter."""
    driver: DriverFound = DriverFound()
    cdi_devices: tuple[str, ...] = ()
    """Names in the CDI file of this boot; empty while there is none."""
    shared_devices: tuple[SharedPath, ...] = ()
    """Device nodes besides the chips' own that the CDI file gives to each container, for injection `Devices`."""
    mounts: tuple[SharedPath, ...] = ()
    """What the CDI file mounts read-only into each container, for injection `Devices`."""
    runtime: RuntimeFound = RuntimeFound()
    validation: Validation = Validation()
    addresses: tuple[PortAddress, ...] = ()
    """What the validator must find again on the chips' network ports; empty: nothing to compare."""
    probe_paused: bool = False
    """True while the node agent keeps its hands off the chips, so that the validator can open them."""
    upgrade_state: str = ""
    attempt: str = ""
    """The attempt record of the Node, as JSON, for the rebooter; empty: none."""
    isolated: tuple[str, ...] = ()
    topology: tuple[tuple[str, ...], ...] = ()
    """Relation of chip i to chip j as the tool words it (`HCCS`, `PIX`, …), in the order of `chips`; empty: not known.
    """


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(NodeState).decode
"""Raises `msgspec.DecodeError` for a file that is half-written or no state file."""
