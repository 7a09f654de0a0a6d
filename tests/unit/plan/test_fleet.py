import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_operator.components import labels
from npu_operator.model import names
from npu_operator.model.metadata import Metadata
from npu_operator.model.reasons import ConditionType
from npu_operator.model.status import CtlStatus, Truth
from npu_operator.plan.fleet import SIGN_PATIENCE_S, UNINSTALL_GRACE_S, Planner, object_writes
from npu_operator.plan.snapshot import ObjectKey
from npu_operator.plan.writes import CreateNPUNode, DeleteNPUNode, Ensure, PatchNode, Remove, ReportNode
from tests.unit.plan import fleets

SERVING = {"allocatable": {"huawei.com/Ascend910": 8}}


def plan_of(snapshot, planner=None):
    return (planner or Planner()).plan(snapshot, snapshot.nodes.keys() | snapshot.npu_nodes.keys())


def kinds(writes):
    return [type(write) for write in writes]


def status_in(plan, name="npuoperatorctl-sample"):
    report = next(report for report in plan.ctls if report.name == name)
    return msgspec.convert(report.status, CtlStatus)


def condition(plan, kind, name="npuoperatorctl-sample"):
    found = status_in(plan, name).condition(kind)
    return (found.status, found.reason, found.message)


def test_a_new_npu_node_is_labelled_and_gets_its_npunode():
    plan = plan_of(fleets.a_snapshot((fleets.a_node(),)))
    assert kinds(plan.nodes["a1"]) == [PatchNode, CreateNPUNode]


def test_nodes_without_npus_are_left_alone():
    plan = plan_of(fleets.a_snapshot((fleets.a_node("web", labels={}),)))
    assert plan.nodes["web"] == ()
    assert status_in(plan).nodes.total == 0


def test_what_comes_next_for_a_node_is_reported_once():
    snapshot = fleets.a_snapshot((fleets.a_node(),), (fleets.an_npu_node(),))
    [report] = [write for write in plan_of(snapshot).nodes["a1"] if isinstance(write, ReportNode)]
    assert (report.plan["state"], report.plan["reason"], report.plan["since"]) == (
        "Discovering",
        "AgentSilent",
        fleets.NOW,
    )


def test_a_driver_pool_gets_its_own_daemonset_with_its_own_image():
    kernels = ("6.6.0-1.oe2403sp3.aarch64", "6.6.0-2.oe2403sp3.aarch64", "5.10.0-60.oe2203.aarch64")
    chips = {"910b": "d802", "a3": "d803"}
    nodes = tuple(
        fleets.a_node(
            f"n{k}{chip}", kernel=kernel, labels={f"feature.node.kubernetes.io/pci-1200_19e5_{device}.present": "true"}
        )
        for k, kernel in enumerate(kernels)
        for chip, device in chips.items()
    )
    plan = plan_of(fleets.a_snapshot(nodes))
    drivers = [
        write.body
        for write in plan.objects
        if isinstance(write, Ensure) and write.body["metadata"]["name"].startswith(names.DRIVER_PREFIX)
    ]
    images = {
        container["image"]
        for body in drivers
        for container in body["spec"]["template"]["spec"]["containers"]
        if container["name"] == names.CONTAINER_PAYLOAD
    }
    assert len(drivers) == 6
    assert images == {
        f"mlops/ascend-driver:25.5.0-{chip}-{tag}"
        for chip in chips
        for tag in ("6.6.0-1-oe2403sp3", "6.6.0-2-oe2403sp3", "5.10.0-60-oe2203")
    }
    assert len(status_in(plan).pools) == 6


def test_ready_only_when_every_chip_is_allocatable_and_validated():
    nodes = tuple(fleets.a_node(name, **SERVING) for name in ("a1", "a2"))
    npu_nodes = tuple(fleets.an_npu_node(name, fleets.found()) for name in ("a1", "a2"))
    objects = daemonsets_that_run(fleets.a_snapshot(nodes, npu_nodes))
    plan = plan_of(fleets.a_snapshot(nodes, npu_nodes, objects=objects))
    assert condition(plan, ConditionType.Ready) == (Truth.TRUE, "Ready", "2 nodes, 16 NPUs allocatable")
    assert status_in(plan).nodes.npu_summary == "16/16"
    short = (nodes[0], fleets.a_node("a2", allocatable={"huawei.com/Ascend910": 7}))
    plan = plan_of(fleets.a_snapshot(short, npu_nodes, objects=objects))
    assert condition(plan, ConditionType.Ready)[:2] == (Truth.FALSE, "ChipsNotAllocatable")


def daemonsets_that_run(snapshot):
    wanted = [write.body for write in plan_of(snapshot).objects if isinstance(write, Ensure)]
    counted = {"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 2, "observedGeneration": 1}
    return {
        ObjectKey.of(body): {
            **body,
            "metadata": {**body["metadata"], "uid": "u", "generation": 1},
            "status": counted if body["kind"] == "DaemonSet" else {},
        }
        for body in wanted
    }


def test_a_sick_chip_is_named_in_the_status_and_degrades():
    sick = fleets.found(chips=(fleets.a_chip(0), fleets.a_chip(3, **fleets.SICK)))
    snapshot = fleets.a_snapshot((fleets.a_node("b7", **SERVING),), (fleets.an_npu_node("b7", sick),))
    plan = plan_of(snapshot)
    assert condition(plan, ConditionType.Degraded) == (
        Truth.TRUE,
        "ChipUnhealthy",
        "b7: chip Ascend910-3 is Critical (fault 80E18402)",
    )
    assert status_in(plan).nodes.unhealthy == 1
    [report] = [write for write in plan.nodes["b7"] if isinstance(write, ReportNode)]
    assert [(note.name, note.reason, note.is_warning) for note in report.notes] == [("b7", "ChipUnhealthy", True)]


def test_a_message_names_three_nodes_and_counts_the_rest():
    nodes = tuple(fleets.a_node(f"a{number}") for number in range(5))
    message = condition(plan_of(fleets.a_snapshot(nodes)), ConditionType.Ready)[2]
    assert message.startswith("5 of 5 nodes not ready: a0: ")
    assert message.endswith("; and 2 more")


@pytest.mark.parametrize("mode", ["Plan", "Paused"])
def test_plan_and_paused_write_only_status(mode):
    snapshot = fleets.a_snapshot((fleets.a_node(),), ctls=(fleets.a_ctl(mode=mode),))
    plan = plan_of(snapshot)
    assert plan.objects == ()
    assert plan.nodes == {"a1": ()}
    assert status_in(plan).nodes.total == 1
    assert condition(plan, ConditionType.UpgradePaused)[0] is Truth.TRUE


def test_a_misread_driver_section_stops_everything_that_is_new():
    snapshot = fleets.a_snapshot((fleets.a_node(),), ctls=(fleets.a_ctl(driver={"verison": "25.3.RC1"}),))
    plan = plan_of(snapshot)
    assert plan.objects == ()
    status, reason, message = condition(plan, ConditionType.SpecAccepted)
    assert (status, reason) == (Truth.FALSE, "UnknownField")
    assert "verison" in message
    assert "version" in message


def test_the_oldest_object_is_in_charge_and_the_others_are_told_by_whom():
    first = fleets.a_ctl("first")
    second = msgspec.structs.replace(
        fleets.a_ctl("second"),
        metadata=Metadata(name="second", namespace=names.NAMESPACE, uid="2", creation_timestamp="2026-12-01T00:00:00Z"),
    )
    plan = plan_of(fleets.a_snapshot(ctls=(second, first)))
    assert condition(plan, ConditionType.Conflict, "second")[1] == "Conflict"
    assert "first is older" in condition(plan, ConditionType.Conflict, "second")[2]
    assert status_in(plan, "first").condition(ConditionType.Conflict) is None
    plan = plan_of(fleets.a_snapshot(ctls=(second,)))
    assert status_in(plan, "second").condition(ConditionType.SpecAccepted).status is Truth.TRUE


def test_an_object_in_another_namespace_is_told_where_to_go():
    stray = fleets.a_ctl()
    stray = msgspec.structs.replace(stray, metadata=msgspec.structs.replace(stray.metadata, namespace="default"))
    plan = plan_of(fleets.a_snapshot(ctls=(stray,), seconds_without_ctl=1.0))
    status, reason, message = condition(plan, ConditionType.Ready)
    assert (status, reason) == (Truth.FALSE, "WrongNamespace")
    assert names.NAMESPACE in message


def test_labels_that_vanish_remove_nothing_for_ten_minutes():
    node = fleets.a_node(labels={names.NPU_PRESENT: "true", names.POOL: "x"})
    early = fleets.a_snapshot((node,), seconds_without_sign={"a1": SIGN_PATIENCE_S - 1})
    plan = plan_of(early)
    assert plan.nodes["a1"] == ((CreateNPUNode("a1", "uid-a1")),)
    assert plan.unsigned == ("a1",)
    late = fleets.a_snapshot((node,), (fleets.an_npu_node(),), seconds_without_sign={"a1": SIGN_PATIENCE_S})
    assert kinds(plan_of(late).nodes["a1"]) == [PatchNode, DeleteNPUNode]


def test_without_an_object_everything_of_ours_goes_after_a_short_grace():
    node = fleets.a_node(labels=fleets.NFD | {names.NPU_PRESENT: "true"})
    live = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n", "uid": "u"}}
    changes = {"ctls": (), "objects": {ObjectKey.of(live): live}}
    early = plan_of(fleets.a_snapshot((node,), (fleets.an_npu_node(),), **changes, seconds_without_ctl=1.0))
    assert (early.nodes, early.objects) == ({}, ())
    assert early.look_again_s == UNINSTALL_GRACE_S - 1
    late = plan_of(
        fleets.a_snapshot((node,), (fleets.an_npu_node(),), **changes, seconds_without_ctl=UNINSTALL_GRACE_S)
    )
    assert kinds(late.nodes["a1"]) == [PatchNode, DeleteNPUNode]
    assert kinds(late.objects) == [Remove]


def driver_set(**pods):
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "npu-driver-0123456789", "namespace": names.NAMESPACE, "uid": "u"},
        "status": pods,
    }


@pytest.mark.parametrize(
    ("pods", "goes"),
    [
        ({"desiredNumberScheduled": 0, "numberMisscheduled": 0}, True),
        ({"desiredNumberScheduled": 2, "numberMisscheduled": 0}, False),
        ({"desiredNumberScheduled": 0, "numberMisscheduled": 1}, False),
    ],
)
def test_a_pools_daemonset_goes_only_when_nothing_of_it_is_left(pods, goes):
    live = driver_set(**pods)
    assert bool(list(object_writes((), {ObjectKey.of(live): live}, {}))) is goes


def test_a_component_in_conflict_keeps_what_it_has():
    snapshot = fleets.a_snapshot(ctls=(fleets.a_ctl(devicePlugin={"flavor": "native"}, volcano={"enabled": True}),))
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": names.DEVICE_PLUGIN,
            "namespace": names.NAMESPACE,
            "uid": "u",
            "labels": {labels.COMPONENT_OF: "DevicePlugin"},
        },
    }
    plan = plan_of(msgspec.structs.replace(snapshot, objects={ObjectKey.of(body): body}))
    assert not any(isinstance(write, Remove) for write in plan.objects)
    assert condition(plan, ConditionType.ComponentConflict)[1] == "ComponentConflict"


def test_a_runtime_class_with_another_handler_is_deleted_before_it_is_made_anew():
    snapshot = fleets.a_snapshot((fleets.a_node(**SERVING),), (fleets.an_npu_node(reported=fleets.found()),))
    live = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": names.RUNTIME_CLASS, "uid": "u"},
        "handler": "ascend",
    }
    plan = plan_of(msgspec.structs.replace(snapshot, objects={ObjectKey.of(live): live}))
    about = [
        write
        for write in plan.objects
        if ("RuntimeClass" in (getattr(write, "kind", ""), getattr(write, "body", {}).get("kind")))
    ]
    assert kinds(about) == [Remove]


def test_nodes_that_disagree_about_the_handler_are_counted_in_a_condition():
    legacy = fleets.found(runtime=fleets.RuntimeFound(name="containerd", handler="ascend"))
    snapshot = fleets.a_snapshot(
        (fleets.a_node("a1"), fleets.a_node("a2")),
        (fleets.an_npu_node("a1", fleets.found()), fleets.an_npu_node("a2", legacy)),
    )
    assert condition(plan_of(snapshot), ConditionType.RuntimeHandlersAgree)[:2] == (Truth.FALSE, "HandlersDisagree")


def test_a_refused_object_is_in_the_status_with_the_servers_words():
    snapshot = fleets.a_snapshot()
    key = ObjectKey("apps/v1", "DaemonSet", names.NAMESPACE, names.EXPORTER)
    plan = plan_of(
        msgspec.structs.replace(snapshot, refused_objects={key: "apply daemonsets.apps npu-exporter: forbidden"})
    )
    assert "forbidden" in condition(plan, "ExporterReady")[2]
    assert condition(plan, ConditionType.Degraded)[0] is Truth.TRUE


def test_a_status_that_says_the_same_is_not_written_again():
    snapshot = fleets.a_snapshot((fleets.a_node(),))
    planner = Planner()
    plan = plan_of(snapshot, planner)
    [ctl] = snapshot.ctls.values()
    written = msgspec.structs.replace(ctl, status=status_in(plan))
    later = fleets.a_snapshot((fleets.a_node(),), ctls=(written,), now="2026-11-30T13:00:00Z")
    assert planner.plan(later, ()).ctls == ()


STATES = st.sampled_from(["none", "bare", "labelled", "silent", "installing", "sick", "ready", "host"])


def in_state(name, state):
    node = {"none": {"labels": {}}, "ready": SERVING}.get(state, {})
    reports = {
        "installing": fleets.found(driver=fleets.DriverFound()),
        "sick": fleets.found(chips=(fleets.a_chip(0, **fleets.SICK),)),
        "ready": fleets.found(),
        "host": fleets.found(
            driver=fleets.DriverFound(loaded=True, managed_by=fleets.ManagedBy.HOST, autoload=True, version="1.0")
        ),
        "silent": fleets.found(boot_id="earlier"),
    }
    npu_node = None if state in ("none", "bare") else fleets.an_npu_node(name, reports.get(state))
    return fleets.a_node(name, **node), npu_node


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), STATES | st.just("gone")), max_size=4), max_size=6)
)
def test_planning_by_difference_gives_the_same_as_planning_from_nothing(rounds):
    present: dict[str, str] = {}
    lasting = Planner()
    for changes in rounds:
        for name, state in changes:
            present.pop(name, None)
            if state != "gone":
                present[name] = state
        pairs = [in_state(name, state) for name, state in sorted(present.items())]
        snapshot = fleets.a_snapshot(
            tuple(node for node, _ in pairs), tuple(npu_node for _, npu_node in pairs if npu_node is not None)
        )
        by_difference = lasting.plan(snapshot, {name for name, _ in changes})
        fresh = Planner()
        from_nothing = fresh.plan(snapshot, snapshot.nodes.keys())
        assert by_difference.ctls == from_nothing.ctls
        assert by_difference.objects == from_nothing.objects
        for name, writes in by_difference.nodes.items():
            assert writes == from_nothing.nodes.get(name, ())
