import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_operator.ascend.topology import DISTANCE
from npu_operator.node.deviceplugin.preference import Distances, choose, cost, distances
from npu_operator.node.state import NodeState
from tests.unit.node.deviceplugin import topologies
from tests.unit.node.states import a_chip, a_state

AT_MOST = 8


def ids(*numbers: int) -> tuple[str, ...]:
    return tuple(f"Ascend910-{number}" for number in numbers)


def chosen(state: NodeState, size: int, *, free: tuple[int, ...] = (), must: tuple[int, ...] = ()) -> list[int]:
    """The numbers of the chips chosen on a node of which only `free` (default: all) are free."""
    known = distances(state)
    names = {one.chip.physical: one.chip.id for one in state.chips}
    available = [names[number] for number in free or names]
    answer = choose(available, [names[number] for number in must], size, known)
    return [int(name.rpartition("-")[2]) for name in answer]


def is_optimal(available: tuple[str, ...], must: tuple[str, ...], size: int, known: Distances) -> bool:
    answer = choose(available, must, size, known)
    assert len(answer) == len(set(answer)) == size
    assert set(must) <= set(answer) <= set(available)
    rest = [name for name in available if name not in must]
    best = min(cost((*must, *others), available, known) for others in itertools.combinations(rest, size - len(must)))
    return cost(answer, available, known) == best


NODES = topologies.MADE_UP | {name: (lambda state=state: state) for name, state in topologies.samples().items()}


def test_the_topology_samples_are_there_to_be_tested() -> None:
    if not topologies.SAMPLES.is_dir():
        pytest.skip(f"no samples at {topologies.SAMPLES}")
    assert len(topologies.samples()) == len(list(topologies.SAMPLES.glob("*topo*")))


@pytest.mark.parametrize("node", NODES)
def test_every_request_with_every_pattern_of_holes_gets_the_optimum(node: str) -> None:
    known = distances(NODES[node]())
    for count in range(1, len(known.ids) + 1):
        for available in itertools.combinations(known.ids, count):
            for size in range(1, min(count, AT_MOST) + 1):
                assert is_optimal(available, (), size, known), (available, size)


@pytest.mark.parametrize("node", NODES)
def test_what_must_be_included_is_and_the_rest_is_optimal(node: str) -> None:
    known = distances(NODES[node]())
    rng = random.Random(node)
    for _ in range(300):
        available = tuple(rng.sample(known.ids, rng.randint(1, len(known.ids))))
        size = rng.randint(1, min(len(available), AT_MOST))
        assert is_optimal(available, tuple(rng.sample(available, rng.randint(0, size))), size, known)


def test_sixteen_dies_with_holes_get_the_optimum() -> None:
    known = distances(topologies.packages_a3())
    rng = random.Random(3)
    for size in range(1, AT_MOST + 1):
        for holes in (0, 1, 3, 5, 7):
            available = tuple(rng.sample(known.ids, len(known.ids) - holes))
            assert is_optimal(available, tuple(rng.sample(available, size // 3)), size, known)


WORDS = st.sampled_from([*DISTANCE, "LASER", ""])


@st.composite
def odd_nodes(draw: st.DrawFn) -> NodeState:
    """Nodes wired without rule: rows cut, words unknown, directions that disagree, groups across everything."""
    count = draw(st.integers(1, 9))
    groups = st.sampled_from(["", "a", "b", "c"])
    chips = [
        a_chip(
            number,
            numa=draw(st.none() | st.integers(0, 2)),
            package=draw(groups),
            ring=draw(groups),
        )
        for number in range(count)
    ]
    rows = draw(st.lists(st.lists(WORDS, max_size=count).map(tuple), max_size=count).map(tuple))
    return a_state(*chips, topology=rows)


@settings(max_examples=200, deadline=None)
@given(state=odd_nodes(), data=st.data())
def test_any_node_gets_the_optimum(state: NodeState, data: st.DataObject) -> None:
    known = distances(state)
    available = tuple(data.draw(st.lists(st.sampled_from(known.ids), min_size=1, unique=True)))
    size = data.draw(st.integers(1, min(len(available), AT_MOST)))
    must = tuple(data.draw(st.lists(st.sampled_from(available), max_size=size, unique=True)))
    assert is_optimal(available, must, size, known)


# --- what the cost means for the servers that there are ---


def test_four_910a_chips_come_from_one_ring() -> None:
    assert chosen(topologies.rings_910a(), 4, free=(1, 2, 3, 4, 5, 6, 7)) == [4, 5, 6, 7]


def test_one_910a_chip_comes_from_the_ring_that_is_broken() -> None:
    assert chosen(topologies.rings_910a(), 1, free=(0, 1, 2, 3, 6)) == [6]


def test_two_910a_chips_leave_a_whole_ring_whole() -> None:
    assert chosen(topologies.rings_910a(), 2, free=(0, 1, 2, 3, 4, 7)) == [4, 7]


def test_six_910a_chips_are_a_ring_and_a_pair() -> None:
    assert chosen(topologies.rings_910a(), 6) == [0, 1, 2, 3, 4, 5]


def test_rings_are_kept_when_the_tool_tells_no_topology() -> None:
    chips = (a_chip(number, ring=f"ring{number % 2}", numa=0) for number in range(8))
    assert chosen(a_state(*chips), 4) == [0, 2, 4, 6]


def test_a2_chips_come_from_as_few_numa_nodes_as_can_be() -> None:
    assert chosen(topologies.mesh_a2(), 4, free=(0, 2, 3, 5, 6, 7)) == [2, 3, 6, 7]


def test_two_a3_dies_come_from_one_package() -> None:
    assert chosen(topologies.packages_a3(), 2, free=(1, 2, 4, 7, 8, 9)) == [8, 9]


def test_a_single_a3_die_comes_from_a_package_that_is_broken() -> None:
    assert chosen(topologies.packages_a3(), 1, free=(0, 1, 2, 3, 5, 6, 7)) == [5]


def test_three_a3_dies_are_a_package_and_one_that_was_alone() -> None:
    assert chosen(topologies.packages_a3(), 3, free=(0, 1, 3, 4, 5)) == [0, 1, 3]


def test_the_other_die_of_a_package_follows_the_one_that_must_be_in() -> None:
    assert chosen(topologies.packages_a3(), 2, must=(11,)) == [10, 11]


def test_two_310p_chips_come_from_one_duo_card() -> None:
    assert chosen(topologies.duo_cards(), 2, free=(1, 2, 4, 6, 7)) == [6, 7]


def test_a_nearer_wire_counts_more_than_any_numa_node() -> None:
    near_but_across = a_state(
        a_chip(0, numa=0), a_chip(1, numa=1), a_chip(2, numa=0),
        topology=(("X", "HCCS", "SYS"), ("HCCS", "X", "SYS"), ("SYS", "SYS", "X")),
    )  # fmt: skip
    assert chosen(near_but_across, 2) == [0, 1]


def test_equal_choices_fall_to_the_first_chips() -> None:
    assert chosen(a_state(*(a_chip(number, numa=None) for number in range(8))), 3) == [0, 1, 2]


# --- requests that make no sense ---


def test_too_few_free_chips_all_come_back() -> None:
    assert chosen(a_state(count=8), 4, free=(3, 5)) == [3, 5]


def test_of_too_many_that_must_be_in_the_first_come_back() -> None:
    assert chosen(a_state(count=8), 2, must=(6, 3, 1)) == [1, 3]


@pytest.mark.parametrize("size", [0, -1])
def test_no_chips_asked_for_are_no_chips(size: int) -> None:
    assert chosen(a_state(count=8), size) == []


def test_chips_that_the_node_does_not_know_are_taken_last() -> None:
    known = distances(a_state(count=4))
    assert choose(("Ascend910-99", *ids(2, 3)), (), 2, known) == ids(2, 3)
    assert choose(("Ascend910-99", *ids(3)), (), 2, known) == (*ids(3), "Ascend910-99")


def test_a_node_beyond_all_servers_is_answered_in_bounded_steps() -> None:
    known = distances(topologies.packages_a3(count=64))
    answer = choose(known.ids, (), 8, known)
    packages = {int(name.rpartition("-")[2]) // 2 for name in answer}
    assert len(answer) == 8
    assert len(packages) == 4
