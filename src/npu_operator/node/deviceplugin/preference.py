"""Which free chips a container should get: near to each other, and so that what is left is near to each other as well.

How far two chips are apart is one number: same package or card (the dies of an A3, the pair of a Duo card), same HCCS
ring (910A: rings of four), then what the tool's topology says. The cost of a choice is the sum over its pairs, and
between equal sums the sum over the pairs that stay free. So two dies come from one package, four 910A chips from one
ring, and a single chip from the package or ring that is broken already. Between choices that are equally wired the
pairs across NUMA nodes are counted, first among the chosen, then among the rest; which chips an A2 mesh gives is
decided there. Among equal choices the chips that come first on the node win.

The search is exact: branches are cut only where no better choice can follow. On a node with more than `EXACT` chips a
search that grows beyond `MOST_STEPS` ends with the best that was found.
"""

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from npu_operator.ascend.topology import DISTANCE, FARTHEST
from npu_operator.node.state import NodeChip, NodeState

EXACT: Final = 16
"""Chips (dies) of the largest node with a driver of its own: an A3 with eight packages."""
MOST_STEPS: Final = 1 << EXACT  # all the sets there are on such a node
IN_ONE_PACKAGE: Final = DISTANCE["SIO"]
IN_ONE_RING: Final = DISTANCE["HCCS"]
ON_ONE_NUMA_NODE: Final = DISTANCE["PHB"]
ACROSS_NUMA_NODES: Final = DISTANCE["SYS"]

Cost = tuple[int, int, int, int]
Matrix = tuple[tuple[int, ...], ...]


class Distances(msgspec.Struct, frozen=True):
    """How the chips of a node lie to each other; rows and columns in the order of `ids`."""

    ids: tuple[str, ...] = ()
    wires: Matrix = ()
    """How far two chips are apart, 0 (the same) to `FARTHEST`."""
    crossings: Matrix = ()
    """1 where two chips lie on different NUMA nodes."""

    def among(self, ids: Sequence[str]) -> tuple[Matrix, Matrix]:
        """Both matrices for some chips; an id that the node does not know is far from all."""
        at = {name: index for index, name in enumerate(self.ids)}

        def part(of: Matrix, otherwise: int) -> Matrix:
            return tuple(
                tuple(of[at[one]][at[other]] if one in at and other in at else otherwise for other in ids)
                for one in ids
            )

        return part(self.wires, FARTHEST), part(self.crossings, 0)

    def in_order(self, ids: Iterable[str]) -> list[str]:
        """Each id once, in the order of the node; unknown ones last."""
        at = {name: index for index, name in enumerate(self.ids)}
        return sorted(set(ids), key=lambda name: (at.get(name, len(at)), name))


def distances(state: NodeState) -> Distances:
    """The distances on a node, from packages, rings, topology and NUMA nodes in its state."""
    chips = state.chips
    places = range(len(chips))
    return Distances(
        ids=tuple(one.chip.id for one in chips),
        wires=tuple(tuple(_wire(state, row, column) for column in places) for row in places),
        crossings=tuple(tuple(int(_is_crossing(chips[row], chips[column])) for column in places) for row in places),
    )


def cost(chosen: Collection[str], available: Iterable[str], known: Distances) -> Cost:
    """What a choice costs: wires between the chosen, wires between the rest, NUMA crossings of both."""
    wires, crossings = _sums(chosen, known)
    wires_left, crossings_left = _sums(set(available) - set(chosen), known)
    return wires, wires_left, crossings, crossings_left


def choose(available: Iterable[str], must_include: Iterable[str], size: int, known: Distances) -> tuple[str, ...]:
    """The best `size` of the `available` ids that contain `must_include`, in the order of the node.

    Never raises, since a failing answer would fail a pod for what is only a hint: of too few ids all come back, of too
    many that must be in the first.
    """
    musts = known.in_order(must_include)
    free = known.in_order((*available, *musts))
    if len(musts) >= size:
        return tuple(musts[: max(size, 0)])
    if len(free) <= size:
        return tuple(free)
    search = _Search([free.index(name) for name in musts], size, *known.among(free))
    return tuple(free[index] for index in sorted(search.best()))


class _Search:
    """Depth first over the free chips in order, with the four parts of the cost as one number.

    For equal sums over the chosen pairs, the sum over the pairs left is smallest where the chosen are loneliest, that
    is, farthest from all free chips together. So a choice weighs the sum of a weight per pair and a weight per chip.
    """

    def __init__(self, musts: Sequence[int], size: int, wires: Matrix, crossings: Matrix) -> None:
        count = len(wires)
        lonely = [sum(row) for row in wires]
        lonely_across = [sum(row) for row in crossings]
        crossing = count**2 + 1  # above all chips' `lonely_across`
        alone = crossing**2  # above all pairs' crossings
        wire = alone * (FARTHEST * count**2 + 1)  # above all chips' `lonely`
        self._pairs = [
            [far * wire + across * crossing for far, across in zip(*rows, strict=True)]
            for rows in zip(wires, crossings, strict=True)
        ]
        self._singles = [-far * alone - across for far, across in zip(lonely, lonely_across, strict=True)]
        self._musts = musts
        self._size = size
        self._others = [index for index in range(count) if index not in musts]
        self._nearest = min(self._pairs[one][other] for one, other in itertools.combinations(range(count), 2))
        self._steps = 0
        self._found: tuple[int, list[int]] | None = None

    def best(self) -> list[int]:
        """The indices of the best choice."""
        weights = [
            self._singles[index] + sum(self._pairs[must][index] for must in self._musts)
            for index in range(len(self._singles))
        ]
        self._extend(0, list(self._musts), 0, weights)  # what the musts weigh is the same in every choice
        assert self._found is not None, "there are more free chips than wanted, so the first descent ends in a choice"
        return self._found[1]

    def _extend(self, start: int, picked: list[int], weight: int, weights: Sequence[int]) -> None:
        """`weights` says what each chip would add to the `picked` ones."""
        missing = self._size - len(picked)
        if missing == 0:
            if self._found is None or weight < self._found[0]:
                self._found = (weight, picked)
            return
        self._steps += 1
        candidates = self._others[start:]
        if self._found is not None and (
            self._steps > MOST_STEPS or weight + self._at_least(candidates, missing, weights) >= self._found[0]
        ):
            return
        for position in range(len(candidates) - missing + 1):
            index = candidates[position]
            self._extend(
                start + position + 1,
                [*picked, index],
                weight + weights[index],
                [known + further for known, further in zip(weights, self._pairs[index], strict=True)],
            )

    def _at_least(self, candidates: Sequence[int], missing: int, weights: Sequence[int]) -> int:
        """No choice that follows adds less: the lightest candidates, each pair of them as near as any two chips are."""
        lightest = sorted(weights[index] for index in candidates)[:missing]
        return sum(lightest) + missing * (missing - 1) // 2 * self._nearest


def _sums(ids: Collection[str], known: Distances) -> tuple[int, int]:
    wires, crossings = known.among(sorted(ids))
    pairs = list(itertools.combinations(range(len(wires)), 2))
    return sum(wires[one][other] for one, other in pairs), sum(crossings[one][other] for one, other in pairs)


def _wire(state: NodeState, row: int, column: int) -> int:
    one, other = state.chips[row], state.chips[column]
    if row == column:
        return 0
    if one.package and one.package == other.package:
        return IN_ONE_PACKAGE
    told = [DISTANCE.get(word, FARTHEST) for word in _words(state, row, column)]
    if one.ring and one.ring == other.ring:
        told.append(IN_ONE_RING)
    if told:
        return min(told)
    if one.chip.numa is None or other.chip.numa is None:
        return FARTHEST
    return ACROSS_NUMA_NODES if _is_crossing(one, other) else ON_ONE_NUMA_NODE


def _is_crossing(one: NodeChip, other: NodeChip) -> bool:
    here, there = one.chip.numa, other.chip.numa
    return here is not None and there is not None and here != there


def _words(state: NodeState, row: int, column: int) -> list[str]:
    """What the topology says of a pair, in either direction; nothing where it was cut."""
    matrix = state.topology
    return [
        matrix[first][second]
        for first, second in ((row, column), (column, row))
        if first < len(matrix) and second < len(matrix[first]) and matrix[first][second]
    ]
