"""Nodes by how their chips are wired: the usual servers, and every topology among the samples."""

from collections.abc import Callable
from pathlib import Path

from npu_operator.ascend import topology
from npu_operator.model.chips import ChipFamily
from npu_operator.node.state import NodeState
from tests.unit.node.states import a_chip, a_state

SAMPLES = Path(__file__).parents[5] / "shared" / "samples" / "npu-smi-sub"


def wired(count: int, relation: Callable[[int, int], str]) -> tuple[tuple[str, ...], ...]:
    """The matrix of `count` chips."""
    return tuple(tuple("X" if one == other else relation(one, other) for other in range(count)) for one in range(count))


def rings_910a() -> NodeState:
    """Two rings of four by HCCS, host bridges between them, two chips a NUMA node."""
    chips = [a_chip(number, ChipFamily.ASCEND_910, ring=f"ring{number // 4}") for number in range(8)]
    return a_state(
        *chips,
        family=ChipFamily.ASCEND_910,
        topology=wired(8, lambda one, other: "HCCS" if one // 4 == other // 4 else "PHB"),
    )


def mesh_a2() -> NodeState:
    """Each chip joined to each by HCCS, two chips a NUMA node."""
    return a_state(topology=wired(8, lambda one, other: "HCCS"))


def packages_a3(count: int = 16) -> NodeState:
    """Packages of two dies behind an HCCS switch, four dies a NUMA node."""
    chips = [
        a_chip(number, ChipFamily.ASCEND_A3, package=f"card{number // 2}", numa=number // 4) for number in range(count)
    ]
    return a_state(
        *chips,
        family=ChipFamily.ASCEND_A3,
        topology=wired(count, lambda one, other: "SIO" if one // 2 == other // 2 else "HCCS_SW"),
    )


def duo_cards() -> NodeState:
    """Four 310P Duo cards of two chips; the tool calls all pairs behind one switch the same."""
    chips = [
        a_chip(number, ChipFamily.ASCEND_310P, package=f"card{number // 2}", numa=number // 4) for number in range(8)
    ]
    return a_state(
        *chips,
        family=ChipFamily.ASCEND_310P,
        topology=wired(8, lambda one, other: "PIX" if one // 4 == other // 4 else "SYS"),
    )


def only_numa() -> NodeState:
    """A node of which nothing is known but the NUMA nodes, four chips each."""
    return a_state(*(a_chip(number, numa=number // 4) for number in range(8)))


MADE_UP = {make.__name__: make for make in (rings_910a, mesh_a2, duo_cards, only_numa)}


def samples() -> dict[str, NodeState]:
    """A node for each topology among the samples; empty where there are none."""
    found = {}
    for path in sorted(SAMPLES.glob("*topo*")):
        matrix = topology.read(path.read_text().splitlines())
        if matrix is None:
            continue
        affinities = matrix.cpu_affinity or (None,) * len(matrix.labels)
        numa_nodes = sorted({affinity or "" for affinity in affinities})
        chips = (
            a_chip(number, numa=numa_nodes.index(affinity or ""))
            for number, affinity in zip(matrix.ids, affinities, strict=True)
        )
        words = tuple(tuple(word or "" for word in row) for row in matrix.matrix)
        found[path.name] = a_state(*chips, topology=words)
    return found
