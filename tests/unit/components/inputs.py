"""Specs and cluster facts for the tests of the components; a test names only what it is about."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from npu_operator.components.build import Component, wanted
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object
from npu_operator.components.pools import Pool, pool_of
from npu_operator.model.chips import ChipFamily
from npu_operator.model.ctl import Spec
from npu_operator.model.reading import parse_ctl

DIGEST = "sha256:" + "5d" * 32
POOL_910B = pool_of(ChipFamily.ASCEND_910B, "6.6.0-145.0.4.135.oe2403sp3.aarch64")
POOL_310P = pool_of(ChipFamily.ASCEND_310P, "5.15.0-119-generic", "ubuntu", "22.04")
POOL_950 = pool_of(ChipFamily.ASCEND_950, "6.6.0-145.0.4.135.oe2403sp3.x86_64")


def a_spec(written: Mapping[str, Any] | None = None) -> Spec:
    """A spec as an admin would write it, read the way the operator reads it."""
    parsed = parse_ctl({"metadata": {"name": "npuoperatorctl-sample"}, "spec": dict(written or {})})
    assert not parsed.errors, parsed.errors
    return parsed.spec


def some_facts(
    *,
    pools: Iterable[Pool] = (POOL_910B,),
    operator_image: str = "registry.example.com/npu-operator:0.1.0",
    operator_version: str = "0.1.0",
    namespace: str = "npu-operator",
    runtime_handler: str = "runc",
    has_service_monitor_crd: bool = True,
    pools_to_keep: Iterable[Pool] = (),
) -> ClusterFacts:
    return ClusterFacts(
        namespace=namespace,
        operator_image=operator_image,
        operator_version=operator_version,
        policy_name="npuoperatorctl-sample",
        has_service_monitor_crd=has_service_monitor_crd,
        runtime_handler=runtime_handler,
        pools=tuple(pools),
        pools_to_keep=tuple(pools_to_keep),
    )


# Everything an admin can say about placement, said for all components at once.
OVERRIDES: Mapping[str, Any] = {
    "resources": {"limits": {"memory": "1024Mi"}, "requests": {"cpu": "1000m"}},
    "nodeSelector": {"team": "blue"},
    "tolerations": [{"key": "team", "value": "blue", "effect": "NoExecute", "tolerationSeconds": 60}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        }
    },
    "priorityClassName": "our-class",
    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}, {"name": "NPU_NAMESPACE", "value": "x"}],
}
OWN_IMAGE = {"repository": "others/agent", "tag": "v9", "pullPolicy": "Always"}
BUSY: Mapping[str, Any] = {
    "placement": {
        "nodeSelector": {"npu-fleet": "one", "team": "red"},
        "tolerations": [{"key": "maintenance", "operator": "Exists"}],
        "priorityClassName": "fleet-class",
        "taint": {"key": "example.com/npu-only", "mode": "Keep"},
    },
    "imagePullSecrets": [{"name": "registry-login"}],
    "registry": "mirror.example.com:5000/hub",
    "driver": {
        **OVERRIDES,
        "version": "25.5.0",
        "perChip": {"950": {"version": "25.7.RC1"}},
        "image": {"tags": {"5.15.0-119-generic": {"310p": "special"}}, "pullPolicy": "Always"},
        "moduleOptions": {"drv_pcie_host": "speed=4", "asdrv_dms": "level=2"},
        "reboot": {"method": "command", "command": ["/usr/sbin/reboot", "-f"]},
        "firmware": {"policy": "Require"},
        "recoveryPolicy": {"probeSecond": 30, "failures": 5},
    },
    "containerRuntime": {**OVERRIDES, "image": OWN_IMAGE, "libraryPath": "Env"},
    "devicePlugin": {
        **OVERRIDES,
        "image": OWN_IMAGE,
        "injection": "Annotation",
        "resourceNames": {"910b": "huawei.com/Ascend910B"},
    },
    "exporter": {**OVERRIDES, "image": OWN_IMAGE, "serviceMonitor": {"interval": "10s", "labels": {"release": "prom"}}},
    "validator": {**OVERRIDES, "image": OWN_IMAGE},
}
BUSY_FACTS = some_facts(
    pools=(
        pool_of(ChipFamily.ASCEND_910B, "6.6.0-145.0.4.135.oe2403sp3.aarch64", digest=DIGEST),
        POOL_310P,
        POOL_950,
    ),
    namespace="npus",
    runtime_handler="ascend",
    operator_image="npu-operator:0.1.0",
)
CASES: Mapping[str, tuple[Spec, ClusterFacts]] = {
    "default": (a_spec(), some_facts()),
    "overridden": (a_spec(BUSY), BUSY_FACTS),
}


def components(spec: Spec, facts: ClusterFacts) -> dict[str, Component]:
    """Components by name."""
    return {component.name: component for component in wanted(spec, facts)}


def objects(spec: Spec, facts: ClusterFacts) -> list[Object]:
    """All objects, in the order in which they are applied."""
    return [one for component in wanted(spec, facts) for one in component.objects]


def daemon_sets(spec: Spec, facts: ClusterFacts) -> dict[str, Object]:
    """DaemonSets by name."""
    return {one["metadata"]["name"]: one for one in objects(spec, facts) if one["kind"] == "DaemonSet"}


def pod_of(daemon_set: Object) -> Object:
    """The pod spec of a DaemonSet."""
    pod: Object = daemon_set["spec"]["template"]["spec"]
    return pod


def env_of(container: Object) -> dict[str, Any]:
    """Values of a container's variables by name; None for those that come from elsewhere. Names must not repeat."""
    names = [one["name"] for one in container["env"]]
    assert len(names) == len(set(names)), f"doubled variable in {names}"
    return {one["name"]: None if "valueFrom" in one else one.get("value", "") for one in container["env"]}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value inside an object with its path."""
    yield path, value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from leaves(child, f"{path}.{key}")
