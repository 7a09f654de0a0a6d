"""Pods, DaemonSets and Deployments: their defaults and rules.

Source: kubernetes `pkg/apis/apps`, `pkg/apis/core`, and the admission plugins DefaultTolerationSeconds and Priority.
"""

from collections.abc import Iterator
from typing import Any, Final

from npu_operator.sim.server import podspec, refusals, selectors
from npu_operator.sim.server.objects import Tree, at
from npu_operator.sim.server.refusals import Cause

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
PRIORITIES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
"""The classes that each cluster has."""

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
TOLERATED_S: Final = 300
"""How long an ordinary pod stays on a node that went away."""


def fill_pod(pod: Tree) -> Tree:
    """A pod's defaults."""
    spec = podspec.filled({"enableServiceLinks": True, **pod.get("spec", {})})
    if "containers" in spec:
        is_on_host = spec.get("hostNetwork", False)
        spec["containers"] = [_with_host_ports(_with_requests(each), is_on_host) for each in spec["containers"]]
    status = {"phase": "Pending", "qosClass": _quality(spec.get("containers", [])), **pod.get("status", {})}
    return {**pod, "spec": spec, "status": status}


def admit_pod(pod: Tree) -> Tree:
    """A new pod's priority, and how long it stays on a node that went away."""
    spec = pod["spec"]
    return {
        **pod,
        "spec": {
            "preemptionPolicy": "PreemptLowerPriority",
            **spec,
            "priority": PRIORITIES.get(spec.get("priorityClassName", ""), 0),
            "tolerations": _with_grace_for_nodes(spec.get("tolerations", [])),
        },
    }


def _with_host_ports(container: Tree, is_on_host: bool) -> Tree:
    """On the host's network a container's ports are the host's; pods get that written out, templates do not."""
    if not is_on_host or "ports" not in container:
        return container
    return {**container, "ports": [{"hostPort": port.get("containerPort"), **port} for port in container["ports"]]}


def _with_requests(container: Tree) -> Tree:
    """What is limited and not requested is requested."""
    resources = container.get("resources", {})
    limits = resources.get("limits")
    if not limits:
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **resources.get("requests", {})}}}


def _with_grace_for_nodes(tolerations: list[Tree]) -> list[Tree]:
    out = list(tolerations)
    for key in (NOT_READY, UNREACHABLE):
        if not any(_tolerates_key(each, key) for each in tolerations):
            out.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_S})
    return out


def _tolerates_key(toleration: Tree, key: str) -> bool:
    return bool(toleration.get("key", key) == key) and toleration.get("effect", "NoExecute") == "NoExecute"


def _quality(containers: list[Tree]) -> str:
    """The QoS class: only cpu and memory count."""
    all_equal, some = True, False
    for container in containers:
        resources = container.get("resources", {})
        limits, requests = resources.get("limits", {}), resources.get("requests", {})
        some = some or any(name in amounts for amounts in (limits, requests) for name in ("cpu", "memory"))
        all_equal = all_equal and all(
            name in limits and requests.get(name) == limits[name] for name in ("cpu", "memory")
        )
    if not some:
        return "BestEffort"
    return "Guaranteed" if all_equal else "Burstable"


def check_pod(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """A new pod, or what may not change in one."""
    spec = new.get("spec", {})
    if old is None:
        yield from podspec.complaints(spec, "spec")
        return
    before = old.get("spec", {})
    if spec is not before and _fixed(spec) != _fixed(before):
        yield refusals.not_allowed(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        )


def _fixed(spec: Tree) -> dict[str, Any]:
    out = {key: value for key, value in spec.items() if key not in ("tolerations", "activeDeadlineSeconds")}
    for key in ("containers", "initContainers"):
        if key in out:
            out[key] = [{name: value for name, value in each.items() if name != "image"} for each in out[key]]
    return out


def fill_daemon_set(daemon_set: Tree) -> Tree:
    """A DaemonSet's defaults."""
    spec = daemon_set.get("spec", {})
    strategy = spec.get("updateStrategy") or {"type": "RollingUpdate"}
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        rolling = {"maxUnavailable": 1, "maxSurge": 0, **strategy.get("rollingUpdate", {})}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    out = {"revisionHistoryLimit": 10, **_with_filled_template(spec), "updateStrategy": strategy}
    return {**daemon_set, "spec": out}


def fill_deployment(deployment: Tree) -> Tree:
    """A Deployment's defaults."""
    spec = deployment.get("spec", {})
    strategy = spec.get("strategy") or {"type": "RollingUpdate"}
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        rolling = {"maxUnavailable": "25%", "maxSurge": "25%", **strategy.get("rollingUpdate", {})}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    out = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, **_with_filled_template(spec)}
    return {**deployment, "spec": {**out, "strategy": strategy}}


def _with_filled_template(spec: Tree) -> Tree:
    template = spec.get("template", {})
    return {**spec, "template": {**template, "spec": podspec.filled(template.get("spec", {}))}}


def check_daemon_set(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """A DaemonSet's rules."""
    yield from check_template(new, old)
    if at(new, "spec", "updateStrategy", "type") not in ("RollingUpdate", "OnDelete"):
        yield refusals.unsupported(
            "spec.updateStrategy", at(new, "spec", "updateStrategy", "type"), ("RollingUpdate", "OnDelete")
        )


def check_template(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """What holds for everything that has a selector and a pod template."""
    spec = new.get("spec", {})
    before: Tree = (old or {}).get("spec", {})
    if spec is before:
        return
    selector = spec.get("selector")
    if old is not None and selector != before.get("selector"):
        yield refusals.immutable("spec.selector", selector)
    template = spec.get("template", {})
    labels = at(template, "metadata", "labels")
    if not selector or not selectors.selects(selectors.of_object(selector), labels or {}):
        yield refusals.wrong("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if template is before.get("template"):
        return
    where = "spec.template.spec"
    pod = template.get("spec", {})
    yield from podspec.complaints(pod, where)
    if pod.get("restartPolicy") != "Always":
        yield refusals.unsupported(f"{where}.restartPolicy", pod.get("restartPolicy"), ("Always",))
