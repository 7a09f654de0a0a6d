"""CustomResourceDefinitions: defaults, rules, and the kind that a definition makes.

A definition must be structural: each field has a type, a list of the map type has its keys. CEL rules inside are not
compiled here.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from npu_operator.kube.api import Resource
from npu_operator.sim.server import names, refusals, shapes
from npu_operator.sim.server.objects import Stored, Tree, at, condition
from npu_operator.sim.server.refusals import Cause

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its objects are gone."""


def fill(definition: Tree) -> Tree:
    """Names that follow from others; a fresh definition is not served yet."""
    spec = definition.get("spec", {})
    given = spec.get("names", {})
    kind = given.get("kind", "")
    full = {"singular": kind.lower(), "listKind": f"{kind}List", **given}
    stored = [version["name"] for version in spec.get("versions", []) if version.get("storage")]
    status = {
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored,
        **{key: value for key, value in definition.get("status", {}).items() if value},
    }
    return {
        **definition,
        "spec": {**spec, "names": full, "conversion": spec.get("conversion") or {"strategy": "None"}},
        "status": status,
    }


def check(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """Names, scope, versions and schemas."""
    spec = new.get("spec", {})
    if old is not None and spec is old.get("spec"):
        return
    wanted = f"{at(spec, 'names', 'plural')}.{spec.get('group')}"
    if new["metadata"]["name"] != wanted:
        yield refusals.wrong("metadata.name", new["metadata"]["name"], 'must be spec.names.plural+"."+spec.group')
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        yield refusals.unsupported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    if old is not None:
        yield from _unchanged(spec, old.get("spec", {}))
    for index, name in enumerate(at(spec, "names", "shortNames") or ()):
        yield from (refusals.wrong(f"spec.names.shortNames[{index}]", name, why) for why in names.dns_1035(name))
    versions = spec.get("versions", [])
    if sum(1 for version in versions if version.get("storage")) != 1:
        yield refusals.wrong("spec.versions", versions, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        schema = at(version, "schema", "openAPIV3Schema")
        where = "spec.validation.openAPIV3Schema"
        if schema is None:
            yield refusals.required(f"spec.versions[{index}].schema.openAPIV3Schema")
        else:
            if not schema.get("type"):
                yield refusals.required(f"{where}.type", "must not be empty at the root")
            yield from _in_schema(schema, where, is_root=True)


def _unchanged(spec: Tree, before: Tree) -> Iterator[Cause]:
    for field in ("group", "scope"):
        if spec.get(field) != before.get(field):
            yield refusals.immutable(f"spec.{field}", spec.get(field))
    for field in ("plural", "kind"):
        if at(spec, "names", field) != at(before, "names", field):
            yield refusals.immutable(f"spec.names.{field}", at(spec, "names", field))


def _in_schema(schema: Tree, where: str, *, is_root: bool = False) -> Iterator[Cause]:
    is_free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not is_free and not is_root:
        yield refusals.required(f"{where}.type", "must not be empty for specified object fields")
    if "pattern" in schema:
        try:
            re.compile(schema["pattern"])
        except re.error as error:
            why = f"must be a valid regular expression, but isn't: {error}"
            yield refusals.wrong(f"{where}.pattern", schema["pattern"], why)
    if schema.get("x-kubernetes-list-type") == "map" and not schema.get("x-kubernetes-list-map-keys"):
        why = "must not be empty if x-kubernetes-list-type is map"
        yield refusals.required(f"{where}.x-kubernetes-list-map-keys", why)
    for key, below in schema.get("properties", {}).items():
        yield from _in_schema(below, f"{where}.properties[{key}]")
    if isinstance(schema.get("items"), dict):
        yield from _in_schema(schema["items"], f"{where}.items")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _in_schema(schema["additionalProperties"], f"{where}.additionalProperties")


def is_established(definition: Stored) -> bool:
    """The server serves its kind."""
    found = condition(at(definition.tree, "status", "conditions") or (), "Established")
    return found is not None and found.get("status") == "True"


def served(definition: Tree) -> Iterator[tuple[Resource, shapes.Shape, bool]]:
    """For each served version: resource, shape of its objects, whether there is a status sub-resource."""
    spec = definition["spec"]
    for version in spec["versions"]:
        if version.get("served"):
            resource = Resource(
                spec["group"],
                version["name"],
                spec["names"]["plural"],
                spec["names"]["kind"],
                namespaced=spec["scope"] == "Namespaced",
            )
            shape = _object_shape(at(version, "schema", "openAPIV3Schema"))
            yield resource, shape, at(version, "subresources", "status") is not None


def _object_shape(schema: dict[str, Any]) -> shapes.Shape:
    """The schema of the objects with the real metadata put in."""
    shape = shapes.compile_schema(schema)
    shape.fields = {**shape.fields, "metadata": shapes.builtin("meta.v1.ObjectMeta")}
    return shape
