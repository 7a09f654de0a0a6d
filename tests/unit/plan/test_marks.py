import msgspec
import pytest

from npu_operator.components.pools import pool_of
from npu_operator.model import names
from npu_operator.model.chips import ChipFamily
from npu_operator.model.node import Taint
from npu_operator.model.npunode import ManagedBy
from npu_operator.plan import marks
from npu_operator.plan.verdict import judge
from tests.unit.plan import fleets

POOL = pool_of(ChipFamily.ASCEND_910B, fleets.KERNEL, "openEuler", "24.03")
READY = {"allocatable": {"huawei.com/Ascend910": 8}}


def marked(node, npu_node=None, **spec):
    ctl = fleets.a_ctl(**spec)
    report = npu_node.status.found if npu_node is not None else None
    return marks.mark(node, judge(node, npu_node, ctl.spec), report, ctl.spec)


def labels_of(patch):
    return patch.body["metadata"].get("labels", {})


def test_the_first_sight_of_an_npu_is_one_guarded_patch():
    patch = marked(fleets.a_node())
    assert patch.body == {"metadata": {"uid": "uid-a1", "labels": {names.NPU_PRESENT: "true"}}}


def test_what_we_did_to_a_node_is_guarded_by_its_version():
    patch = marked(fleets.a_node(version="42"), **KEEP)
    assert patch.body["metadata"]["resourceVersion"] == "42"


def test_chip_pool_and_features_come_in_one_patch_with_the_agents_report():
    node = fleets.a_node(labels=fleets.NFD | fleets.OS | {names.NPU_PRESENT: "true"})
    patch = marked(node, fleets.an_npu_node(reported=fleets.found()))
    assert labels_of(patch) == {
        names.POOL: POOL.hash,
        names.CHIP: "910b",
        names.CHIP_COUNT: "8",
        names.CHIP_MEMORY: "64Gi",
        names.DRIVER_VERSION: "25.5.0",
    }


def settled(**changes):
    labels = fleets.NFD | {
        names.NPU_PRESENT: "true",
        names.POOL: POOL.hash,
        names.CHIP: "910b",
        names.CHIP_COUNT: "8",
        names.CHIP_MEMORY: "64Gi",
        names.DRIVER_VERSION: "25.5.0",
    }
    return fleets.a_node(**({"labels": labels} | READY | changes))


def test_a_settled_node_gets_no_patch():
    assert marked(settled(), fleets.an_npu_node(reported=fleets.found())) is None


def test_labels_of_others_are_never_touched():
    node = settled(labels=settled().labels | {"npu.health": "unhealthy", "accelerator": "huawei-Ascend910"})
    patch = marks.unmark(node, "test")
    assert set(labels_of(patch)) <= set(marks.LABELS)
    assert all(value is None for value in labels_of(patch).values())


def test_unmarking_takes_back_our_cordon_but_not_a_foreign_one():
    ours = settled(unschedulable=True, annotations={names.CORDON_MARK: "true"})
    assert marks.unmark(ours, "test").body["spec"] == {"unschedulable": None}
    assert "spec" not in marks.unmark(settled(unschedulable=True), "test").body
    kept = settled(unschedulable=True, annotations={names.CORDON_MARK: "true", names.KEEP_CORDONED: "true"})
    assert "spec" not in marks.unmark(kept, "test").body


def test_a_host_driver_takes_the_node_out_of_its_pool():
    report = fleets.found()
    driver = msgspec.structs.replace(report.driver, managed_by=ManagedBy.HOST, autoload=True)
    patch = marked(settled(), fleets.an_npu_node(reported=msgspec.structs.replace(report, driver=driver)))
    assert labels_of(patch) == {names.POOL: None}


def test_the_pool_label_stays_while_nothing_new_is_known():
    node = settled(labels={key: value for key, value in settled().labels.items() if key not in fleets.OS}, boot_id="2")
    patch = marked(node, fleets.an_npu_node(reported=fleets.found()))
    assert patch is None


KEEP = {"placement": {"taint": {"mode": "Keep"}}}
UNTIL_READY = {"placement": {"taint": {"mode": "UntilReady"}}}
OURS = {"key": names.TAINT_DEFAULT_KEY, "effect": "NoSchedule"}


def test_the_taint_comes_with_the_first_patch_and_beside_those_of_others():
    node = fleets.a_node(taints=(Taint(key="other", effect="NoExecute", value="x", time_added="2026-01-01T00:00:00Z"),))
    patch = marked(node, **UNTIL_READY)
    assert patch.body["spec"]["taints"] == [
        {"key": "other", "effect": "NoExecute", "value": "x", "timeAdded": "2026-01-01T00:00:00Z"},
        OURS,
    ]
    assert patch.body["metadata"]["annotations"] == {marks.TAINT_MARK: names.TAINT_DEFAULT_KEY}


def test_until_ready_takes_the_taint_away_once_and_never_brings_it_back():
    tainted = settled(
        taints=(Taint(key=names.TAINT_DEFAULT_KEY, effect="NoSchedule"),),
        annotations={marks.TAINT_MARK: names.TAINT_DEFAULT_KEY},
    )
    patch = marked(tainted, fleets.an_npu_node(reported=fleets.found()), **UNTIL_READY)
    assert patch.body["spec"]["taints"] is None
    assert patch.body["metadata"]["annotations"] == {marks.TAINT_MARK: None}
    fell_ill = settled(allocatable={})
    assert marked(fell_ill, fleets.an_npu_node(reported=fleets.found()), **UNTIL_READY) is None


@pytest.mark.parametrize("spec", [{}, KEEP, UNTIL_READY], ids=["Off", "Keep", "UntilReady"])
def test_the_same_taint_set_by_hand_is_never_ours(spec):
    node = settled(taints=(fleets.FOREIGN_TAINT,))
    assert marked(node, fleets.an_npu_node(reported=fleets.found()), **spec) is None
    assert "spec" not in marks.unmark(node, "test").body
