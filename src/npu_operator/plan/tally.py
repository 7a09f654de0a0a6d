"""The fleet in numbers, kept by difference: a changed node costs a subtraction and an addition, whatever the size."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

from npu_operator.components.pools import Pool
from npu_operator.model.reasons import Reason
from npu_operator.plan.verdict import Verdict

Key = TypeVar("Key")


class Tally:
    """Verdicts by node, and the sums over them. `put` and `drop` are the only ways to change it."""

    def __init__(self) -> None:
        self._verdicts: dict[str, Verdict] = {}
        self.npu_nodes = 0
        self.ready = 0
        self.chips = 0
        self.allocatable = 0
        self.unhealthy = 0
        self.pools: Counter[Pool] = Counter()
        """Nodes by pool."""
        self.states: Counter[str] = Counter()
        self.nodes_by_reason: defaultdict[Reason, set[str]] = defaultdict(set)
        """Names of NPU nodes that are not ready, by the reason."""
        self.out_of_sync = 0
        """Nodes whose loaded driver is not the wanted one."""
        self.host_drivers: set[str] = set()
        self.orphaned_drivers: set[str] = set()
        """Nodes that run a driver that we loaded although the driver is switched off."""
        self.handlers: Counter[str] = Counter()
        """NPU nodes by the handler that their runtime knows for RuntimeClass `ascend`."""

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """What is known of each node, also of those without an NPU."""
        return self._verdicts

    def put(self, verdict: Verdict) -> None:
        """Replace what was known of this node."""
        self.drop(verdict.node)
        self._verdicts[verdict.node] = verdict
        self._count(verdict, +1)

    def drop(self, node: str) -> None:
        """Forget a node; a node that is not known is no error."""
        old = self._verdicts.pop(node, None)
        if old is not None:
            self._count(old, -1)

    def first_nodes(self, reasons: Iterable[Reason], at_most: int = 3) -> list[Verdict]:
        """The verdicts of the first few nodes, by name, that are not ready for one of these reasons."""
        names = set().union(*(self.nodes_by_reason.get(reason, set()) for reason in reasons))
        return [self._verdicts[name] for name in sorted(names)[:at_most]]

    def _count(self, verdict: Verdict, by: int) -> None:
        if not verdict.has_npu:
            return
        self.npu_nodes += by
        self.ready += by * verdict.is_ready
        self.chips += by * verdict.chips
        self.allocatable += by * verdict.allocatable
        self.unhealthy += by * verdict.unhealthy
        self.out_of_sync += by * (not verdict.in_sync)
        _add(self.states, verdict.state, by)
        _include(self.host_drivers, verdict.node, by > 0 and verdict.has_host_driver)
        _include(self.orphaned_drivers, verdict.node, by > 0 and verdict.has_our_driver_unwanted)
        if verdict.pool is not None:
            _add(self.pools, verdict.pool, by)
        if verdict.runtime_handler:
            _add(self.handlers, verdict.runtime_handler, by)
        if not verdict.is_ready:
            _include(self.nodes_by_reason[verdict.reason], verdict.node, by > 0)


def _add(counter: Counter[Key], key: Key, by: int) -> None:
    counter[key] += by
    if counter[key] == 0:
        del counter[key]


def _include(members: set[str], name: str, belongs: bool) -> None:
    if belongs:
        members.add(name)
    else:
        members.discard(name)
