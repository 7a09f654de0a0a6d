"""Defaults and rules of the smaller built-in kinds.

Source: kubernetes `pkg/apis/*/validation` (1.34), as far as our own objects can break them.
"""

from collections.abc import Iterator

from npu_operator.sim.server import names, refusals, workloads
from npu_operator.sim.server.objects import Tree, at
from npu_operator.sim.server.refusals import Cause


def fill_node(node: Tree) -> Tree:
    """A node whose capacity is known may give all of it."""
    capacity = at(node, "status", "capacity")
    if capacity and not at(node, "status", "allocatable"):
        node = {**node, "status": {**node["status"], "allocatable": capacity}}
    return node


def admit_node(node: Tree) -> Tree:
    """Nothing is scheduled to a node before its first heartbeat."""
    taints = at(node, "spec", "taints") or []
    if any(taint.get("key") == workloads.NOT_READY for taint in taints):
        return node
    not_ready = {"key": workloads.NOT_READY, "effect": "NoSchedule"}
    return {**node, "spec": {**node.get("spec", {}), "taints": [*taints, not_ready]}}


def check_node(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """Taints: known effects, good keys and values, each pair once."""
    seen = set()
    for index, taint in enumerate(at(new, "spec", "taints") or ()):
        field = f"metadata.taints[{index}]"
        if taint.get("effect") not in workloads.TAINT_EFFECTS:
            yield refusals.unsupported(f"{field}.effect", taint.get("effect", ""), workloads.TAINT_EFFECTS)
        yield from (refusals.wrong(f"{field}.key", taint.get("key", ""), why) for why in names.qualified(taint["key"]))
        yield from (
            refusals.wrong(f"{field}.value", taint.get("value"), why)
            for why in names.label_value(taint.get("value", ""))
        )
        if (taint.get("key"), taint.get("effect")) in seen:
            yield refusals.duplicate(field, taint)
        seen.add((taint.get("key"), taint.get("effect")))


def fill_namespace(namespace: Tree) -> Tree:
    """A namespace is active until it is deleted, and labelled with its own name."""
    meta = namespace["metadata"]
    labels = {**meta.get("labels", {}), "kubernetes.io/metadata.name": meta.get("name", "")}
    return {
        **namespace,
        "metadata": {**meta, "labels": labels},
        "spec": {"finalizers": ["kubernetes"], **namespace.get("spec", {})},
        "status": {"phase": "Active", **namespace.get("status", {})},
    }


def check_keys(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """Keys of ConfigMaps and Secrets, and that the immutable ones stay."""
    for part in ("data", "binaryData"):
        for key in new.get(part, {}):
            yield from (refusals.wrong(f"{part}[{key}]", key, why) for why in names.config_key(key))
    if old is not None and old.get("immutable"):
        for part in ("data", "binaryData"):
            if new.get(part) != old.get(part):
                yield refusals.not_allowed(part, "field is immutable when `immutable` is set")


def fill_secret(secret: Tree) -> Tree:
    """Secrets are opaque unless they say otherwise."""
    return {"type": "Opaque", **secret}


def check_runtime_class(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """The handler is a label and never changes."""
    handler = new.get("handler", "")
    if old is None:
        yield from (refusals.wrong("handler", handler, why) for why in names.label(handler))
    elif handler != old.get("handler"):
        yield refusals.immutable("handler", handler)


def check_lease(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """Durations and counters of a Lease."""
    spec = new.get("spec", {})
    if "leaseDurationSeconds" in spec and spec["leaseDurationSeconds"] <= 0:
        yield refusals.wrong("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        yield refusals.wrong("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")


def check_budget(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """One kind of limit, and a known policy for unhealthy pods."""
    spec = new.get("spec", {})
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield refusals.wrong("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy not in (None, "IfHealthyBudget", "AlwaysAllow"):
        yield refusals.unsupported("spec.unhealthyPodEvictionPolicy", policy, ("IfHealthyBudget", "AlwaysAllow"))


def fill_policy(policy: Tree) -> Tree:
    """An admission policy's defaults."""
    spec = policy.get("spec", {})
    out = {"failurePolicy": "Fail", **spec}
    if "matchConstraints" in spec:
        out["matchConstraints"] = _filled_match(spec["matchConstraints"])
    return {**policy, "spec": out}


def fill_policy_binding(binding: Tree) -> Tree:
    """A policy binding's defaults."""
    spec = binding.get("spec", {})
    if "matchResources" in spec:
        spec = {**spec, "matchResources": _filled_match(spec["matchResources"])}
    return {**binding, "spec": spec}


def _filled_match(match: Tree) -> Tree:
    out = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, **match}
    if "resourceRules" in match:
        out["resourceRules"] = [{"scope": "*", **rule} for rule in match["resourceRules"]]
    return out


def check_policy(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """A policy matches something and says something; its CEL is not compiled here."""
    spec = new.get("spec", {})
    if "matchConstraints" not in spec:
        yield refusals.required("spec.matchConstraints")
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        for field in ("validations", "auditAnnotations"):
            why = "validations or auditAnnotations must contain at least one item"
            yield refusals.required(f"spec.{field}", why)


def check_policy_binding(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """A binding says what to do."""
    if not at(new, "spec", "validationActions"):
        yield refusals.required("spec.validationActions", "at least one validation action is required")
