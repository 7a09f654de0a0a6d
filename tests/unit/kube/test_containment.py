"""Contained or not: defaults of the server and additions of others are no difference, a change of ours is one."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_operator.kube.containment import differences
from npu_operator.kube.quantity import is_same_quantity, quantity


def found(wanted: dict, live: dict) -> list[str]:
    return [str(difference) for difference in differences(wanted, live)]


def pod(**spec) -> dict:
    return {"spec": {"template": {"spec": spec}}}


def container(**fields) -> dict:
    return pod(containers=[{"name": "c", **fields}])


def limits(cpu: object) -> dict:
    return container(resources={"limits": {"cpu": cpu}})


def volume(**source) -> dict:
    return pod(volumes=[{"name": "other"}, {"name": "v", **source}])


def token(**fields) -> dict:
    return volume(projected={"sources": [{"serviceAccountToken": {"path": "t", **fields}}]})


def rules(*rules: dict) -> dict:
    return {"rules": list(rules)}


def ports(*numbers: int) -> list[dict]:
    return [{"port": number} for number in numbers]


READ, READ_ALL = {"verbs": ["get"]}, {"verbs": ["get"], "resources": ["*"]}
EXISTS = {"operator": "Exists"}


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        (pod(), pod(restartPolicy="Always")),
        (pod(hostNetwork=False), pod()),
        (pod(nodeSelector={}), pod()),
        (pod(initContainers=[]), pod()),
        (pod(priorityClassName=""), pod()),
        (pod(affinity=None), pod()),
        (container(image="i"), container(image="i", terminationMessagePath="/dev/termination-log")),
        (container(env=[{"name": "A", "value": ""}]), container(env=[{"name": "A"}])),
        (container(env=[{"name": "A", "value": "1"}]), container(env=[{"name": "B"}, {"name": "A", "value": "1"}])),
        (container(ports=[{"containerPort": 80}]), container(ports=[{"containerPort": 80, "protocol": "TCP"}])),
        (limits("0.5"), limits("500m")),
        (limits(1), limits("1")),
        (
            container(volumeMounts=[{"name": "v", "mountPath": "/v", "readOnly": False}]),
            container(volumeMounts=[{"mountPath": "/w", "name": "w"}, {"mountPath": "/v", "name": "v"}]),
        ),
        (volume(emptyDir={"sizeLimit": "1Gi"}), volume(emptyDir={"sizeLimit": "1024Mi"})),
        (volume(hostPath={"path": "/x"}), volume(hostPath={"path": "/x", "type": ""})),
        (token(), token(expirationSeconds=3600)),
        ({"spec": {"rollingUpdate": {"maxUnavailable": 1}}}, {"spec": {"rollingUpdate": {"maxUnavailable": "1"}}}),
        ({"spec": {"minReadySeconds": 0}}, {"spec": {}}),
        ({"spec": {"ports": ports(80)}}, {"spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}}),
        ({"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": ["b", "a"]}}),
        ({"metadata": {"labels": {"a.b/c": "d"}}}, {"metadata": {"labels": {"a.b/c": "d", "x": "y"}}}),
        ({"apiVersion": "v1", "kind": "Pod", "data": {"a": "b"}}, {"data": {"a": "b"}}),
    ],
)
def test_what_the_server_or_others_added_is_no_difference(wanted, live):
    assert found(wanted, live) == []


@pytest.mark.parametrize(
    ("wanted", "live", "said"),
    [
        (container(image="i"), container(image="j"), 'template.spec.containers[c].image is "j", wanted "i"'),
        (container(env=[{"name": "A"}]), container(env=[]), 'env[A] is missing, wanted {"name":"A"}'),
        (
            container(env=[{"name": "A", "value": ""}]),
            container(env=[{"name": "A", "value": "x"}]),
            'is "x", wanted ""',
        ),
        (container(args=["a"]), container(args=["a", "b"]), 'args is ["a","b"], wanted ["a"]'),
        (container(args=["a"]), container(args=["b"]), 'args[0] is "b", wanted "a"'),
        (limits("0.5"), limits("501m"), "resources.limits.cpu"),
        (container(securityContext={"privileged": False}), container(securityContext={}), "privileged is missing"),
        (container(stdin=True), container(stdin=False), "stdin is false"),
        (container(securityContext={"runAsUser": 0}), container(securityContext={}), "runAsUser is missing"),
        (pod(hostNetwork=False), pod(hostNetwork=True), "hostNetwork is true, wanted false"),
        (pod(tolerations=[{"key": "a"}]), pod(tolerations=[{"key": "a"}, EXISTS]), "tolerations"),
        (pod(tolerations=[{"key": "a"}]), pod(tolerations=[{"key": "a", "value": "b"}]), "tolerations"),
        (pod(nodeSelector={"a": "b"}), pod(nodeSelector={"a": "b", "c": "d"}), "nodeSelector"),
        (volume(emptyDir={}), volume(hostPath={"path": "/"}), "volumes[v].emptyDir is missing"),
        (rules(READ), rules({"verbs": ["get", "delete"]}), "rules"),
        (rules(READ), rules(READ_ALL), "rules"),
        (rules(READ), rules(READ, READ_ALL), "rules"),
        ({"subjects": [{"name": "a"}]}, {"subjects": [{"name": "a"}, {"name": "b"}]}, "subjects"),
        ({"spec": {"selector": {"a": "b"}}}, {"spec": {"selector": {"a": "b", "c": "d"}}}, "spec.selector"),
        (
            {"spec": {"ports": [{"port": 8, "protocol": "UDP"}]}},
            {"spec": {"ports": ports(8)}},
            "ports[8/UDP] is missing",
        ),
        ({"spec": {"ingress": [{"ports": ports(1)}]}}, {"spec": {"ingress": [{"ports": ports(1, 2)}]}}, "ports"),
        ({"spec": {"replicas": 0}}, {"spec": {}}, "spec.replicas is missing, wanted 0"),
        ({"spec": {"a": True}}, {"spec": {"a": 1}}, "spec.a is 1, wanted true"),
        ({"data": {"a": "1"}}, {"data": {"a": "1.0"}}, 'data.a is "1.0", wanted "1"'),
        ({"metadata": {"labels": {"a.b/c": "d"}}}, {"metadata": {}}, "metadata.labels is missing"),
        ({"metadata": {"labels": {"a.b/c": "d"}}}, {"metadata": {"labels": {"x": "y"}}}, "labels.[a.b/c] is missing"),
        ({"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": ["b"]}}, "metadata.finalizers"),
        ({"spec": {"a": {"b": 1}}}, {"spec": {"a": [1]}}, "spec.a is [1]"),
    ],
)
def test_a_change_of_ours_is_found_and_named(wanted, live, said):
    assert len(found(wanted, live)) == 1
    assert said in found(wanted, live)[0]


NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS = st.one_of(st.text("xyz", min_size=1, max_size=3), st.integers(1, 9), st.just(True))
ENV = st.dictionaries(NAMES, st.text("xy", min_size=1)).map(
    lambda values: [{"name": name, "value": value} for name, value in values.items()]
)
OBJECTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.dictionaries(NAMES, inner, min_size=1, max_size=3),
        st.lists(inner, min_size=1, max_size=3),
        st.fixed_dictionaries({"env": ENV, "image": SCALARS}),
    ),
    max_leaves=20,
).map(lambda value: {"spec": value})


@given(OBJECTS)
def test_everything_contains_itself(wanted):
    assert found(wanted, copy.deepcopy(wanted)) == []


@given(OBJECTS, st.randoms(use_true_random=False))
def test_defaults_and_the_order_of_named_lists_do_not_count(wanted, rng):
    def served(value):
        if isinstance(value, dict):
            grown = {
                key: _shuffled(served(inner), rng) if key == "env" else served(inner) for key, inner in value.items()
            }
            return {**grown, "defaulted": "by the server"}
        return [served(item) for item in value] if isinstance(value, list) else value

    assert found(wanted, served(wanted)) == []


@given(OBJECTS, st.data())
def test_any_value_that_is_changed_is_noticed(wanted, data):
    live = copy.deepcopy(wanted)
    places = list(_leaves(live))
    if not places:
        return
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = "changed by hand"
    assert len(found(wanted, live)) >= 1


@given(OBJECTS, st.data())
def test_any_value_that_is_removed_is_noticed(wanted, data):
    live = copy.deepcopy(wanted)
    places = list(_leaves(live))
    if not places:
        return
    holder, key = data.draw(st.sampled_from(places))
    del holder[key]
    assert len(found(wanted, live)) >= 1


def _leaves(value):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if isinstance(inner, dict | list):
            yield from _leaves(inner)
        else:
            yield value, key


def _shuffled(items: list, rng) -> list:
    rng.shuffle(items)
    return items


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("500m", "0.5"),
        ("1", 1),
        ("1Gi", "1024Mi"),
        ("1e3", "1k"),
        ("1E", "1e18"),
        ("100", "1e2"),
        (".5", "500m"),
        ("0", "0Mi"),
    ],
)
def test_quantities_are_compared_by_value(one, other):
    assert is_same_quantity(one, other)


@pytest.mark.parametrize(("one", "other"), [("1G", "1Gi"), ("1", "1m"), ("abc", "abc"), ("1", None), ("1 Gi", "1Gi")])
def test_other_quantities_are_not_the_same(one, other):
    assert not is_same_quantity(one, other)


def test_what_is_no_quantity_is_told_with_examples():
    with pytest.raises(ValueError, match="'1 apple' is no quantity; write for example 500m, 2 or 1Gi"):
        quantity("1 apple")
