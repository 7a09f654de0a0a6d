"""What a real API server publishes about the built-in kinds that we use, in the form of `sim/server/builtin.json`.

`python -m tests.contract.published < openapi.json > src/npu_operator/sim/server/builtin.json` makes the table anew,
where the input is one JSON object: the path of each group below to its OpenAPI v3 document (`/openapi/v3/<path>`).
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

PATHS = (
    "api/v1",
    "apis/apps/v1",
    "apis/coordination.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/node.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/admissionregistration.k8s.io/v1",
)
KINDS = (
    "api.core.v1.Node",
    "api.core.v1.Pod",
    "api.core.v1.Namespace",
    "api.core.v1.Service",
    "api.core.v1.Secret",
    "api.core.v1.ConfigMap",
    "api.core.v1.ServiceAccount",
    "api.apps.v1.DaemonSet",
    "api.apps.v1.Deployment",
    "api.coordination.v1.Lease",
    "api.events.v1.Event",
    "api.node.v1.RuntimeClass",
    "api.policy.v1.PodDisruptionBudget",
    "api.rbac.v1.ClusterRole",
    "api.rbac.v1.ClusterRoleBinding",
    "api.rbac.v1.Role",
    "api.rbac.v1.RoleBinding",
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    "api.admissionregistration.v1.ValidatingAdmissionPolicy",
    "api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
)
FREE = ("JSONSchemaProps", "FieldsV1", "JSON", "RawExtension")
"""Types that we do not look into: schemas inside schemas, and plain JSON."""

KEPT = (
    "type",
    "format",
    "required",
    "enum",
    "default",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)


def table(documents: Mapping[str, Any]) -> dict[str, Any]:
    """The types that the kinds reach, by short name, without their descriptions."""
    published = {
        _short(name): schema for d in documents.values() for name, schema in d["components"]["schemas"].items()
    }
    found: dict[str, Any] = {}
    wanted = [_short(kind) for kind in KINDS]
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = _slim(name, published[name], wanted)
    return {name: found[name] for name in sorted(found)}


def _short(name: str) -> str:
    return name.removeprefix("#/components/schemas/").removeprefix("io.k8s.").replace("apimachinery.pkg.apis.", "")


def _slim(name: str, schema: dict[str, Any], wanted: list[str]) -> dict[str, Any]:
    if name.rsplit(".", 1)[-1] in FREE:
        return {"x-kubernetes-preserve-unknown-fields": True}
    if name.endswith((".Quantity", ".IntOrString")):
        return {"format": "quantity" if name.endswith(".Quantity") else "int-or-string"}
    if name.endswith(".MicroTime"):
        return {"type": "string", "format": "micro-time"}
    return _part(schema, wanted)


def _part(schema: dict[str, Any], wanted: list[str]) -> dict[str, Any]:
    out = {key: schema[key] for key in KEPT if key in schema}
    for reference in [schema, *schema.get("allOf", [])]:
        if "$ref" in reference:
            out["$ref"] = _short(reference["$ref"])
            wanted.append(out["$ref"])
    if "items" in schema:
        out["items"] = _part(schema["items"], wanted)
    if isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = _part(schema["additionalProperties"], wanted)
    if "properties" in schema:
        out["properties"] = {key: _part(value, wanted) for key, value in sorted(schema["properties"].items())}
    return out


def text(types: Mapping[str, Any]) -> str:
    """One type a line, so that a new Kubernetes version reads well in review."""
    lines = [f"{json.dumps(name)}:{json.dumps(schema, separators=(',', ':'))}" for name, schema in types.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.stdout.write(text(table(json.load(sys.stdin))))
