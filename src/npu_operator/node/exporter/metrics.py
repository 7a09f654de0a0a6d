"""From one look at the state file to what Prometheus reads. Pure: the same state and time give the same text.

There are two pages. The main one has everything and nothing that `promtool check metrics` frowns at. Three metrics of
MindCluster have labels in camelCase, which it does; they are a page of their own, for dashboards that join them.

Absent rather than old: a number is left out when its metric group was read too long ago, and everything about chips
when the node agent has been silent. No time stamps go with the numbers, since a stuck exporter would then look fresh.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

import npu_operator
from npu_operator.model.chips import ChipHealth, ChipState
from npu_operator.node.exporter import labels
from npu_operator.node.exporter.groups import BELIEVED_S, Group
from npu_operator.node.exporter.series import ROWS, Row
from npu_operator.node.reader import Seen
from npu_operator.node.state import NodeChip, NodeState

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MOST_ERROR_CODES: Final = 10  # the names that MindCluster has for them

Samples = Iterable[tuple[labels.Values, float]]


def text(seen: Seen, now_s: float) -> str:
    """The answer to one scrape at `now_s`, in CLOCK_BOOTTIME seconds."""
    return _page(_metrics(seen, now_s))


def mindcluster_text(seen: Seen) -> str:
    """The page of the metrics whose labels MindCluster writes in camelCase."""
    return _page(_camel_case(seen))


def _page(metrics: Iterator[Metric]) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(metrics))
    return generate_latest(registry).decode()


class _Once(Collector):
    """A collector for one scrape: all metrics that have a sample."""

    def __init__(self, metrics: Iterator[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """The metrics, in their order."""
        yield from (metric for metric in self._metrics if metric.samples)


def _metrics(seen: Seen, now_s: float) -> Iterator[Metric]:
    yield from _exporter(seen)
    if seen.state is None or seen.is_stale:
        return
    yield from _node(seen.state)
    yield from _health(seen.state, now_s)
    yield from _identity(seen.state)
    yield from _users(seen.state, now_s)
    yield from (_numbers(row, seen.state, now_s) for row in ROWS)


def _camel_case(seen: Seen) -> Iterator[Metric]:
    version = npu_operator.__version__
    yield _info("npu_exporter_version_info", "Version of the exporter.", exporterVersion=version)
    if seen.state is None or seen.is_stale:
        return
    driver = seen.state.driver.version
    yield _info("node_base_info", "Versions of exporter and driver.", exporterVersion=version, driverVersion=driver)
    yield _gauge(
        "npu_container_info",
        "Which container has which chip.",
        ("npuID", *labels.CHIP[1:], "containerID", "containerName"),
        (
            ((*labels.used_chip(one, use), use.container_id, labels.container(use)), 1)
            for one in seen.state.chips
            for use in one.users
        ),
    )


def _exporter(seen: Seen) -> Iterator[Metric]:
    yield _info("ascend_npu_exporter_info", "Version of the exporter.", version=npu_operator.__version__)
    usable = seen.state is not None and not seen.problem
    yield _single("npu_state_usable", "Whether the state file of this boot can be read, 1 or 0.", usable)
    if seen.age_s is not None:
        yield _single("npu_state_age_seconds", "Time since the last probe that told of the chips.", seen.age_s)


def _node(state: NodeState) -> Iterator[Metric]:
    """Dies are counted once, however they are split. A lost chip is not on the machine, as far as one can see."""
    there = {one.vdie_id or one.chip.id: one for one in state.chips if one.chip.state is not ChipState.LOST}
    counts = Counter(_health_word(one) for one in there.values())
    yield _single("machine_npu_nums", "Chips that were found on the node.", len(there))
    yield _single("machine_healthy_npu_nums", "Of them those that are healthy.", counts[1])
    yield _single("machine_unhealthy_npu_nums", "Of them those that are not.", counts[0])
    yield _single("machine_unknown_npu_nums", "Of them those whose health is not known.", counts[-1])
    yield _single("ascend_npu_in_service", "Whether the node's chips may be given to pods, 1 or 0.", state.in_service)
    yield _info("ascend_npu_driver_info", "Version of the driver that is loaded.", version=state.driver.version)


def _health(state: NodeState, now_s: float) -> Iterator[Metric]:
    """Health is what every probe brings, so it is as old as the state; fault codes have a group of their own."""
    chips = state.chips
    yield _gauge(
        "npu_chip_info_health_status",
        "Health: 1 healthy, 0 unhealthy, -1 not known.",
        labels.CHIP,
        ((labels.chip(one), _health_word(one)) for one in chips),
    )
    yield _gauge(
        "ascend_npu_healthy",
        "Whether the chip can work, 1 or 0.",
        labels.DEVICE,
        ((labels.device(one), one.chip.is_healthy) for one in chips),
    )
    known = [(one, _error_codes(one)) for one in chips if _is_fresh(one, Group.HEALTH, now_s)]
    yield _gauge(
        "ascend_npu_fault_codes",
        "How many fault codes stand.",
        labels.DEVICE,
        ((labels.device(one), len(codes)) for one, codes in known),
    )
    yield _gauge(
        "npu_chip_info_error_code",
        "A fault code that stands, in decimal; 0 when there is none.",
        labels.CHIP,
        ((labels.chip(one), codes[0] if codes else 0) for one, codes in known),
    )
    for place in range(1, MOST_ERROR_CODES):
        yield _gauge(
            f"npu_chip_info_error_code_{place}",
            "A further fault code that stands, in decimal.",
            labels.CHIP,
            ((labels.chip(one), codes[place]) for one, codes in known if place < len(codes)),
        )


def _identity(state: NodeState) -> Iterator[Metric]:
    chips = state.chips
    yield _gauge(
        "npu_chip_info_name",
        "Name of the chip.",
        ("id", "name", *labels.CHIP[2:]),
        ((labels.chip(one), 1) for one in chips),
    )
    yield _gauge(
        "npu_chip_info_serial_number",
        "Serial number of the chip's board.",
        (*labels.CHIP, "serial_number"),
        (((*labels.chip(one), one.chip.serial), 1) for one in chips if one.chip.serial),
    )
    yield _gauge(
        "ascend_npu_info",
        "What the chip is.",
        ("device", "model", "pci_bus", "numa_node", "vdie_id"),
        (((one.chip.id, one.chip.model, one.chip.bus, _or_empty(one.chip.numa), labels.vdie(one)), 1) for one in chips),
    )


def _users(state: NodeState, now_s: float) -> Iterator[Metric]:
    yield _gauge(
        "ascend_npu_container",
        "Which container has which chip.",
        ("device", "namespace", "pod", "container"),
        (((one.chip.id, use.namespace, use.pod, use.container), 1) for one in state.chips for use in one.users),
    )
    yield _gauge(
        "npu_chip_info_process_info",
        "Memory of a process on the chip, in MB; its container_id is empty when it runs on the host.",
        (*labels.CHIP, "process_id", "container_id"),
        _processes(state, now_s),
    )


def _processes(state: NodeState, now_s: float) -> Samples:
    for one in state.chips:
        by_container = {use.container_id: use for use in one.users if use.container_id}
        for process in one.running if _is_fresh(one, Group.TABLE, now_s) else ():
            use = by_container.get(process.container_id, labels.NOBODY)
            named = (*labels.used_chip(one, use)[:-1], labels.container(use))
            if process.memory_mib is not None:
                yield (*named, str(process.pid), process.container_id), process.memory_mib


def _numbers(row: Row, state: NodeState, now_s: float) -> Metric:
    """One row of the table for all chips: by device, by chip, or by container that uses a chip."""
    fresh = ((one, row.value(one.readings)) for one in state.chips if _is_fresh(one, row.group, now_s))
    known = [(one, value) for one, value in fresh if value is not None]
    if row.name.startswith("ascend_npu_"):
        return _gauge(row.name, row.help, labels.DEVICE, ((labels.device(one), value) for one, value in known))
    if row.name.startswith("container_npu_"):
        used = ((labels.used_chip(one, use), value) for one, value in known for use in one.users)
        return _gauge(row.name, row.help, labels.CHIP, used)
    return _gauge(row.name, row.help, labels.CHIP, ((labels.chip(one), value) for one, value in known))


def _is_fresh(one: NodeChip, group: Group, now_s: float) -> bool:
    read_at_s = one.readings.read_at_s.get(group)
    return read_at_s is not None and now_s - read_at_s <= BELIEVED_S[group]


def _health_word(one: NodeChip) -> int:
    if one.chip.health is ChipHealth.UNKNOWN and one.chip.state is not ChipState.LOST:
        return -1
    return int(one.chip.is_healthy)


def _error_codes(one: NodeChip) -> list[int]:
    """In decimal. A code that is no hex number, which no tool has printed so far, is left out."""
    codes = []
    for code in one.chip.fault_codes:
        try:
            codes.append(int(code, 16))
        except ValueError:
            continue
    return codes


def _or_empty(number: int | None) -> str:
    return "" if number is None else str(number)


def _gauge(name: str, told: str, names: labels.Values, samples: Samples) -> Metric:
    family = GaugeMetricFamily(name, told, labels=names)
    for values, value in samples:
        family.add_metric(values, float(value))
    return family


def _single(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(name, told, value=float(value))


def _info(name: str, told: str, **about: str) -> Metric:
    return _gauge(name, told, tuple(about), [(tuple(about.values()), 1)])
