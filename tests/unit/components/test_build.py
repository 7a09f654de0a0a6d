"""What is deployed for which spec."""

import copy

import pytest

from npu_operator.components import driver, exporter
from npu_operator.components.build import COMPONENTS, wanted
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import COMPONENT_OF, MANAGED, POLICY_OF
from npu_operator.model import names
from npu_operator.model.reasons import Reason
from tests.unit.components.inputs import (
    BUSY,
    CASES,
    POOL_310P,
    POOL_910B,
    POOL_950,
    a_spec,
    components,
    daemon_sets,
    env_of,
    objects,
    pod_of,
    some_facts,
)


def kinds(component):
    return [(one["kind"], one["metadata"]["name"]) for one in component.objects]


def test_the_default_spec_deploys_everything_of_ours_in_order():
    made = wanted(*CASES["default"])
    assert [component.name for component in made if component.objects] == [
        "Rbac",
        "RuntimeClass",
        "NodeAgent",
        "Driver",
        "DevicePlugin",
        "Exporter",
        "Validator",
        "Rebooter",
        "Discovery",
    ]


def test_every_component_is_listed_whatever_is_switched_off():
    assert [component.name for component in wanted(a_spec({"driver": {"enabled": False}}), some_facts())] == [
        name for name, _, _ in COMPONENTS
    ]


@pytest.mark.parametrize("case", CASES)
def test_the_same_input_gives_the_same_output(case):
    spec, facts = CASES[case]
    first = copy.deepcopy(wanted(spec, facts))
    assert wanted(spec, facts) == first


@pytest.mark.parametrize("case", CASES)
def test_every_object_says_whose_it_is_and_for_what(case):
    spec, facts = CASES[case]
    for component in wanted(spec, facts):
        for one in component.objects:
            labels = one["metadata"]["labels"]
            assert labels.items() >= MANAGED.items()
            assert labels[COMPONENT_OF] == component.name
            assert one["metadata"]["annotations"][POLICY_OF] == f"{facts.namespace}/npuoperatorctl-sample"


@pytest.mark.parametrize("case", CASES)
def test_no_two_objects_have_the_same_name(case):
    made = [(one["kind"], one["metadata"]["name"]) for one in objects(*CASES[case])]
    assert len(made) == len(set(made))


@pytest.mark.parametrize(
    ("spec", "without"),
    [
        ({"driver": {"enabled": False}}, {"Driver", "Rebooter"}),
        ({"containerRuntime": {"enabled": False}}, {"RuntimeClass"}),
        ({"devicePlugin": {"enabled": False}}, {"DevicePlugin", "Validator"}),
        ({"exporter": {"enabled": False}}, {"Exporter"}),
        ({"discovery": "Off"}, {"Discovery"}),
    ],
)
def test_what_is_switched_off_gives_nothing(spec, without):
    all_on = {name for name, component in components(*CASES["default"]).items() if component.objects}
    made = components(a_spec(spec), some_facts())
    assert {name for name, component in made.items() if component.objects} == all_on - without
    assert not any(made[name].is_on for name in without)


def test_in_passthrough_nodes_that_run_our_driver_keep_their_loader():
    spec = a_spec({"driver": {"enabled": False}})
    made = components(spec, some_facts(pools=[POOL_910B, POOL_310P], pools_to_keep=[POOL_310P]))
    assert kinds(made["Driver"]) == [("DaemonSet", driver.name_for(POOL_310P))]
    assert made["Rebooter"].objects == ()
    assert ("ServiceAccount", "npu-driver") in kinds(made["Rbac"])


def test_in_passthrough_the_node_agent_knows_that_the_driver_is_not_ours():
    found = daemon_sets(a_spec({"driver": {"enabled": False}}), some_facts())[names.NODE_AGENT]
    assert env_of(pod_of(found)["containers"][0])["NPU_DRIVER_MANAGED"] == "false"


class TestDriver:
    def test_each_pool_has_its_own_daemon_set_and_image(self):
        made = components(a_spec(), some_facts(pools=[POOL_910B, POOL_310P]))["Driver"].objects
        assert [one["metadata"]["name"] for one in made] == [driver.name_for(POOL_910B), driver.name_for(POOL_310P)]
        assert len({pod_of(one)["containers"][1]["image"] for one in made}) == 2
        assert [pod_of(one)["nodeSelector"] for one in made] == [
            {names.POOL: POOL_910B.hash},
            {names.POOL: POOL_310P.hash},
        ]

    def test_pods_stay_until_the_upgrade_deletes_them(self):
        (made,) = components(*CASES["default"])["Driver"].objects
        assert made["spec"]["updateStrategy"] == {"type": "OnDelete"}

    def test_the_loader_is_started_first_and_does_not_wait_for_the_payload(self):
        (made,) = components(*CASES["default"])["Driver"].objects
        assert [container["name"] for container in pod_of(made)["containers"]] == ["loader", "payload"]
        assert "initContainers" not in pod_of(made)

    def test_labels_of_driver_pods_are_those_that_scripts_look_for(self):
        (made,) = components(*CASES["default"])["Driver"].objects
        assert made["spec"]["template"]["metadata"]["labels"].items() >= {
            ("app", "npu-driver-daemonset"),
            ("app.kubernetes.io/name", "ascend-driver"),
        }

    def test_another_operator_changes_nothing_that_matters_to_a_loaded_driver(self):
        (old,) = components(*CASES["default"])["Driver"].objects
        newer = some_facts(operator_version="0.2.0", operator_image="registry.example.com/npu-operator:0.2.0")
        (new,) = components(a_spec(), newer)["Driver"].objects
        templates = [one["spec"]["template"] for one in (old, new)]
        assert templates[0]["metadata"] == templates[1]["metadata"]
        for template in templates:
            del template["spec"]["containers"][0]["image"]
        assert templates[0] == templates[1]

    @pytest.mark.parametrize(
        "changed",
        [
            {"driver": {"version": "25.3.RC1"}},
            {"driver": {"moduleOptions": {"drv_pcie_host": "speed=4"}}},
        ],
    )
    def test_what_matters_to_a_loaded_driver_can_be_read_from_its_pod(self, changed):
        annotations = []
        for spec in (a_spec(), a_spec(changed)):
            (made,) = components(spec, some_facts())["Driver"].objects
            annotations.append(made["spec"]["template"]["metadata"]["annotations"])
            assert driver.wanted_of(annotations[-1]) == driver.wanted_driver(spec, POOL_910B)
        assert annotations[0] != annotations[1]

    @pytest.mark.parametrize("changed", [{"registry": "mirror.example.com"}, {"driver": {"env": [{"name": "A"}]}}])
    def test_what_does_not_matter_to_a_loaded_driver_is_not_in_it(self, changed):
        assert driver.wanted_driver(a_spec(changed), POOL_910B) == driver.wanted_driver(a_spec(), POOL_910B)


class TestExporter:
    def test_has_a_service_on_the_port_that_dashboards_expect(self):
        made = {one["kind"]: one for one in components(*CASES["default"])["Exporter"].objects}
        (port,) = made["Service"]["spec"]["ports"]
        assert (made["Service"]["metadata"]["name"], port["port"], port["targetPort"]) == ("npu-exporter", 8082, "http")
        pod_labels = made["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
        assert pod_labels.items() >= made["Service"]["spec"]["selector"].items()
        (listening,) = pod_of(made["DaemonSet"])["containers"][0]["ports"]
        assert (listening["name"], listening["containerPort"]) == (port["targetPort"], exporter.PORT)

    def test_the_service_monitor_finds_the_service_and_carries_the_labels_a_prometheus_selects_by(self):
        made = {one["kind"]: one for one in components(*CASES["overridden"])["Exporter"].objects}
        monitor = made["ServiceMonitor"]
        assert monitor["metadata"]["name"] == "npu-exporter-servicemonitor"
        assert monitor["metadata"]["labels"]["release"] == "prom"
        wanted_labels = monitor["spec"]["selector"]["matchLabels"]
        assert made["Service"]["metadata"]["labels"].items() >= wanted_labels.items()
        assert monitor["spec"]["namespaceSelector"]["matchNames"] == [made["Service"]["metadata"]["namespace"]]
        assert monitor["spec"]["endpoints"][0]["interval"] == "10s"

    def test_a_label_for_prometheus_cannot_hide_the_object_from_the_operator(self):
        spec = a_spec({"exporter": {"serviceMonitor": {"labels": {"app.kubernetes.io/managed-by": "somebody"}}}})
        monitor = components(spec, some_facts())["Exporter"].objects[-1]
        assert monitor["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "npu-operator"

    @pytest.mark.parametrize(
        ("spec", "has_crd"), [({}, False), ({"exporter": {"serviceMonitor": {"enabled": False}}}, True)]
    )
    def test_there_is_no_service_monitor_without_its_kind_or_its_switch(self, spec, has_crd):
        made = components(a_spec(spec), some_facts(has_service_monitor_crd=has_crd))["Exporter"]
        assert [kind for kind, _ in kinds(made)] == ["DaemonSet", "Service"]


@pytest.mark.parametrize(("handler", "of_validator"), [("runc", None), ("ascend", "ascend")])
def test_the_runtime_class_follows_the_nodes_and_the_validator_goes_the_workloads_way(handler, of_validator):
    made = components(a_spec(), some_facts(runtime_handler=handler))
    (runtime_class,) = made["RuntimeClass"].objects
    assert (runtime_class["metadata"]["name"], runtime_class["handler"]) == ("ascend", handler)
    assert pod_of(made["Validator"].objects[0]).get("runtimeClassName") == of_validator


def test_each_agent_is_started_by_its_name():
    commands = {
        tuple(container["command"])
        for made in daemon_sets(*CASES["default"]).values()
        for container in pod_of(made)["containers"]
        if container["name"] != "payload"
    }
    assert commands == {
        ("npu-operator", "agent", name)
        for name in ("loader", "node-agent", "device-plugin", "exporter", "validator", "rebooter", "discovery")
    }


def test_loader_and_rebooter_are_never_killed_by_a_probe():
    probed = {
        container["name"]: set(container) & {"livenessProbe", "readinessProbe", "startupProbe"}
        for made in daemon_sets(*CASES["default"]).values()
        for container in pod_of(made)["containers"]
    }
    assert probed["loader"] == probed["rebooter"] == {"readinessProbe"}
    assert probed["payload"] == set()
    assert all("readinessProbe" in probes for name, probes in probed.items() if name != "payload")


class TestConflicts:
    @pytest.mark.parametrize("part", ["volcano", "clusterD", "ascendOperator"])
    def test_the_native_plugin_does_not_go_with_what_reads_mindclusters(self, part):
        spec = a_spec({"devicePlugin": {"flavor": "native"}, part: {"enabled": True}, "volcano": {"enabled": True}})
        made = components(spec, some_facts())["DevicePlugin"]
        assert [conflict.reason for conflict in made.conflicts] == [Reason.ComponentConflict]
        assert part in made.conflicts[0].message
        assert "set devicePlugin.flavor to auto" in made.conflicts[0].message
        assert made.objects == ()

    def test_all_parts_concerned_are_named_at_once(self):
        switches = {part: {"enabled": True} for part in ("volcano", "clusterD", "ascendOperator")}
        made = components(a_spec({"devicePlugin": {"flavor": "native"}, **switches}), some_facts())["DevicePlugin"]
        assert "ascendOperator, clusterD and volcano" in made.conflicts[0].message

    def test_cluster_d_needs_volcano(self):
        made = components(a_spec({"clusterD": {"enabled": True}}), some_facts())["ClusterD"]
        assert made.conflicts[0].reason is Reason.ComponentConflict
        assert "volcano.mode External" in made.conflicts[0].message

    def test_mindcluster_parts_are_refused_with_a_way_out_and_take_nothing_away(self):
        made = components(a_spec({"volcano": {"enabled": True}}), some_facts())
        assert [conflict.reason for conflict in made["Volcano"].conflicts] == [Reason.UnsupportedByVersion]
        assert "switch volcano.enabled off" in made["Volcano"].conflicts[0].message
        assert made["Volcano"].objects == ()
        assert made["DevicePlugin"].objects, "chips stay allocatable"

    @pytest.mark.parametrize(
        ("spec", "name"),
        [
            ({"devicePlugin": {"flavor": "mindcluster"}}, "DevicePlugin"),
            ({"exporter": {"flavor": "mindcluster"}}, "Exporter"),
        ],
    )
    def test_flavours_of_mindcluster_are_not_replaced_by_ours_in_silence(self, spec, name):
        made = components(a_spec(spec), some_facts())[name]
        assert made.is_on
        assert made.objects == ()
        assert made.conflicts[0].reason is Reason.UnsupportedByVersion

    def test_mindcluster_does_not_know_the_950_and_only_those_nodes_are_concerned(self):
        spec = a_spec({"nodeD": {"enabled": True}})
        found = components(spec, some_facts(pools=[POOL_910B, POOL_950]))["NodeD"].conflicts
        assert [(conflict.reason, conflict.chips) for conflict in found if conflict.chips] == [
            (Reason.UnsupportedByVersion, (POOL_950.chip,))
        ]

    @pytest.mark.parametrize("case", CASES)
    def test_a_spec_without_mindcluster_has_none(self, case):
        assert [conflict for component in wanted(*CASES[case]) for conflict in component.conflicts] == []


def test_facts_need_nothing_but_who_the_operator_is():
    facts = ClusterFacts(namespace="n", operator_image="i", operator_version="1", policy_name="p")
    assert components(a_spec(BUSY), facts)["Driver"].objects == ()
