"""The two resource definitions, rendered from the structs."""

import hashlib
from typing import Any, Final

import msgspec

from . import names, schema
from .ctl import Spec
from .npunode import NPUNodeSpec, NPUNodeStatus
from .schema import Schema
from .status import CtlStatus

Crd = dict[str, Any]

DIGEST: Final = f"{names.GROUP}/schema-digest"
"""Annotation by which an operator sees that the installed definition is not the one it was released with."""


def npuoperatorctl() -> Crd:
    """`NPUOperatorCtl`, namespaced."""
    columns = [
        _column("Ready", '.status.conditions[?(@.type=="Ready")].status', "Whether all chips can be used."),
        _column("Driver", ".spec.driver.version", "Driver version that is wanted."),
        _column("Nodes", ".status.nodes.summary", "Nodes that are ready, of all with an NPU."),
        _column("NPUs", ".status.nodes.npuSummary", "Chips that pods can ask for, of all."),
        _column("Upgrade", ".status.upgrade.summary", "Nodes that run the target of the rollout, of all in it."),
        _column("Age", ".metadata.creationTimestamp", kind="date"),
        _column("Message", '.status.conditions[?(@.type=="Ready")].message', "What is missing, and why.", priority=1),
    ]
    body = _root(
        "What should be on the NPU nodes of the cluster, and what is. The oldest object in the operator's namespace "
        "is in charge.",
        spec={**schema.of_struct(Spec), "default": {}},
        status=schema.of_struct(CtlStatus),
    )
    body[schema.VALIDATIONS] = [
        {"rule": "self.metadata.name.size() <= 63", "message": "the name must have at most 63 characters"}
    ]
    return _definition(
        names.CTL_KIND, names.CTL_PLURAL, names.CTL_SINGULAR, names.CTL_SHORT, "Namespaced", columns, body
    )


def npunode() -> Crd:
    """`NPUNode`, cluster-scoped."""
    columns = [
        _column("Chips", ".status.found.summary", "Chips by model."),
        _column("Healthy", ".status.found.healthy", "Healthy chips of all."),
        _column("Driver", ".status.found.driver.version", "Driver version that is loaded."),
        _column("State", ".status.plan.state", "Where the node is."),
        _column("Since", ".status.plan.since", "Since when.", kind="date"),
        _column("Reason", ".status.plan.reason", "One word why."),
        _column("Message", ".status.plan.message", "The same for people.", priority=1),
        _column("Next", ".status.plan.next", "What comes next.", priority=1),
    ]
    status = schema.of_struct(NPUNodeStatus)
    for half in ("found", "plan"):
        # One writer each, who writes it as a whole: no bookkeeping per field in every object.
        status["properties"][half]["x-kubernetes-map-type"] = "atomic"
    body = _root(
        "One node with NPUs: what was found on it and what the operator is doing with it.",
        spec=schema.of_struct(NPUNodeSpec),
        status=status,
    )
    return _definition(names.NODE_KIND, names.NODE_PLURAL, names.NODE_SINGULAR, None, "Cluster", columns, body)


def all_crds() -> tuple[Crd, ...]:
    """Both, in the order they are applied."""
    return npuoperatorctl(), npunode()


def _root(description: str, *, spec: Schema, status: Schema) -> Schema:
    return {
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": {"type": "string", "description": f"Always {names.API_VERSION}."},
            "kind": {"type": "string", "description": "What this object is."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }


def _definition(
    kind: str, plural: str, singular: str, short: str | None, scope: str, columns: list[Schema], body: Schema
) -> Crd:
    named: Schema = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": singular}
    named["categories"] = ["npu"]
    if short:
        named["shortNames"] = [short]
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": body},
        "subresources": {"status": {}},
    }
    spec = {"group": names.GROUP, "names": named, "scope": scope, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{names.GROUP}", "annotations": {DIGEST: digest(spec)}},
        "spec": spec,
    }


def digest(spec: Schema) -> str:
    """Twelve hex digits that change whenever the definition does."""
    return hashlib.sha256(msgspec.json.encode(spec, order="sorted")).hexdigest()[:12]


def _column(name: str, path: str, description: str = "", *, kind: str = "string", priority: int = 0) -> Schema:
    column: Schema = {"name": name, "type": kind, "jsonPath": path}
    if description:
        column["description"] = description
    if priority:
        column["priority"] = priority
    return column
