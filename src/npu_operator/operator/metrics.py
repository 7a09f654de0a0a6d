"""What the operator tells Prometheus about itself, read from the live state at each scrape: nothing is kept in step.

Series exist from the start, at zero, so that "none" and "gone" are different.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from npu_operator.kube.calls import Calls
from npu_operator.operator.loop import Operator
from npu_operator.plan.verdict import NodeState

CALL = ("verb", "resource", "code")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class OperatorMetrics(Collector):
    """A collector over one operator process."""

    def __init__(self, operator: Operator, calls: Calls, *, is_leader: Callable[[], bool]) -> None:
        self._operator = operator
        self._calls = calls
        self._is_leader = is_leader

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        tally, writer = self._operator.planner.tally, self._operator.writer
        waiting = len(self._operator.queue)
        yield GaugeMetricFamily("npu_operator_leader", "1 while this replica leads.", value=self._is_leader())
        nodes = GaugeMetricFamily("npu_operator_nodes", "NPU nodes by state.", labels=["state"])
        for state in NodeState:
            if state is not NodeState.NONE:
                nodes.add_metric([state], tally.states[state])
        yield nodes
        yield GaugeMetricFamily("npu_operator_npus", "Chips found.", value=tally.chips)
        yield GaugeMetricFamily("npu_operator_npus_allocatable", "Chips offered to pods.", value=tally.allocatable)
        yield GaugeMetricFamily("npu_operator_npus_unhealthy", "Chips that are sick or lost.", value=tally.unhealthy)
        yield GaugeMetricFamily("npu_operator_queue_length", "Keys that wait to be planned.", value=waiting)
        yield GaugeMetricFamily("npu_operator_writes_pending", "Writes not carried out yet.", value=writer.pending)
        yield CounterMetricFamily("npu_operator_reconciles", "Plans made.", value=self._operator.rounds)
        yield CounterMetricFamily(
            "npu_operator_reconcile_seconds", "Time spent planning, in seconds.", value=self._operator.planning_s
        )
        calls = CounterMetricFamily(
            "npu_operator_api_calls", "Requests to the API server.", labels=["verb", "resource", "code"]
        )
        for call, count in self._calls:
            calls.add_metric([call.verb, call.resource, str(call.code)], count)
        yield calls


def text(collector: OperatorMetrics) -> str:
    """The exposition of one scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry).decode()
