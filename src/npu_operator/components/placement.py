"""The one place that knows what every pod of ours gets, and that makes a DaemonSet of what a component says.

Pull secrets, node selector, tolerations, affinity, priority, resources, environment, security context and labels come
from here for all components alike, so no component can forget one. The `placement` of the spec counts for all; what a
component says for itself is added (selector, tolerations, environment, by key) or wins (priority class, resources by
name). Source: product.md §1 (taints), §2 (placement); facts/peers.md §5.9 (A03, A04, A06).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from npu_operator.components import environment, labels, pods, quantity
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object
from npu_operator.model import names
from npu_operator.model.ctl import Spec
from npu_operator.model.parts import Affinity, Placed, Resources, Toleration

ROLLS_AT_ONCE = "10%"
"""Agents replaced at a time: none of them is needed by work that runs, and 5,000 nodes are through in ten turns."""


def daemon_set(workload: pods.Workload, spec: Spec, facts: ClusterFacts, part: Placed) -> Object:
    """The DaemonSet of a component; `part` is what the spec says about this component."""
    strategy: Object = {"type": "OnDelete"}
    if not workload.replaced_on_delete:
        strategy = {"rollingUpdate": {"maxUnavailable": ROLLS_AT_ONCE}, "type": "RollingUpdate"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(workload.name, workload.component, facts, workload.selector),
        "spec": {
            "selector": {"matchLabels": dict(workload.selector)},
            "template": pod_template(workload, spec, part),
            "updateStrategy": strategy,
        },
    }


def metadata(
    name: str, component: str, facts: ClusterFacts, own: Mapping[str, str] | None = None, *, namespaced: bool = True
) -> Object:
    """Name, place and labels of an object of ours; `own` labels give way to the ones by which we find it."""
    version = labels.label_value(facts.operator_version)
    found_by = {**labels.MANAGED, labels.COMPONENT_OF: component, labels.VERSION: version}
    return {
        "annotations": {labels.POLICY_OF: f"{facts.namespace}/{facts.policy_name}"},
        "labels": labels.merged({names.LABEL_NAME: names.OPERATOR_NAME}, own or {}, found_by),
        "name": name,
        **({"namespace": facts.namespace} if namespaced else {}),
    }


def pod_template(workload: pods.Workload, spec: Spec, part: Placed) -> Object:
    """The pod template with everything that all components get. Independent of the operator's version but for the
    image.
    """
    main, *others = workload.containers
    pod: Object = {
        "affinity": affinity(part.affinity, workload.never_on),
        "automountServiceAccountToken": workload.needs_token,
        "containers": [
            _container(main, part),
            *(_container(other, Placed()) for other in others),
        ],
        "enableServiceLinks": False,  # a service's address is never taken from the environment
        "hostNetwork": workload.host_network or None,
        "hostPID": workload.host_pid or None,
        "imagePullSecrets": [{"name": secret.name} for secret in spec.image_pull_secrets],
        "nodeSelector": labels.merged(spec.placement.node_selector, part.node_selector, workload.node_labels),
        "priorityClassName": part.priority_class_name or spec.placement.priority_class_name,
        "runtimeClassName": workload.runtime_class,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "serviceAccountName": workload.service_account,
        "terminationGracePeriodSeconds": workload.grace_s,
        "tolerations": tolerations(spec, part),
        "volumes": _volumes(workload),
    }
    pod_labels = labels.merged(
        {names.LABEL_NAME: names.OPERATOR_NAME}, workload.labels, labels.MANAGED, workload.selector
    )
    return {
        "metadata": _without_empty({"annotations": dict(workload.annotations), "labels": pod_labels}),
        "spec": _without_empty(pod),
    }


def tolerations(spec: Spec, part: Placed) -> list[Object]:
    """The taints of NPU and control-plane nodes, our own taint, those of the placement and of the component, each
    once.

    Only nodes with one of our labels run our pods, so tolerating control-plane taints means: where such a node has
    chips. The taints that Kubernetes sets on sick nodes are tolerated by every DaemonSet anyway.
    """
    usual = [
        *({"key": key, "operator": "Exists"} for key in names.TAINT_KEYS_TOLERATED),
        {"key": names.TAINT_DEVICE_PLUGIN, "operator": "Equal", "value": names.TAINT_DEVICE_PLUGIN_VALUE},
        *({"key": key, "operator": "Exists"} for key in names.TAINTS_CONTROL_PLANE),
        {"key": spec.placement.taint.key, "operator": "Exists"},
    ]
    added = [_toleration(one) for one in (*spec.placement.tolerations, *part.tolerations)]
    return _each_once([*usual, *added])


def affinity(wanted: Affinity, never_on: str = "") -> Object:
    """The component's affinity, and where `never_on` is set no node with that label on any of its ways."""
    node = dict(wanted.node_affinity)
    if never_on:
        absent = {"key": never_on, "operator": "DoesNotExist"}
        required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
        terms = required.get("nodeSelectorTerms") or [{}]  # the terms are alternatives, so each gets the condition
        narrowed = [{**term, "matchExpressions": [*term.get("matchExpressions", ()), absent]} for term in terms]
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {**required, "nodeSelectorTerms": narrowed}
    return _without_empty(
        {"nodeAffinity": node, "podAffinity": wanted.pod_affinity, "podAntiAffinity": wanted.pod_anti_affinity}
    )


def resources(container: pods.Container, wanted: Resources) -> Object:
    """Requests and limits. A resource that the spec names at all is the spec's alone, so the two never contradict."""
    named = {*wanted.requests, *wanted.limits}

    def mixed(ours: Mapping[str, str], theirs: Mapping[str, int | str]) -> dict[str, str]:
        kept = {name: amount for name, amount in ours.items() if name not in named}
        return {name: quantity.canonical(amount) for name, amount in sorted({**kept, **theirs}.items())}

    return _without_empty(
        {"limits": mixed(container.limits, wanted.limits), "requests": mixed(container.requests, wanted.requests)}
    )


def _container(container: pods.Container, part: Placed) -> Object:
    ours = dict(container.env)
    if pods.HOST in container.mounts:
        ours[environment.HOST_ROOT] = pods.HOST_ROOT
    if container.has_health_socket:
        ours[environment.HEALTH_SOCKET] = pods.HEALTH_SOCKET
    return _without_empty(
        {
            "command": list(container.command),
            "env": environment.variables(ours, part.env),
            "image": container.image,
            "imagePullPolicy": container.pull_policy.value,
            "name": container.name,
            "ports": [{"containerPort": container.port, "name": "http", "protocol": "TCP"}] if container.port else [],
            "resources": resources(container, part.resources),
            "securityContext": dict(container.security),
            "volumeMounts": _volume_mounts(container),
            **pods.probes(container),
        }
    )


def _volume_mounts(container: pods.Container) -> list[Object]:
    mounts = [
        {
            "mountPath": mount.at or mount.path,
            "name": _volume_name(mount),
            **({"readOnly": True} if mount.read_only else {}),
            **({"mountPropagation": "HostToContainer"} if mount.follows_host else {}),
        }
        for mount in container.mounts
    ]
    if container.has_health_socket:
        mounts.append({"mountPath": pods.RUN_DIR, "name": "run"})
    return mounts


def _volumes(workload: pods.Workload) -> list[Object]:
    host_paths = [
        {
            "hostPath": {"path": mount.path, "type": "Directory" if mount.must_exist else "DirectoryOrCreate"},
            "name": _volume_name(mount),
        }
        for container in workload.containers
        for mount in container.mounts
    ]
    volumes = _each_once(host_paths)
    if any(container.has_health_socket for container in workload.containers):
        volumes.append({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}, "name": "run"})
    return volumes


def _volume_name(mount: pods.Mount) -> str:
    """`/run/ascend` → `host-run-ascend`, `/` → `host`."""
    return f"host-{mount.path.lower()}".replace("/", "-").replace("--", "-").rstrip("-")


def _toleration(wanted: Toleration) -> Object:
    seconds = {} if wanted.toleration_seconds is None else {"tolerationSeconds": wanted.toleration_seconds}
    texts = {
        "key": wanted.key,
        "operator": wanted.operator.value,
        "value": wanted.value,
        "effect": wanted.effect.value,
    }
    return {**{name: text for name, text in texts.items() if text}, **seconds}


def _each_once(items: Iterable[Object]) -> list[Object]:
    once: list[Object] = []
    for item in items:
        if item not in once:
            once.append(item)
    return once


def _without_empty(fields: Mapping[str, Any]) -> Object:
    """Without what the API server would not keep: empty text, lists and maps, and what is None."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}
