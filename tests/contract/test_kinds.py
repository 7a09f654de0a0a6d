"""Rules and defaults of the built-in kinds that we write."""

from typing import Any

import pytest

from npu_operator.kube import api
from npu_operator.kube.api import Invalid, Object, Resource
from tests.contract.backends import Line, causes, in_both, refused
from tests.contract.bodies import a_daemon_set, a_pod


def container(**changes: Any) -> Object:
    full = {"name": "main", "image": "registry.example.com/main:1", **changes}
    return {key: value for key, value in full.items() if value is not None}


def pods_of(**pod: Any) -> Object:
    return a_daemon_set("one", **pod)


TEMPLATE = "spec.template.spec"
FIRST = f"{TEMPLATE}.containers[0]"
EVENT: Object = {
    "metadata": {"name": "one"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "example.com/contract",
    "reportingInstance": "one",
    "action": "Testing",
    "reason": "Tested",
    "type": "Normal",
    "note": "text",
    "regarding": {"kind": "Pod", "namespace": "elsewhere", "name": "p"},
}
NODE_RULE = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
WHAT = {"apiGroups": ["g"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["r"]}

REFUSED: list[tuple[str, Resource, Object, set[tuple[str, str]]]] = [
    (
        "a selector that does not select its pods",
        api.DAEMON_SETS,
        {**pods_of(), "spec": {**pods_of()["spec"], "selector": {"matchLabels": {"app": "two"}}}},
        {("FieldValueInvalid", "spec.template.metadata.labels")},
    ),
    ("no containers", api.DAEMON_SETS, pods_of(containers=[]), {("FieldValueRequired", f"{TEMPLATE}.containers")}),
    (
        "no image",
        api.DAEMON_SETS,
        pods_of(containers=[container(image=None)]),
        {("FieldValueRequired", f"{FIRST}.image")},
    ),
    (
        "a container name that is no label",
        api.DAEMON_SETS,
        pods_of(containers=[container(name="Main")]),
        {("FieldValueInvalid", f"{FIRST}.name")},
    ),
    (
        "two containers of one name",
        api.DAEMON_SETS,
        pods_of(containers=[container(), container()]),
        {("FieldValueDuplicate", f"{TEMPLATE}.containers[1].name")},
    ),
    (
        "a mount without a volume",
        api.DAEMON_SETS,
        pods_of(containers=[container(volumeMounts=[{"name": "v", "mountPath": "/v"}])]),
        {("FieldValueNotFound", f"{FIRST}.volumeMounts[0].name")},
    ),
    (
        "two mounts at one path",
        api.DAEMON_SETS,
        pods_of(
            containers=[container(volumeMounts=[{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}])],
            volumes=[{"name": "v", "emptyDir": {}}],
        ),
        {("FieldValueInvalid", f"{FIRST}.volumeMounts[1].mountPath")},
    ),
    (
        "two volumes of one name",
        api.DAEMON_SETS,
        pods_of(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
        {("FieldValueDuplicate", f"{TEMPLATE}.volumes[1].name")},
    ),
    (
        "no port number",
        api.DAEMON_SETS,
        pods_of(containers=[container(ports=[{"name": "http"}])]),
        {("FieldValueRequired", f"{FIRST}.ports[0].containerPort")},
    ),
    (
        "a port name in capitals",
        api.DAEMON_SETS,
        pods_of(containers=[container(ports=[{"containerPort": 80, "name": "HTTP1a"}])]),
        {("FieldValueInvalid", f"{FIRST}.ports[0].name")},
    ),
    (
        "an unknown pull policy",
        api.DAEMON_SETS,
        pods_of(containers=[container(imagePullPolicy="Sometimes")]),
        {("FieldValueNotSupported", f"{FIRST}.imagePullPolicy")},
    ),
    (
        "pods that end",
        api.DAEMON_SETS,
        pods_of(restartPolicy="Never"),
        {("FieldValueNotSupported", f"{TEMPLATE}.restartPolicy")},
    ),
    (
        "a broken share of a chip",
        api.DAEMON_SETS,
        pods_of(containers=[container(resources={"limits": {"example.com/chip": "1500m"}})]),
        {("FieldValueInvalid", f"{FIRST}.resources.limits[example.com/chip]")},
    ),
    (
        "fewer chips requested than limited",
        api.DAEMON_SETS,
        pods_of(
            containers=[container(resources={"limits": {"example.com/c": "2"}, "requests": {"example.com/c": "1"}})]
        ),
        {("FieldValueInvalid", f"{FIRST}.resources.requests")},
    ),
    (
        "an env value and a source",
        api.DAEMON_SETS,
        pods_of(
            containers=[
                container(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}])
            ]
        ),
        {("FieldValueInvalid", f"{FIRST}.env[0].valueFrom")},
    ),
    (
        "a node selector that is no label",
        api.DAEMON_SETS,
        pods_of(nodeSelector={"a": "has space"}),
        {("FieldValueInvalid", f"{TEMPLATE}.nodeSelector")},
    ),
    (
        "an unknown way of updating",
        api.DAEMON_SETS,
        {**pods_of(), "spec": {**pods_of()["spec"], "updateStrategy": {"type": "Whenever"}}},
        {("FieldValueNotSupported", "spec.updateStrategy")},
    ),
    ("a handler with a capital", api.RUNTIME_CLASSES, {"handler": "Ascend"}, {("FieldValueInvalid", "handler")}),
    (
        "a lease of no time",
        api.LEASES,
        {"spec": {"leaseDurationSeconds": 0}},
        {("FieldValueInvalid", "spec.leaseDurationSeconds")},
    ),
    (
        "a lease with negative changes",
        api.LEASES,
        {"spec": {"leaseTransitions": -1}},
        {("FieldValueInvalid", "spec.leaseTransitions")},
    ),
    (
        "a budget with both limits",
        api.POD_DISRUPTION_BUDGETS,
        {"spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {}}},
        {("FieldValueInvalid", "spec")},
    ),
    (
        "a key with a space",
        api.CONFIG_MAPS,
        {"data": {"a b": "c"}},
        {("FieldValueInvalid", "data[a b]")},
    ),
    (
        "a service whose name begins with a digit",
        api.SERVICES,
        {"metadata": {"name": "9one"}, "spec": {"ports": [{"port": 80}]}},
        {("FieldValueInvalid", "metadata.name")},
    ),
    (
        "two ports of a service without names",
        api.SERVICES,
        {"spec": {"ports": [{"port": 80}, {"port": 81}]}},
        {("FieldValueRequired", "spec.ports[0].name"), ("FieldValueRequired", "spec.ports[1].name")},
    ),
    (
        "a role without verbs",
        api.ROLES,
        {"rules": [{"apiGroups": [""], "resources": ["nodes"]}]},
        {("FieldValueRequired", "rules[0].verbs")},
    ),
    (
        "a role without groups and resources",
        api.ROLES,
        {"rules": [{"verbs": ["get"]}]},
        {("FieldValueRequired", "rules[0].apiGroups"), ("FieldValueRequired", "rules[0].resources")},
    ),
    ("a role with a slash", api.CLUSTER_ROLES, {"metadata": {"name": "a/b"}}, {("FieldValueInvalid", "metadata.name")}),
    (
        "a binding to no role",
        api.CLUSTER_ROLE_BINDINGS,
        {"roleRef": {"kind": "Thing", "name": ""}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]},
        {
            ("FieldValueNotSupported", "roleRef.kind"),
            ("FieldValueRequired", "roleRef.name"),
            ("FieldValueRequired", "subjects[0].namespace"),
        },
    ),
    (
        "a policy about nothing",
        api.VALIDATING_ADMISSION_POLICIES,
        {"spec": {}},
        {
            ("FieldValueRequired", "spec.matchConstraints"),
            ("FieldValueRequired", "spec.validations"),
            ("FieldValueRequired", "spec.auditAnnotations"),
        },
    ),
    (
        "a policy binding without an action",
        api.VALIDATING_ADMISSION_POLICY_BINDINGS,
        {"spec": {"policyName": "one"}},
        {("FieldValueRequired", "spec.validationActions")},
    ),
    (
        "an event without a time",
        api.EVENTS,
        {key: value for key, value in EVENT.items() if key != "eventTime"},
        {("FieldValueRequired", "eventTime"), ("FieldValueInvalid", "involvedObject.namespace")},
    ),
    (
        "an event without a reporter",
        api.EVENTS,
        {key: value for key, value in EVENT.items() if not key.startswith("reporting")},
        {
            ("FieldValueRequired", "reportingController"),
            ("FieldValueInvalid", "reportingController"),
            ("FieldValueRequired", "reportingInstance"),
        },
    ),
    (
        "an event without action and reason",
        api.EVENTS,
        {key: value for key, value in EVENT.items() if key not in ("action", "reason")},
        {("FieldValueRequired", "action"), ("FieldValueRequired", "reason")},
    ),
    (
        "an event about a node outside of default",
        api.EVENTS,
        {**EVENT, "regarding": {"kind": "Node", "name": "a1"}},
        {("FieldValueInvalid", "involvedObject.namespace")},
    ),
    (
        "an event with a series of one",
        api.EVENTS,
        {**EVENT, "series": {"count": 1}},
        {("FieldValueInvalid", "series.count"), ("FieldValueRequired", "series.lastObservedTime")},
    ),
    ("an event of another type", api.EVENTS, {**EVENT, "type": "Bad"}, {("FieldValueInvalid", "type")}),
    ("an event that tells too much", api.EVENTS, {**EVENT, "note": "x" * 1025}, {("FieldValueInvalid", "message")}),
    (
        "a namespace with a dot",
        api.NAMESPACES,
        {"metadata": {"name": "a.b"}},
        {("FieldValueInvalid", "metadata.name")},
    ),
    (
        "a taint of unknown effect",
        api.NODES,
        {"spec": {"taints": [{"key": "a", "effect": "Never"}]}},
        {("FieldValueNotSupported", "metadata.taints[0].effect")},
    ),
    (
        "a tolerance for everything without an operator",
        api.PODS,
        a_pod("one", tolerations=[{"effect": "NoSchedule"}]),
        {("FieldValueInvalid", "spec.tolerations[0].operator")},
    ),
]


@pytest.mark.parametrize(
    ("resource", "body", "wanted"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
def test_refused(backend, resource: Resource, body: Object, wanted: set[tuple[str, str]]) -> None:
    async def scenario(c: Line) -> None:
        name = c.name("one").lower() if not resource.namespaced else "one"
        error = await refused(c.create(resource, {"metadata": {"name": name}, **body}))
        assert isinstance(error, Invalid)
        assert causes(error) == wanted

    backend.run(scenario)


def without_system_fields(body: Object) -> Object:
    meta = {
        key: value
        for key, value in body["metadata"].items()
        if key not in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace")
    }
    return {**body, "metadata": meta}


@in_both
async def test_a_daemon_set_with_everything_we_use_gets_these_defaults(c: Line) -> None:
    main = container(
        env=[{"name": "A", "value": ""}, {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        livenessProbe={"httpGet": {"port": 80}},
        ports=[{"containerPort": 80}],
        securityContext={"privileged": False},
        resources={"limits": {"cpu": "1500m", "memory": "1024Mi"}, "requests": {"cpu": "0.1"}},
        volumeMounts=[{"name": "h", "mountPath": "/h", "readOnly": False}],
        args=[],
    )
    body = pods_of(
        containers=[main],
        initContainers=[{"name": "first", "image": "registry.example.com:5000/first"}],
        hostNetwork=True,
        hostPID=False,
        serviceAccountName="agent",
        tolerations=[],
        affinity={},
        volumes=[
            {"name": "h", "hostPath": {"path": "/h"}},
            {"name": "e", "emptyDir": {}},
            {"name": "c", "configMap": {"name": "x"}},
            {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
    )
    made = await c.create(api.DAEMON_SETS, body)
    assert made["spec"] == {
        "selector": {"matchLabels": {"app": "one"}},
        "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "template": {
            "metadata": {"labels": {"app": "one"}},
            "spec": {
                "nodeSelector": {"contract.example.com/nowhere": "true"},
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.example.com/main:1",
                        "imagePullPolicy": "IfNotPresent",
                        "env": [
                            {"name": "A"},
                            {
                                "name": "N",
                                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}},
                            },
                        ],
                        "livenessProbe": {
                            "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                            "timeoutSeconds": 1,
                            "periodSeconds": 10,
                            "successThreshold": 1,
                            "failureThreshold": 3,
                        },
                        "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        "securityContext": {"privileged": False},
                        "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "100m"}},
                        "volumeMounts": [{"name": "h", "mountPath": "/h"}],
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                    }
                ],
                "initContainers": [
                    {
                        "name": "first",
                        "image": "registry.example.com:5000/first",
                        "imagePullPolicy": "Always",
                        "resources": {},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                    }
                ],
                "hostNetwork": True,
                "serviceAccountName": "agent",
                "serviceAccount": "agent",
                "affinity": {},
                "dnsPolicy": "ClusterFirst",
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
                "volumes": [
                    {"name": "h", "hostPath": {"path": "/h", "type": ""}},
                    {"name": "e", "emptyDir": {}},
                    {"name": "c", "configMap": {"name": "x", "defaultMode": 420}},
                    {
                        "name": "t",
                        "projected": {
                            "defaultMode": 420,
                            "sources": [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}],
                        },
                    },
                ],
            },
        },
    }
    zeros = {key: made["status"][key] for key in ("currentNumberScheduled", "desiredNumberScheduled", "numberReady")}
    assert set(zeros.values()) == {0}


@in_both
async def test_an_on_delete_daemon_set_has_no_rolling_part(c: Line) -> None:
    body = a_daemon_set("one")
    body["spec"]["updateStrategy"] = {"type": "OnDelete"}
    assert (await c.create(api.DAEMON_SETS, body))["spec"]["updateStrategy"] == {"type": "OnDelete"}


@in_both
async def test_a_pods_defaults(c: Line) -> None:
    main = container(resources={"limits": {"cpu": "2", "memory": "1Gi", "huawei.com/Ascend910": "8"}})
    body = a_pod("one", containers=[main], priorityClassName="system-node-critical")
    made = await c.create(api.PODS, body)
    spec, status = made["spec"], made["status"]
    assert spec["containers"][0]["resources"]["requests"] == main["resources"]["limits"]
    assert [each["key"].rpartition("/")[2] for each in spec["tolerations"]] == ["not-ready", "unreachable"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (2_000_001_000, "PreemptLowerPriority")
    assert spec["enableServiceLinks"] is True
    assert status == {"phase": "Pending", "qosClass": "Guaranteed"}
    on_host = a_pod("two", hostNetwork=True, containers=[container(ports=[{"containerPort": 80}])])
    made = await c.create(api.PODS, on_host)
    assert made["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    await c.delete(api.PODS, "two", grace_s=0)
    await c.delete(api.PODS, "one", grace_s=0)


@in_both
async def test_defaults_of_small_kinds(c: Line) -> None:
    service = await c.create(api.SERVICES, {"metadata": {"name": "one"}, "spec": {"ports": [{"port": 80}]}})
    address = service["spec"].pop("clusterIP")
    assert service["spec"] == {
        "clusterIPs": [address],
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }
    assert (await c.create(api.SECRETS, {"metadata": {"name": "one"}}))["type"] == "Opaque"
    reference = {"kind": "Role", "name": "r"}
    subjects = [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}, {"kind": "User", "name": "u"}]
    binding = await c.create(
        api.ROLE_BINDINGS, {"metadata": {"name": "one"}, "roleRef": reference, "subjects": subjects}
    )
    assert binding["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert [each.get("apiGroup", "") for each in binding["subjects"]] == ["", "rbac.authorization.k8s.io"]
    name = c.name("policy")
    validation = {"matchConstraints": {"resourceRules": [WHAT]}, "validations": [{"expression": "true"}]}
    policy = await c.create(api.VALIDATING_ADMISSION_POLICIES, {"metadata": {"name": name}, "spec": validation})
    assert policy["spec"] == {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [{**WHAT, "scope": "*"}],
        },
        "validations": [{"expression": "true"}],
    }
    bound = {"policyName": name, "validationActions": ["Deny"]}
    made = await c.create(api.VALIDATING_ADMISSION_POLICY_BINDINGS, {"metadata": {"name": name}, "spec": bound})
    assert without_system_fields(made)["metadata"] == {"name": name, "generation": 1}
    await c.delete(api.VALIDATING_ADMISSION_POLICY_BINDINGS, name)
    await c.delete(api.VALIDATING_ADMISSION_POLICIES, name)


@in_both
async def test_a_daemon_sets_selector_never_changes(c: Line) -> None:
    await c.create(api.DAEMON_SETS, a_daemon_set("one"))
    other = {"matchLabels": {"app": "two"}}
    template = {"metadata": {"labels": {"app": "two"}}}
    error = await refused(c.patch(api.DAEMON_SETS, "one", {"spec": {"selector": other, "template": template}}))
    assert isinstance(error, Invalid)
    assert causes(error) == {("FieldValueInvalid", "spec.selector")}
    assert "field is immutable" in str(error)


@in_both
async def test_a_runtime_classs_handler_never_changes(c: Line) -> None:
    name = c.name("ascend")
    await c.create(api.RUNTIME_CLASSES, {"metadata": {"name": name}, "handler": "runc"})
    for call in (
        c.patch(api.RUNTIME_CLASSES, name, {"handler": "ascend"}),
        c.apply(api.RUNTIME_CLASSES, {"metadata": {"name": name}, "handler": "ascend"}),
    ):
        error = await refused(call)
        assert (error.status, causes(error)) == (422, {("FieldValueInvalid", "handler")})
        assert "field is immutable" in str(error)
    await c.delete(api.RUNTIME_CLASSES, name)


@in_both
async def test_a_role_of_a_binding_never_changes(c: Line) -> None:
    reference = {"kind": "Role", "name": "r"}
    await c.create(api.ROLE_BINDINGS, {"metadata": {"name": "one"}, "roleRef": reference})
    error = await refused(c.patch(api.ROLE_BINDINGS, "one", {"roleRef": {"name": "other"}}))
    assert causes(error) == {("FieldValueInvalid", "roleRef")}


@in_both
async def test_a_pod_changes_little_but_its_image(c: Line) -> None:
    await c.create(api.PODS, a_pod("one"))
    error = await refused(c.patch(api.PODS, "one", {"spec": {"nodeName": "elsewhere"}}))
    assert causes(error) == {("FieldValueForbidden", "spec")}
    image = {"spec": {"containers": [{"name": "main", "image": "other:2"}]}}
    changed = await c.patch(api.PODS, "one", image)
    assert changed["spec"]["containers"][0]["image"] == "other:2"
    assert changed["metadata"]["generation"] == 2
    await c.delete(api.PODS, "one", grace_s=0)


@in_both
async def test_an_event_grows_by_its_series_only(c: Line) -> None:
    await c.create(api.EVENTS, EVENT)
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    assert (await c.patch(api.EVENTS, "one", series))["series"]["count"] == 2
    error = await refused(c.patch(api.EVENTS, "one", {"note": "other"}))
    assert causes(error) == {("FieldValueInvalid", "message")}
    about_a_node = {**EVENT, "metadata": {"generateName": "contract-"}, "regarding": {"kind": "Node", "name": "a1"}}
    body = {"apiVersion": api.EVENTS.api_version, "kind": "Event", **about_a_node}
    await c.cluster.create(api.EVENTS, body, "default", manager="m")


@in_both
async def test_times_of_leases_have_microseconds(c: Line) -> None:
    good = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.123456Z"}
    made = await c.create(api.LEASES, {"metadata": {"name": "one"}, "spec": good})
    assert made["spec"] == good
    released = await c.patch(api.LEASES, "one", {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
    assert released["spec"]["holderIdentity"] == ""
    error = await refused(c.patch(api.LEASES, "one", {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}))
    assert (error.status, causes(error)) == (422, {("FieldValueInvalid", "patch")})


@in_both
async def test_a_number_that_is_no_quantity_is_refused(c: Line) -> None:
    name = c.name("node")
    error = await refused(c.create(api.NODES, {"metadata": {"name": name}, "status": {"capacity": {"cpu": "lots"}}}))
    assert (error.status, error.reason) == (400, "BadRequest")


@in_both
async def test_a_value_of_another_type_is_a_bad_request(c: Line) -> None:
    body = a_daemon_set("one", tolerations={"key": "a"})
    error = await refused(c.create(api.DAEMON_SETS, body))
    assert (error.status, error.reason) == (400, "BadRequest")


@in_both
async def test_a_pod_of_an_unknown_priority_class_is_forbidden(c: Line) -> None:
    error = await refused(c.create(api.PODS, a_pod("one", priorityClassName="nobody-knows-it")))
    assert (error.status, error.reason) == (403, "Forbidden")
    assert "no PriorityClass with name nobody-knows-it was found" in str(error)
