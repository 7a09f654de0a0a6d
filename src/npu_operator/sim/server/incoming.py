"""Bodies as they come in: made plain, looked at, read into their types. What they do to an object is in `versions`.

Everything here is refused with the words of a kube-apiserver 1.34.
"""

from typing import Any, Final

import msgspec

from npu_operator.kube.api import Object
from npu_operator.sim.server import refusals, schema, typed
from npu_operator.sim.server.fields import ABSENT
from npu_operator.sim.server.kinds import Kind
from npu_operator.sim.server.objects import Stored, Tree

SYSTEM_FIELDS: Final = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"
)  # fmt: skip
"""Metadata that only the server writes."""


def plain(body: Object) -> Tree:
    """A copy that is JSON and nothing else, as it would be after the wire."""
    tree: Tree = msgspec.json.decode(msgspec.json.encode(body))
    return tree


def new_body(kind: Kind, body: Object) -> Tree:
    """The body as plain data of our own, without type fields. Refused (400) when it is of another kind."""
    tree = plain(body)
    resource = kind.resource
    found_version, found_kind = tree.pop("apiVersion", None), tree.pop("kind", None)
    if not found_kind and kind.is_custom:
        raise refusals.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object 'Kind' is missing"
        )
    if found_version and found_version != resource.api_version:
        raise refusals.bad_request(
            f"the API version in the data ({found_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if found_kind and found_kind != resource.kind:
        if kind.is_custom:
            name = tree.get("metadata", {}).get("name", "")
            other = msgspec.structs.replace(resource, kind=found_kind)
            raise refusals.invalid(other, name, [refusals.wrong("kind", found_kind, f"must be {resource.kind}")])
        raise refusals.bad_request(f"{found_kind} in version {found_version} cannot be handled as a {resource.kind}")
    return tree


def without_system_fields(kind: Kind, tree: Tree) -> Tree:
    """A new object's body without what the server decides; a useless generation is kept, as on a real server."""
    if tree["metadata"].get("resourceVersion"):
        raise refusals.internal("resourceVersion should not be set on objects to be created")
    dropped = [key for key in SYSTEM_FIELDS if key != "generation" or kind.has_generation]
    return {**tree, "metadata": {key: value for key, value in tree["metadata"].items() if key not in dropped}}


def applied(kind: Kind, body: Object, manager: str) -> tuple[Tree, Tree]:
    """An applied configuration without its type fields, and its metadata. Refused when it does not fit."""
    resource = kind.resource
    config = plain(body)
    found = (config.pop("apiVersion", ""), config.pop("kind", ""))
    if found != (resource.api_version, resource.kind):
        raise refusals.bad_request(f"invalid object type: {found[0] or '/'}, Kind={found[1]}")
    if not manager:
        cause = refusals.required("fieldManager", "is required for apply patch")
        raise refusals.invalid_options("PatchOptions", cause)
    meta = config.get("metadata") or {}
    if "managedFields" in meta:
        raise refusals.bad_request("metadata.managedFields must be nil")
    if not meta.get("name"):
        raise refusals.bad_request("name must be provided")
    try:
        config = typed.applied(config, kind.shape)
    except typed.Undeclared as error:
        about = f"{meta.get('namespace', '')}/{meta['name']}; {resource.api_version}, Kind={resource.kind}"
        raise refusals.internal(f"failed to create typed patch object ({about}): {error}") from error
    kept = {key: value for key, value in meta.items() if key not in ("uid", "resourceVersion", *SYSTEM_FIELDS)}
    return {**config, "metadata": kept}, meta


def patch_body(live: Stored, body: Object) -> tuple[Tree, Tree]:
    """A merge patch without what it cannot change, and its metadata. Refused when it is meant for another object."""
    patch = plain(body)
    meta = patch.get("metadata") or {}
    _check_url(live, meta)
    check_guard(live, meta)
    return _patchable(patch), meta


def _patchable(patch: Tree) -> Tree:
    meta = patch.get("metadata")
    if not isinstance(meta, dict):
        return {key: value for key, value in patch.items() if key not in ("apiVersion", "kind", "metadata")}
    kept = {key: value for key, value in meta.items() if key not in ("resourceVersion", "managedFields", "uid")}
    return {**{key: value for key, value in patch.items() if key not in ("apiVersion", "kind")}, "metadata": kept}


def _check_url(live: Stored, meta: Tree) -> None:
    if meta.get("name", live.name) != live.name:
        raise refusals.bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({live.name})"
        )
    if live.namespace and meta.get("namespace", live.namespace) != live.namespace:
        raise refusals.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_guard(live: Stored, meta: Tree) -> None:
    """Refused (409) when the request names another version than the present one."""
    guard = meta.get("resourceVersion")
    if guard and guard != str(live.version):
        raise refusals.modified(live.resource, live.name)


def check_identity(live: Stored, meta: Tree) -> None:
    """Refused (422) when a request wants to change what never changes; the server says it twice."""
    for key in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        wanted = meta.get(key)
        if wanted is not None and wanted != live.meta.get(key):
            raise refusals.invalid(live.resource, live.name, [refusals.immutable(f"metadata.{key}", wanted)] * 2)


def read(kind: Kind, tree: Tree, live: Stored | None, *, is_applied: bool = False) -> Tree:
    """The tree as its type keeps it, with defaults. Refused when it cannot be read."""
    old: Any = live.tree if live is not None else ABSENT
    try:
        if kind.is_custom:
            before = old["metadata"] if live is not None else ABSENT
            meta = typed.read(tree.get("metadata", {}), kind.shape.fields["metadata"], before, "metadata")
            pruned = schema.prune(tree, kind.shape, old, nulls=not is_applied)
            return pruned if pruned.get("metadata") is meta else {**pruned, "metadata": meta}
        new: Tree = typed.read(tree, kind.shape, old)
    except typed.Unreadable as error:
        resource = kind.resource
        if live is not None:
            shown = msgspec.json.encode(tree).decode()
            raise refusals.invalid_patch(refusals.wrong("patch", shown, str(error))) from error
        raise refusals.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        ) from error
    if live is not None and changed(new, live.tree) <= {"metadata"}:
        return new
    return _reshared(kind.fill(new), live.tree if live is not None else {})


def fits(kind: Kind, new: Tree, old: Tree) -> bool:
    """Whether the changed parts have the types of the schema; only custom objects can come so far without."""
    if not kind.is_custom:
        return True
    try:
        typed.applied({key: new[key] for key in changed(new, old) if key in new}, kind.shape)
    except typed.Undeclared:
        return False
    return True


def changed(new: Tree, old: Tree) -> set[str]:
    """The top-level fields that are not the same any more."""
    return {key for key in new.keys() | old.keys() if new.get(key, ABSENT) is not old.get(key, ABSENT)}


def _reshared(new: Tree, old: Tree) -> Tree:
    """`new` with the parts of `old` that are equal, so that they are recognised as unchanged."""
    return {key: old[key] if key in old and old[key] == value else value for key, value in new.items()}
