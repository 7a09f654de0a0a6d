"""What our pods may do on a node and at the API server: no more than product.md §3 gives them."""

import pytest

from npu_operator.components import admission, operator_manifests, operator_rights, rbac
from npu_operator.components.operator_manifests import Install
from npu_operator.model import names
from tests.unit.components.inputs import CASES, POOL_910B, a_spec, components, daemon_sets, objects, pod_of, some_facts

SETS = daemon_sets(*CASES["default"])
DRIVER = f"{names.DRIVER_PREFIX}{POOL_910B.hash}"
PRIVILEGED = {(DRIVER, "loader"), (names.NODE_AGENT, "agent"), (names.REBOOTER, "rebooter")}
CONTAINERS = [(name, container) for name, made in SETS.items() for container in pod_of(made)["containers"]]


def host_paths(name):
    """(path, may write) of a DaemonSet's host paths."""
    pod = pod_of(SETS[name])
    mounts = {mount["name"]: mount for container in pod["containers"] for mount in container["volumeMounts"]}
    volumes = [volume for volume in pod["volumes"] if "hostPath" in volume]
    return {(volume["hostPath"]["path"], not mounts[volume["name"]].get("readOnly", False)) for volume in volumes}


def test_only_loader_node_agent_and_rebooter_are_privileged():
    found = {(name, one["name"]) for name, one in CONTAINERS if one["securityContext"].get("privileged")}
    assert found == PRIVILEGED


@pytest.mark.parametrize(
    ("name", "container"), CONTAINERS, ids=lambda part: part if isinstance(part, str) else part["name"]
)
def test_whoever_is_not_privileged_cannot_become_so(name, container):
    security = container["securityContext"]
    if (name, container["name"]) in PRIVILEGED:
        return
    assert security["allowPrivilegeEscalation"] is False
    if name != names.VALIDATOR:  # must be able to do exactly what a workload can
        assert security["capabilities"]["drop"] == ["ALL"]


@pytest.mark.parametrize("name", [names.EXPORTER, names.DISCOVERY])
def test_exporter_and_discovery_run_as_nobody(name):
    (container,) = pod_of(SETS[name])["containers"]
    assert container["securityContext"]["runAsUser"] == 65534
    assert container["securityContext"]["runAsNonRoot"] is True
    assert "add" not in container["securityContext"]["capabilities"]


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        (DRIVER, {("/", True), ("/var/lib/Ascend/versions", True)}),
        (names.NODE_AGENT, {("/", True)}),
        (names.REBOOTER, {("/", True)}),
        (names.DEVICE_PLUGIN, {("/var/lib/kubelet/device-plugins", True), ("/run/ascend", False)}),
        (names.EXPORTER, {("/run/ascend", False)}),
        (names.VALIDATOR, {("/run/ascend", False), ("/run/ascend/validator", True)}),
        (names.DISCOVERY, {("/sys", False)}),
    ],
)
def test_a_pod_sees_no_more_of_the_host_than_it_needs(name, paths):
    assert host_paths(name) == paths


def test_only_the_loader_of_a_driver_pod_gets_the_host():
    loader, payload = pod_of(SETS[DRIVER])["containers"]
    assert [mount["mountPath"] for mount in loader["volumeMounts"]] == ["/host", "/run/agent"]
    assert [mount["mountPath"] for mount in payload["volumeMounts"]] == ["/var/lib/Ascend/versions"]


def test_processes_of_the_host_are_seen_only_where_its_namespaces_are_entered():
    assert {name for name, made in SETS.items() if pod_of(made).get("hostPID")} == {
        DRIVER,
        names.NODE_AGENT,
        names.REBOOTER,
    }


def test_what_must_come_up_after_a_boot_waits_for_no_pod_network_and_no_token():
    for name in (DRIVER, names.DEVICE_PLUGIN):
        assert pod_of(SETS[name])["hostNetwork"] is True
        assert pod_of(SETS[name])["automountServiceAccountToken"] is False


def test_only_who_talks_to_the_api_server_has_a_token():
    with_token = {name for name, made in SETS.items() if pod_of(made)["automountServiceAccountToken"]}
    assert with_token == {names.NODE_AGENT, names.REBOOTER, names.DISCOVERY}
    assert {pod_of(SETS[name])["serviceAccountName"] for name in with_token} == set(rbac.WITH_RIGHTS)


def grants(made):
    """(account, group/resource, verb) of all bindings among these objects."""
    rules = {(one["kind"], one["metadata"]["name"]): one["rules"] for one in made if one["kind"].endswith("Role")}
    return {
        (subject["name"], f"{group}/{resource}", verb)
        for one in made
        if one["kind"].endswith("Binding") and "roleRef" in one
        for subject in one["subjects"]
        for rule in rules[one["roleRef"]["kind"], one["roleRef"]["name"]]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_agents_have_exactly_these_rights():
    npunodes = "npu-operator.alauda.io/npunodes"
    assert grants(objects(*CASES["default"])) == {
        *(("npu-node-agent", "/nodes", verb) for verb in ("get", "list", "watch")),
        *(("npu-node-agent", npunodes, verb) for verb in ("get", "list", "watch")),
        ("npu-node-agent", f"{npunodes}/status", "patch"),
        ("npu-node-agent", "apps/daemonsets", "get"),
        ("npu-rebooter", "/nodes", "get"),
        ("npu-discovery", npunodes, "create"),
    }


def test_no_agent_may_write_a_node():
    writes = {"create", "update", "patch", "delete", "deletecollection"}
    assert not [grant for grant in grants(objects(*CASES["default"])) if "/nodes" in grant[1] and grant[2] in writes]


def test_every_account_with_rights_is_behind_the_fence():
    (policy,) = (one for one in objects(*CASES["default"]) if one["kind"] == "ValidatingAdmissionPolicy")
    (condition,) = policy["spec"]["matchConditions"]
    for account in rbac.WITH_RIGHTS:
        assert f"'system:serviceaccount:npu-operator:{account}'" in condition["expression"]
    assert policy["spec"]["failurePolicy"] == "Fail"


def test_the_fence_stands_before_anybody_gets_rights():
    kinds = [one["kind"] for one in components(*CASES["default"])["Rbac"].objects]
    assert kinds[:2] == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
    assert max(kinds.index(kind) for kind in kinds[:2]) < kinds.index("ClusterRoleBinding")


@pytest.mark.parametrize(
    ("spec", "gone"),
    [
        ({"driver": {"enabled": False}}, {"npu-driver", "npu-rebooter"}),
        ({"exporter": {"enabled": False}}, {"npu-exporter"}),
        ({"devicePlugin": {"enabled": False}}, {"npu-device-plugin", "npu-validator"}),
        ({"discovery": "Off"}, {"npu-discovery"}),
    ],
)
def test_rights_go_with_what_is_switched_off(spec, gone):
    made = objects(a_spec(spec), some_facts())
    accounts = {one["metadata"]["name"] for one in made if one["kind"] == "ServiceAccount"}
    assert {account.name for account in rbac.ACCOUNTS} - accounts == gone
    assert not {one["metadata"]["name"] for one in made if one["kind"].endswith("Role")} & gone


def allows(rules, group, resource, verb, name):
    return any(
        rule.group == group
        and resource in rule.resources
        and verb in rule.verbs
        and (not rule.only or name in rule.only)
        for rule in rules
    )


RESOURCE_OF_KIND = {
    "DaemonSet": ("apps", "daemonsets"),
    "Service": ("", "services"),
    "ServiceAccount": ("", "serviceaccounts"),
    "ServiceMonitor": ("monitoring.coreos.com", "servicemonitors"),
    "Role": ("rbac.authorization.k8s.io", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io", "rolebindings"),
    "ClusterRole": ("rbac.authorization.k8s.io", "clusterroles"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io", "clusterrolebindings"),
    "RuntimeClass": ("node.k8s.io", "runtimeclasses"),
    "ValidatingAdmissionPolicy": (admission.GROUP, "validatingadmissionpolicies"),
    "ValidatingAdmissionPolicyBinding": (admission.GROUP, "validatingadmissionpolicybindings"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_operator_may_apply_and_remove_everything_it_deploys(case):
    for one in objects(*CASES[case]):
        in_namespace = operator_rights.IN_NAMESPACE if "namespace" in one["metadata"] else ()
        rules = (*operator_rights.IN_CLUSTER, *in_namespace)
        for verb in ("get", "list", "watch", "create", "patch", "delete"):
            assert allows(rules, *RESOURCE_OF_KIND[one["kind"]], verb, one["metadata"]["name"]), (one["kind"], verb)


def test_the_operator_holds_every_right_that_it_grants():
    for account in rbac.ACCOUNTS:
        held = operator_rights.IN_CLUSTER
        for rules, holds in (
            (account.in_cluster, held),
            (account.in_namespace, (*held, *operator_rights.IN_NAMESPACE)),
        ):
            for rule in rules:
                for resource in rule.resources:
                    for verb in rule.verbs:
                        name = rule.only[0] if rule.only else ""
                        assert allows(holds, rule.group, resource, verb, name), (account.name, resource, verb)


def test_the_operator_has_no_right_with_a_wildcard_nor_one_to_raise_itself():
    for rule in (*operator_rights.IN_CLUSTER, *operator_rights.IN_NAMESPACE):
        assert "*" not in (rule.group, *rule.resources, *rule.verbs)
        assert not {"escalate", "bind", "impersonate", "update", "deletecollection"} & set(rule.verbs)


def test_the_operator_reads_secrets_of_its_own_namespace_one_by_one():
    rules = [
        rule for rule in (*operator_rights.IN_CLUSTER, *operator_rights.IN_NAMESPACE) if "secrets" in rule.resources
    ]
    assert [(rule in operator_rights.IN_NAMESPACE, rule.verbs) for rule in rules] == [(True, ("get",))]


def test_the_operators_pod_has_no_rights_on_its_node():
    (deployment,) = (one for one in operator_manifests.build(Install(version="1")) if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsGroup": 65534,
        "runAsNonRoot": True,
        "runAsUser": 65534,
    }
    assert "volumes" not in pod
    assert "hostNetwork" not in pod
