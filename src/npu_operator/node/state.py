"""`/run/ascend/npu-state.json`: what the node agent tells the other agents of its node.

One writer, many readers, no API server: the node agent replaces the file by an atomic rename, the others read it. Readers of
another version ignore fields they do not know and refuse a file whose `schema` is higher than theirs. A file of another
boot is as good as none. Stamps are CLOCK_BOOTTIME seconds, which no clock change can move.
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


class Readings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Numbers of one chip; None where the tool has none. Units are in the names."""

    power_w: float | None = None
    temperature_c: float | None = None
    voltage_v: float | None = None
    aicore_pct: float | None = None
    vector_pct: float | None = None
    overall_pct: float | None = None
    frequency_mhz: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    hbm_used_mib: float | None = None
    hbm_total_mib: float | None = None
    hbm_temperature_c: float | None = None
    ecc_single: int | None = None
    ecc_double: int | None = None
    link_up: bool | None = None
    network_healthy: bool | None = None
    processes: int | None = None
    read_at_s: dict[str, float] = {}
    """When each metric group was read last, in CLOCK_BOOTTIME seconds; a group that fails keeps its old stamp."""


class NodeChip(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One chip as the agents need it: what `NPUNode` shows, plus numbers, users and neighbours."""

    chip: Chip
    readings: Readings = Readings()
    users: tuple[ChipUse, ...] = ()
    package: str = ""
    """Chips with the same word sit in one package or card (A3 dies, Duo pairs); empty: alone."""
    ring: str = ""
    """Chips with the same word are joined by HCCS directly (910A rings of four); empty: not known."""
    device: str = ""
    """Device node on the host, e.g. `/dev/davinci3`."""
    health_since_s: float = 0.0


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
    runtime: RuntimeFound = RuntimeFound()
    validation: Validation = Validation()
    probe_paused: bool = False
    """True while the node agent keeps its hands off the chips, so that the validator can open them."""
    upgrade_state: str = ""
    attempt: str = ""
    """The attempt record of the Node, as JSON, for the rebooter; empty: none."""
    isolated: tuple[str, ...] = ()
    topology: tuple[tuple[str, ...], ...] = ()
    """Relation of chip i to chip j as the tool words it (`HCCS`, `PIX`, …), in the order of `chips`; empty: not known."""


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(NodeState).decode
"""Raises `msgspec.DecodeError` for a file that is half-written or no state file."""
