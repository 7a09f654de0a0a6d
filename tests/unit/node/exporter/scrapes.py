"""Scrapes of a made-up node, as Prometheus understands them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from npu_operator.model.npunode import DriverFound
from npu_operator.node.exporter import metrics
from npu_operator.node.exporter.groups import Group
from npu_operator.node.reader import Seen
from npu_operator.node.state import ChipProcess, ChipUse, NodeChip, NodeState, Readings
from tests.unit.node.states import VERSION, a_chip, a_state

NOW_S = 10_000.0
FULL = Readings(
    power_w=97.5,
    temperature_c=41,
    voltage_v=0.9,
    aicore_pct=35,
    vector_pct=12,
    cube_pct=8,
    overall_pct=40,
    frequency_mhz=1800,
    memory_used_mib=0,
    memory_total_mib=0,
    hbm_used_mib=16384,
    hbm_total_mib=65536,
    hbm_temperature_c=44,
    hbm_bandwidth_pct=3,
    ecc_enabled=True,
    ecc_single=2,
    ecc_double=0,
    ecc_single_total=7,
    ecc_double_total=1,
    isolated_pages_single=0,
    isolated_pages_double=1,
    link_up=True,
    link_speed_mbps=200_000,
    network_healthy=False,
    optical_present=True,
    optical_voltage_mv=3299.1,
    optical_temperature_c=48,
    optical_tx_power_mw=(1.1, 1.2, 1.3, 1.4),
    optical_rx_power_mw=(0.9, 0.8),
    processes=1,
    read_at_s=dict.fromkeys(Group, NOW_S - 1),
)
USE = ChipUse(namespace="ml", pod="train-0", container="main", container_id="c0ffee")


def a_measured_chip(number: int = 0, **about: Any) -> NodeChip:
    """A chip with every number, held by one container."""
    usual = {
        "readings": FULL,
        "users": (USE,),
        "running": (ChipProcess(pid=4711, memory_mib=15000, container_id="c0ffee"),),
        "vdie_id": "00000000 00000001 00000002 00000003 0000000A",
        "serial": "SN0001",
    }
    return a_chip(number, **{**usual, **about})


def readings(**about: Any) -> Readings:
    """`FULL`, but for what is named."""
    return msgspec.structs.replace(FULL, **about)


def text_of(state: NodeState | None, *, problem: str = "", age_s: float | None = 1.0) -> str:
    """What a scrape says."""
    return metrics.text(Seen(state, problem, None if state is None else age_s), NOW_S)


def mindcluster_text_of(state: NodeState) -> str:
    """What a scrape of the other page says."""
    return metrics.mindcluster_text(Seen(state, "", 1.0))


def a_measured_state(*chips: NodeChip, **about: Any) -> NodeState:
    """A node with the chips given, or one."""
    driver = DriverFound(version=VERSION, loaded=True)
    return a_state(*(chips or (a_measured_chip(),)), **{"driver": driver, **about})


def samples(text: str) -> dict[str, list[tuple[Mapping[str, str], float]]]:
    """Name → (labels, value) of each sample; nothing has a time stamp."""
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.timestamp is None
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def values(text: str, name: str) -> list[float]:
    """The values of one metric, in the order printed; empty when it is absent."""
    return [value for _, value in samples(text).get(name, [])]
