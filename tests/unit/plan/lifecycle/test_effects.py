import pytest

from npu_operator.model import names
from npu_operator.model.ctl import Spec
from npu_operator.plan import marks
from npu_operator.plan.lifecycle.effects import CORDON, UNCORDON, NodeChange, joined
from npu_operator.plan.lifecycle.step import step
from npu_operator.plan.verdict import judge
from npu_operator.plan.writes import PatchNode
from tests.unit.plan.fleets import NFD, OS, an_npu_node
from tests.unit.plan.lifecycle.nodes import FLEET, S, a_node, a_record, a_view, found, patched


def test_a_change_that_is_there_already_is_no_patch():
    node = a_node(labels={"x": "1"}, annotations={"y": "2"})
    assert (
        NodeChange(labels={"x": "1", "gone": None}, annotations={"y": "2"}, unschedulable=False).patch(node, "") is None
    )


def test_a_patch_names_only_what_changes():
    node = a_node(labels={"x": "1"})
    patch = NodeChange(labels={"x": None, "z": None}, annotations={"y": "2"}, unschedulable=True).patch(node, "because")
    assert patch == PatchNode(
        "a7",
        {
            "metadata": {"resourceVersion": "7", "labels": {"x": None}, "annotations": {"y": "2"}},
            "spec": {"unschedulable": True},
        },
        "because",
    )


def test_an_uncordon_removes_the_field_as_kubectl_does():
    node = a_node(a_record(S.DRAIN))
    assert UNCORDON.patch(node, "").body["spec"] == {"unschedulable": None}
    assert not patched(node, UNCORDON.patch(node, "").body).unschedulable


def test_of_two_changes_the_later_wins():
    both = CORDON.then(UNCORDON)
    assert both == UNCORDON
    assert NodeChange(labels={"x": "1"}).then(NodeChange(labels={"x": None, "y": "2"})).labels == {"x": None, "y": "2"}
    assert CORDON.then(NodeChange()).unschedulable is True


def test_marks_and_steps_go_in_one_patch():
    """Both are made from one version of the Node, so the second would be refused."""
    node = a_node(a_record(S.REQUIRED), labels=NFD | OS)
    verdict = judge(node, an_npu_node("a7", found()), Spec())
    mark = marks.mark(node, verdict, found(), Spec())
    move = step(a_view(S.REQUIRED, node=node), FLEET).patch
    both = joined(mark, move)
    there = patched(node, both.body)
    assert there.labels[names.NPU_PRESENT] == "true"
    assert there.labels[names.UPGRADE_STATE] == "cordon-required"
    assert there.annotations[names.CORDON_MARK] == "true"
    assert there.unschedulable
    assert both.why == f"{mark.why}; {move.why}"


def test_a_taint_and_a_cordon_go_in_one_patch():
    taint = PatchNode("a7", {"metadata": {"resourceVersion": "7"}, "spec": {"taints": [{"key": "k"}]}}, "taint")
    cordon = CORDON.patch(a_node(), "cordon")
    assert joined(taint, cordon).body["spec"] == {"taints": [{"key": "k"}], "unschedulable": True}
    assert joined(cordon, taint).body["spec"] == {"taints": [{"key": "k"}], "unschedulable": True}


@pytest.mark.parametrize("place", [0, 1])
def test_one_patch_alone_stays_as_it_is(place):
    cordon = CORDON.patch(a_node(), "cordon")
    pair = (cordon, None) if place == 0 else (None, cordon)
    assert joined(*pair) is cordon
    assert joined(None, None) is None
