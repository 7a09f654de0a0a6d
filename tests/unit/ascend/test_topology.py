"""How chips are wired: matrices of the topology command."""

from npu_operator.ascend import topology
from npu_operator.ascend.topology import Topology

MESH = """\
\t   NPU0       NPU1       NPU2       CPU Affinity
NPU0       X          HCCS       SYS        0-23
NPU1       HCCS       X          PHB        0-23
NPU2       SYS        PHB        X          24-47,96-119

Legend:

  X    = Self
  SYS  = Path traversing PCIe and NUMA nodes.
  NA   = Unknown relationship.
"""


def read(text: str) -> Topology:
    found = topology.read(text.splitlines())
    assert found is not None
    return found


def test_a_matrix_tells_how_two_chips_reach_each_other():
    found = read(MESH)
    assert (found.relation(0, 1), found.relation(1, 2), found.relation(0, 0)) == ("HCCS", "PHB", "X")
    assert found.distance(0, 1) < found.distance(1, 2) < found.distance(0, 2)


def test_the_affinity_is_kept_per_chip():
    assert read(MESH).cpu_affinity == ("0-23", "0-23", "24-47,96-119")


def test_dies_of_one_package_are_nearest():
    found = read("     NPU0 NPU1 NPU2\nNPU0  X  SIO  HCCS_SW\nNPU1  SIO  X  HCCS_SW\nNPU2  HCCS_SW  HCCS_SW  X\n")
    assert found.cpu_affinity is None
    assert found.distance(0, 1) < found.distance(0, 2)


def test_labels_need_not_begin_with_zero():
    found = read("  NPU4  NPU7\nNPU4  X  UB\nNPU7  UB  X\n")
    assert (found.ids, found.relation(4, 7), found.relation(0, 1)) == ((4, 7), "UB", None)


def test_a_cut_matrix_keeps_what_is_there():
    found = read("  NPU0  NPU1  NPU2  CPU Affinity\nNPU0  X  HCCS  SYS  0-23\nNPU1  HCCS\n")
    assert found.matrix == (("X", "HCCS", "SYS"), ("HCCS", None, None), (None, None, None))
    assert found.cpu_affinity == ("0-23", None, None)
    assert found.distance(2, 0) == topology.FARTHEST


def test_an_unknown_relation_is_kept_and_far():
    found = read("  NPU0  NPU1\nNPU0  X  WARP\nNPU1  WARP  X\n")
    assert (found.relation(0, 1), found.distance(0, 1)) == ("WARP", topology.FARTHEST)


def test_a_text_without_matrix_is_none():
    assert topology.read(["dcmi module initialize failed. ret is -8005"]) is None
    assert topology.read([]) is None


def test_affinity_texts_become_processors():
    assert topology.cpus("0-2,7") == {0, 1, 2, 7}
    assert topology.cpus("NA") == frozenset()
