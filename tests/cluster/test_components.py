"""What we deploy, on a real API server: accepted without a warning, kept as it was written, and fenced in.

Everything is applied by the operator's own ServiceAccount with the rights that `install.yaml` gives it.
"""

import json
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

import npu_operator
from npu_operator.cli.manifests import install_yaml
from npu_operator.components import admission, operator_manifests
from npu_operator.components.operator_manifests import Install
from npu_operator.components.quantity import canonical
from npu_operator.components.rbac import RBAC_GROUP, WITH_RIGHTS
from npu_operator.kube import apply
from npu_operator.model import names
from npu_operator.operator.resources import NPU_NODES as NPU_NODE_RESOURCE
from npu_operator.operator.resources import resource_of
from testbed import Unavailable
from testbed.control_plane import ADMIN, ControlPlane
from tests.unit.components.inputs import BUSY, POOL_310P, POOL_910B, POOL_950, a_spec, objects, some_facts
from tests.unit.components.test_quantity import PAIRS

pytestmark = pytest.mark.cluster

NAMESPACE = "npu-operator"
HASH = "npu-operator.alauda.io/applied"
LIMIT_S = 30.0
MERGE = "application/merge-patch+json"
NPU_NODES = NPU_NODE_RESOURCE.path()
SPECS = {
    "default": (a_spec(), some_facts()),
    "everything said": (
        a_spec(BUSY),
        some_facts(pools=[POOL_910B, POOL_310P, POOL_950], runtime_handler="ascend", operator_image="npu-operator:2"),
    ),
    "passthrough": (a_spec({"driver": {"enabled": False}, "discovery": "Off"}), some_facts(pools_to_keep=[POOL_910B])),
}

# The part of the Prometheus operator's definition that we use, with its types; unknown fields are refused.
_TEXTS = {"type": "array", "items": {"type": "string"}}
_SELECTOR = {
    "type": "object",
    "properties": {"matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}},
}
_ENDPOINT = {
    "type": "object",
    "properties": {
        "honorLabels": {"type": "boolean"},
        "interval": {"type": "string", "pattern": "^(0|(([0-9]+)(ms|[smhdwy]))+)$"},
        "path": {"type": "string"},
        "port": {"type": "string"},
        "relabelings": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "action": {"type": "string", "default": "replace"},
                    "sourceLabels": _TEXTS,
                    "targetLabel": {"type": "string"},
                },
            },
        },
    },
}
SERVICE_MONITOR_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "names": {"kind": "ServiceMonitor", "plural": "servicemonitors"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["endpoints", "selector"],
                                "properties": {
                                    "endpoints": {"type": "array", "items": _ENDPOINT},
                                    "namespaceSelector": {"type": "object", "properties": {"matchNames": _TEXTS}},
                                    "selector": _SELECTOR,
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


class Api:
    """Requests as one user; a warning of the server is as bad as an error."""

    def __init__(self, cluster: ControlPlane, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        trusted = ssl.create_default_context(cafile=str(cluster.ca_file))
        self.client = httpx2.Client(base_url=cluster.api_url, headers=headers, verify=trusted, trust_env=False)

    def send(self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **query: str) -> Any:
        return self.client.request(method, path, json=body, headers={"Content-Type": kind}, params=query, timeout=30.0)

    def ok(self, method: str, path: str, body: Any = None, **more: str) -> Any:
        answer = self.send(method, path, body, **more)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        assert "warning" not in answer.headers, f"{method} {path}: {answer.headers['warning']}"
        return answer.json()

    def apply(self, body: Any, **query: str) -> Any:
        more = {"kind": "application/apply-patch+yaml", "fieldManager": "npu-operator/components", "force": "true"}
        return self.ok("PATCH", path_of(body), body, **more, fieldValidation="Strict", **query)


def path_of(body: Any) -> str:
    metadata = body["metadata"]
    return resource_of(body["apiVersion"], body["kind"]).path(metadata.get("namespace"), metadata["name"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    try:
        plane = ControlPlane()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with plane:
        yield plane


@pytest.fixture(scope="module")
def user(cluster: ControlPlane) -> Iterator[Callable[[str], Api]]:
    """Whoever has this token; connections end with the module."""
    made: list[Api] = []

    def make(token: str) -> Api:
        made.append(Api(cluster, token))
        return made[-1]

    yield make
    for api in made:
        api.client.close()


@pytest.fixture(scope="module")
def admin(cluster, user) -> Api:
    return user(cluster.token(ADMIN))


@pytest.fixture(scope="module")
def operator(cluster, user) -> Api:
    """The operator's own account, after an installation the way the docs say it."""
    text = install_yaml(Install(version=npu_operator.__version__))
    cluster.kubectl("apply", "--server-side", "--warnings-as-errors", "-f", "-", input=text)
    cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(SERVICE_MONITOR_CRD))
    for crd in ("servicemonitors.monitoring.coreos.com", "npunodes.npu-operator.alauda.io"):
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{crd}", "--timeout=30s")
    return user(cluster.service_account_token(NAMESPACE, names.DEPLOYMENT_OPERATOR))


def test_an_installation_applied_twice_changes_nothing(cluster, operator):
    text = install_yaml(Install(version=npu_operator.__version__))
    again = cluster.kubectl("apply", "--server-side", "--warnings-as-errors", "-f", "-", input=text)
    assert again
    versions = [
        cluster.kubectl("get", "clusterrole,crd", "-o", "jsonpath={.items[*].metadata.generation}")
        for _ in range(2)
        if cluster.kubectl("apply", "--server-side", "-f", "-", input=text)
    ]
    assert versions[0] == versions[1]


def test_the_operators_own_pod_fits_the_strictest_pod_security_level(admin, operator):
    strict = {"pod-security.kubernetes.io/enforce": "restricted"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": strict}}
    admin.ok("POST", "/api/v1/namespaces", space)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": names.DEPLOYMENT_OPERATOR}}
    admin.ok("POST", "/api/v1/namespaces/strict/serviceaccounts", account)
    installed = operator_manifests.build(Install(version=npu_operator.__version__, namespace="strict"))
    (template,) = (one["spec"]["template"] for one in installed if one["kind"] == "Deployment")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"}, "spec": template["spec"]}
    admin.ok("POST", "/api/v1/namespaces/strict/pods", pod, dryRun="All")


@pytest.mark.parametrize("case", SPECS)
class TestWhatASpecAsksFor:
    def test_is_accepted_without_a_warning_and_kept_as_it_was_written(self, operator, case):
        for one in objects(*SPECS[case]):
            self.replace_if_immutable(operator, one)
            body = apply.marked(one, HASH)
            operator.apply(body, dryRun="All")
            operator.apply(body)
            live = operator.ok("GET", path_of(one))
            assert apply.needs_apply(one, live, annotation=HASH) is None, path_of(one)

    def test_applied_again_is_no_change(self, operator, case):
        for one in objects(*SPECS[case]):
            self.replace_if_immutable(operator, one)
            operator.apply(one)
            before, after = (self.without_status(operator.apply(one)) for _ in range(2))
            assert before == after

    def without_status(self, live):
        """What the controllers write beside us does not count."""
        fields = [one for one in live["metadata"].pop("managedFields") if one.get("subresource") != "status"]
        del live["metadata"]["resourceVersion"]
        return {**live, "status": None}, fields

    def replace_if_immutable(self, operator, one):
        if one["kind"] == "RuntimeClass":
            operator.send("DELETE", path_of(one))


def test_quantities_are_written_as_the_api_server_keeps_them(admin, operator):
    ours = [canonical(written) for written, _ in PAIRS]
    assert kept_by(admin, ours) == ours
    theirs = kept_by(admin, [str(written) for written, _ in PAIRS])
    assert [canonical(amount) for amount in theirs] == ours, "the amounts are the same"


def kept_by(admin, amounts):
    """What the server makes of requests for memory. It warns of fractions of bytes, which is not what is asked here."""
    containers = [
        {"name": f"c{number}", "image": "i", "resources": {"requests": {"memory": amount}}}
        for number, amount in enumerate(amounts)
    ]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": {"containers": containers}}
    answer = admin.send("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod, dryRun="All")
    assert answer.is_success, answer.text
    return [one["resources"]["requests"]["memory"] for one in answer.json()["spec"]["containers"]]


@pytest.fixture(scope="module")
def fenced(admin, operator) -> None:
    """Two nodes, our policy, and a role that lets agents do anything to NPUNodes: the fence alone is what refuses."""
    for one in objects(*SPECS["default"]):
        if one["kind"] == "RuntimeClass":
            operator.send("DELETE", path_of(one))
        operator.apply(one)
    for name in ("a7", "b1"):
        admin.ok("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    wide = {"apiVersion": f"{RBAC_GROUP}/v1", "metadata": {"name": "far-too-wide"}}
    rule = {"apiGroups": [names.GROUP], "resources": ["npunodes", "npunodes/status"], "verbs": ["*"]}
    admin.ok("POST", f"/apis/{RBAC_GROUP}/v1/clusterroles", {**wide, "kind": "ClusterRole", "rules": [rule]})
    bound = {
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "far-too-wide"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE} for name in WITH_RIGHTS],
    }
    admin.ok("POST", f"/apis/{RBAC_GROUP}/v1/clusterrolebindings", {**wide, "kind": "ClusterRoleBinding", **bound})


@pytest.fixture(scope="module")
def npu_nodes(operator, fenced) -> None:
    for name in ("a7", "b1"):
        operator.ok("POST", NPU_NODES, an_npu_node(name))
        operator.ok("PATCH", f"{NPU_NODES}/{name}/status", {"status": {"plan": {"state": "Ready"}}}, kind=MERGE)


@pytest.fixture(scope="module")
def agent_on(user, admin, fenced) -> Callable[[str, str], Api]:
    """An agent with a token as the kubelet asks for it: bound to a pod, which is bound to a node."""

    def make(account: str, node: str) -> Api:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": f"{account}-"},
            "spec": {"nodeName": node, "serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]},
        }
        made = admin.ok("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod)["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": made["name"], "uid": made["uid"]}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        agent = user(admin.ok("POST", path, asked)["status"]["token"])
        wait_for_the_fence(agent)
        return agent

    return make


def wait_for_the_fence(agent: Api) -> None:
    """A new policy reaches admission within a second or so."""
    deadline = time.monotonic() + LIMIT_S
    while "this token belongs to" not in (said := refusal(create(agent, "nobody"))):
        assert time.monotonic() < deadline, f"the policy does not refuse: {said}"
        time.sleep(0.1)


def an_npu_node(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": names.API_VERSION, "kind": names.NODE_KIND, "metadata": {"name": name}, **more}


def create(api: Api, name: str, **more: Any) -> httpx2.Response:
    return api.send("POST", NPU_NODES, an_npu_node(name, **more), dryRun="All")


def write_status(api: Api, name: str, status: Any) -> httpx2.Response:
    return api.send("PATCH", f"{NPU_NODES}/{name}/status", {"status": status}, kind=MERGE, dryRun="All")


def refusal(answer: httpx2.Response) -> str:
    """The server's words; they say so when nothing was refused."""
    refused = answer.status_code == httpx2.codes.FORBIDDEN
    return str(answer.json()["message"]) if refused else f"{answer.status_code}: {answer.text}"


class TestFence:
    """The admission policy, asked by dry runs."""

    def test_its_expressions_fit_the_types_they_speak_about(self, admin, fenced):
        path = f"/apis/{admission.GROUP}/v1/validatingadmissionpolicies/{admission.NAME}"
        deadline = time.monotonic() + LIMIT_S
        while "typeChecking" not in (status := admin.ok("GET", path).get("status", {})):
            assert time.monotonic() < deadline, status
            time.sleep(0.1)
        assert status["typeChecking"].get("expressionWarnings", []) == []

    def test_an_agent_reports_what_it_found_on_its_own_node(self, agent_on, npu_nodes):
        found = {"found": {"bootId": "b", "summary": "8x910B3"}}
        answer = write_status(agent_on("npu-node-agent", "a7"), "a7", found)
        assert answer.is_success, answer.text
        assert answer.json()["status"]["plan"]["state"] == "Ready"

    def test_an_agent_cannot_report_for_another_node(self, agent_on, npu_nodes):
        said = refusal(write_status(agent_on("npu-node-agent", "a7"), "b1", {"found": {"bootId": "b"}}))
        assert "this token belongs to node a7, the object is b1" in said

    def test_a_token_without_a_node_can_report_for_none(self, cluster, user, agent_on, npu_nodes):
        agent_on("npu-node-agent", "a7")  # so the policy is in force
        loose = user(cluster.service_account_token(NAMESPACE, "npu-node-agent"))
        assert "this token belongs to no node" in refusal(write_status(loose, "a7", {"found": {"bootId": "b"}}))

    def test_an_agent_cannot_write_the_operators_half_of_the_status(self, agent_on, npu_nodes):
        said = refusal(write_status(agent_on("npu-node-agent", "a7"), "a7", {"plan": {"state": "Free"}}))
        assert "status.plan to the operator" in said

    def test_an_agent_cannot_wipe_the_operators_half_of_the_status(self, agent_on, npu_nodes):
        said = refusal(write_status(agent_on("npu-node-agent", "a7"), "a7", {"plan": None}))
        assert "status.plan to the operator" in said

    @pytest.mark.parametrize(
        ("method", "body"),
        [
            ("PATCH", {"spec": {"isolatedChips": ["Ascend910-3"]}}),
            ("PATCH", {"metadata": {"labels": {"a": "b"}}}),
            ("DELETE", None),
        ],
    )
    def test_an_agent_writes_nothing_of_its_object_but_the_status(self, agent_on, npu_nodes, method, body):
        answer = agent_on("npu-node-agent", "a7").send(method, f"{NPU_NODES}/a7", body, kind=MERGE, dryRun="All")
        assert "and write its status, nothing else" in refusal(answer)

    def test_discovery_announces_its_own_node(self, admin, agent_on):
        admin.ok("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c2"}})
        answer = create(agent_on("npu-discovery", "c2"), "c2")
        assert answer.is_success, answer.text

    @pytest.mark.parametrize(
        ("name", "more", "said"),
        [
            ("c3", {}, "this token belongs to node a7, the object is c3"),
            ("a7", {"spec": {"isolatedChips": ["Ascend910-0"]}}, "creates an empty NPUNode"),
            ("a7", {"metadata": {"name": "a7", "finalizers": ["example.com/stays"]}}, "creates an empty NPUNode"),
        ],
    )
    def test_discovery_announces_nothing_else(self, agent_on, name, more, said):
        assert said in refusal(create(agent_on("npu-discovery", "a7"), name, **more))

    def test_people_and_the_operator_pass_by(self, admin, operator, npu_nodes):
        for api in (admin, operator):
            isolated = {"spec": {"isolatedChips": ["Ascend910-3"]}}
            answer = api.send("PATCH", f"{NPU_NODES}/b1", isolated, kind=MERGE, dryRun="All")
            assert answer.is_success, answer.text


class TestRights:
    """Our own roles, without the fence's wide one: asked of the authorizer itself."""

    @pytest.mark.parametrize(
        ("account", "resource", "verb"),
        [
            ("npu-node-agent", "nodes", "patch"),
            ("npu-node-agent", "pods", "list"),
            ("npu-node-agent", "secrets", "get"),
            ("npu-rebooter", "nodes", "patch"),
            ("npu-rebooter", "nodes", "list"),
            ("npu-discovery", "nodes", "get"),
            ("npu-driver", "nodes", "get"),
            ("npu-device-plugin", "nodes", "get"),
            ("npu-exporter", "pods", "list"),
            ("npu-validator", "nodes", "get"),
            (names.DEPLOYMENT_OPERATOR, "nodes", "delete"),
            (names.DEPLOYMENT_OPERATOR, "secrets", "list"),
        ],
    )
    def test_what_nobody_granted_is_refused(self, admin, operator, account, resource, verb):
        assert not self.may(admin, account, {"resource": resource, "verb": verb, "namespace": NAMESPACE})

    def test_the_operator_cannot_give_away_what_it_has_not(self, operator):
        role = {
            "apiVersion": f"{RBAC_GROUP}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "npu-rebooter"},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}],
        }
        query = {"fieldManager": "x", "force": "true", "dryRun": "All"}
        answer = operator.send("PATCH", path_of(role), role, kind="application/apply-patch+yaml", **query)
        assert answer.status_code == httpx2.codes.FORBIDDEN
        assert "attempting to grant RBAC permissions not currently held" in answer.text

    def may(self, admin, account, attributes):
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{NAMESPACE}:{account}",
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": attributes,
            },
        }
        return admin.ok("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)["status"]["allowed"]
