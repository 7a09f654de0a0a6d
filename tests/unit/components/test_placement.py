"""What every pod of every component gets, component by component (none is forgotten: facts/peers.md A03–A06)."""

import pytest

from npu_operator.components import placement
from npu_operator.components.labels import MANAGED
from npu_operator.model import names
from npu_operator.model.parts import Affinity
from tests.unit.components.inputs import (
    BUSY,
    BUSY_FACTS,
    CASES,
    a_spec,
    daemon_sets,
    env_of,
    leaves,
    pod_of,
    some_facts,
)

DEFAULT = daemon_sets(*CASES["default"])
BUSY_SETS = daemon_sets(*CASES["overridden"])
OF_A_COMPONENT = [name for name in BUSY_SETS if name != names.DISCOVERY]
"""Discovery is a switch of the spec without a section of its own; it gets what `placement` says for all."""


def test_all_pods_there_are_appear_in_this_table():
    drivers = sum(name.startswith(names.DRIVER_PREFIX) for name in BUSY_SETS)
    assert drivers == len(BUSY_FACTS.pools)
    assert {name for name in BUSY_SETS if not name.startswith(names.DRIVER_PREFIX)} == {
        names.NODE_AGENT,
        names.DEVICE_PLUGIN,
        names.EXPORTER,
        names.VALIDATOR,
        names.REBOOTER,
        names.DISCOVERY,
    }


@pytest.mark.parametrize("name", BUSY_SETS)
class TestEveryPod:
    def test_pulls_with_the_secrets_of_the_spec(self, name):
        assert pod_of(BUSY_SETS[name])["imagePullSecrets"] == [{"name": "registry-login"}]

    def test_pulls_images_without_a_host_from_the_registry_of_the_spec(self, name):
        for container in pod_of(BUSY_SETS[name])["containers"]:
            assert container["image"].startswith("mirror.example.com:5000/hub/")

    def test_is_selected_by_labels_of_ours_and_of_the_admin(self, name):
        selector = pod_of(BUSY_SETS[name])["nodeSelector"]
        assert selector["npu-fleet"] == "one"
        assert set(selector) - {"npu-fleet", "team"} <= {names.NPU_PRESENT, names.POOL, "kubernetes.io/os"}

    def test_tolerates_the_taints_of_npu_nodes(self, name):
        tolerated = pod_of(BUSY_SETS[name])["tolerations"]
        for key in (*names.TAINT_KEYS_TOLERATED, *names.TAINTS_CONTROL_PLANE):
            assert {"key": key, "operator": "Exists"} in tolerated
        assert {"key": "device-plugin", "operator": "Equal", "value": "v2"} in tolerated

    def test_tolerates_our_own_taint_and_those_of_the_placement(self, name):
        tolerated = pod_of(BUSY_SETS[name])["tolerations"]
        assert {"key": "example.com/npu-only", "operator": "Exists"} in tolerated
        assert {"key": "maintenance", "operator": "Exists"} in tolerated

    def test_has_requests_and_a_bound_of_memory_unless_it_copies_files(self, name):
        for container in pod_of(DEFAULT.get(name, BUSY_SETS[name]))["containers"]:
            assert container["resources"]["requests"].keys() >= {"cpu", "memory"} or name in OF_A_COMPONENT
            assert "memory" in container["resources"].get("limits", {}) or container["name"] == "payload"

    def test_has_a_priority(self, name):
        expected = "our-class" if name in OF_A_COMPONENT else "fleet-class"
        assert pod_of(BUSY_SETS[name])["priorityClassName"] == expected

    def test_knows_its_node(self, name):
        for container in pod_of(BUSY_SETS[name])["containers"]:
            assert "NPU_NODE_NAME" in env_of(container)

    def test_has_a_security_context(self, name):
        pod = pod_of(BUSY_SETS[name])
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True

    def test_has_an_account_of_its_own(self, name):
        accounts = [pod_of(made)["serviceAccountName"] for key, made in BUSY_SETS.items() if "driver" not in key]
        assert len(accounts) == len(set(accounts))
        assert pod_of(BUSY_SETS[name])["serviceAccountName"].startswith("npu-")

    def test_carries_the_labels_by_which_it_is_found(self, name):
        made = BUSY_SETS[name]
        assert made["metadata"]["labels"].items() >= MANAGED.items()
        assert made["spec"]["template"]["metadata"]["labels"].items() >= MANAGED.items()

    def test_is_selected_by_its_own_daemon_set_alone(self, name):
        found = BUSY_SETS[name]["spec"]["template"]["metadata"]["labels"].items()
        selecting = [key for key, one in BUSY_SETS.items() if found >= one["spec"]["selector"]["matchLabels"].items()]
        assert selecting == [name]


@pytest.mark.parametrize("name", OF_A_COMPONENT)
class TestWhatAComponentSaysForItself:
    def test_selector_is_added_and_wins_over_the_placements(self, name):
        assert pod_of(BUSY_SETS[name])["nodeSelector"]["team"] == "blue"

    def test_tolerations_are_added(self, name):
        theirs = {"key": "team", "operator": "Equal", "value": "blue", "effect": "NoExecute", "tolerationSeconds": 60}
        assert theirs in pod_of(BUSY_SETS[name])["tolerations"]

    def test_affinity_is_taken_over(self, name):
        assert pod_of(BUSY_SETS[name])["affinity"] == BUSY["exporter"]["affinity"]

    def test_environment_is_merged_by_name(self, name):
        env = env_of(pod_of(BUSY_SETS[name])["containers"][0])  # fails on a doubled name
        assert env["HTTPS_PROXY"] == "http://proxy.example.com:3128"
        assert env["NPU_NAMESPACE"] == "x"

    def test_resources_replace_ours_by_name_in_canonical_form(self, name):
        resources = pod_of(BUSY_SETS[name])["containers"][0]["resources"]
        if name == names.REBOOTER:  # goes where the driver goes, but the driver's memory is the loader's
            assert resources["limits"] == {"memory": "128Mi"}
            return
        assert resources["limits"]["memory"] == "1Gi"
        assert resources["requests"] == {"cpu": "1"}


@pytest.mark.parametrize("name", [names.NODE_AGENT, names.DEVICE_PLUGIN, names.EXPORTER, names.VALIDATOR])
def test_an_image_in_the_spec_replaces_the_operators(name):
    container = pod_of(BUSY_SETS[name])["containers"][0]
    assert container["image"] == "mirror.example.com:5000/hub/others/agent:v9"
    assert container["imagePullPolicy"] == "Always"


def test_agents_run_from_the_operators_image_otherwise():
    images = {container["image"] for made in DEFAULT.values() for container in pod_of(made)["containers"]}
    assert {image for image in images if "ascend-driver" not in image} == {"registry.example.com/npu-operator:0.1.0"}


def test_no_label_of_somebody_else_decides_where_our_pods_run():
    for name, made in DEFAULT.items():
        pod = pod_of(made)
        if name == names.DISCOVERY:
            assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
            terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            assert terms == {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": names.NPU_PRESENT, "operator": "DoesNotExist"}]}]
            }
        else:
            assert set(pod["nodeSelector"]) <= {names.NPU_PRESENT, names.POOL}
            assert "affinity" not in pod


def test_a_limit_of_the_spec_drops_our_request_for_the_same_resource():
    spec = a_spec({"exporter": {"resources": {"limits": {"memory": "16Mi"}}}})
    resources = pod_of(daemon_sets(spec, some_facts())[names.EXPORTER])["containers"][0]["resources"]
    assert resources == {"limits": {"memory": "16Mi"}, "requests": {"cpu": "10m"}}


def test_a_limit_of_the_spec_never_takes_the_validators_chips_away():
    spec = a_spec({"validator": {"resources": {"limits": {"cpu": "2"}}}})
    limits = pod_of(daemon_sets(spec, some_facts())[names.VALIDATOR])["containers"][0]["resources"]["limits"]
    assert limits[names.VALIDATION_RESOURCE] == "1"


def test_the_same_toleration_said_twice_stands_once():
    same = {"key": "npu.huawei.com/npu", "operator": "Exists"}
    spec = a_spec({"placement": {"tolerations": [same]}, "exporter": {"tolerations": [same]}})
    assert pod_of(daemon_sets(spec, some_facts())[names.EXPORTER])["tolerations"].count(same) == 1


def test_discovery_keeps_away_from_labelled_nodes_on_every_way_an_affinity_offers():
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, {"matchFields": []}]
    wanted = Affinity(node_affinity={"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}})
    made = placement.affinity(wanted, never_on="gone")["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["matchExpressions"][-1] for term in made["nodeSelectorTerms"]] == [
        {"key": "gone", "operator": "DoesNotExist"}
    ] * 2
    assert terms[1] == {"matchFields": []}, "the spec is not written into"


@pytest.mark.parametrize("case", CASES)
def test_no_field_is_written_that_the_api_server_would_not_keep(case):
    for made in daemon_sets(*CASES[case]).values():
        for path, value in leaves(made):
            assert value not in ("", [], {}, None), f"{made['metadata']['name']}{path}"
