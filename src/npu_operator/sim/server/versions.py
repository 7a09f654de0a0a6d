"""From one version of an object to the next: what a path may write, what counts as a generation, which rules hold."""

from collections.abc import Iterator

from npu_operator.kube import api
from npu_operator.sim.server import fields, names, refusals, schema, typed
from npu_operator.sim.server.fields import ABSENT, Change
from npu_operator.sim.server.incoming import SYSTEM_FIELDS, changed
from npu_operator.sim.server.kinds import Kind
from npu_operator.sim.server.objects import Tree
from npu_operator.sim.server.refusals import Cause
from npu_operator.sim.server.workloads import TEMPLATE_GENERATION


def reset(kind: Kind, subresource: str | None) -> tuple[str, ...]:
    """The top-level fields that a path does not write and whose owners it leaves alone."""
    if subresource == "status":
        return ("spec",)
    return ("status",) if kind.has_status else ()


def written(kind: Kind, tree: Tree, live: Tree, subresource: str | None) -> Change:
    """What the request changed, as far as this path can own it."""
    change = fields.compare(live, tree, kind.shape)
    ignored = reset(kind, subresource)
    return Change(*(fields.without_all(part, ignored) for part in change)) if ignored else change


def settled(kind: Kind, old: Tree, new: Tree, subresource: str | None) -> Tree:
    """The new tree with everything put back that this path must not write, and the generation counted."""
    meta = {**new["metadata"], **{key: old["metadata"][key] for key in SYSTEM_FIELDS if key in old["metadata"]}}
    for key in (*SYSTEM_FIELDS, "resourceVersion"):
        if key not in old["metadata"]:
            meta.pop(key, None)
    if subresource == "status":
        new = {**old, **({"status": new["status"]} if "status" in new else {})}
        meta = old["metadata"] if kind.is_custom else meta
        return {**new, "metadata": meta}
    if kind.has_status:
        new = {key: value for key, value in new.items() if key != "status"}
        new |= {"status": old["status"]} if "status" in old else {}
    if kind.has_generation and _is_new_generation(kind, old, new):
        meta["generation"] = old["metadata"].get("generation", 0) + 1
    if kind.resource == api.DAEMON_SETS and new["spec"]["template"] != old["spec"]["template"]:
        number = int(meta.get("annotations", {}).get(TEMPLATE_GENERATION, "0")) + 1
        meta["annotations"] = {**meta.get("annotations", {}), TEMPLATE_GENERATION: str(number)}
    return {**new, "metadata": meta if meta != old["metadata"] else old["metadata"]}


def _is_new_generation(kind: Kind, old: Tree, new: Tree) -> bool:
    if not kind.is_custom:
        return bool(new.get("spec") != old.get("spec"))
    return any(new.get(key, ABSENT) != old.get(key, ABSENT) for key in changed(new, old) - {"metadata"})


def check(kind: Kind, new: Tree, old: Tree | None) -> None:
    """Refused (422) when the object breaks a rule."""
    was = old["metadata"] if old is not None else None
    causes = list(names.metadata(new["metadata"], was, kind.name_rule, is_core=not kind.resource.group))
    causes += _complaints_of_type(kind, new, old or {})
    causes += kind.check(new, old)
    if causes:
        raise refusals.invalid(kind.resource, new["metadata"].get("name", ""), list(dict.fromkeys(causes)))


def _complaints_of_type(kind: Kind, new: Tree, old: Tree) -> Iterator[Cause]:
    """What the schema says; the status of built-in kinds is not looked at, as on a real server."""
    for key in kind.shape.required if kind.is_custom else ():
        if key not in new:
            yield refusals.required(key)
    for key, value in new.items():
        shape, before = kind.shape.field(key), old.get(key, ABSENT)
        if key == "metadata" or shape is None or (key == "status" and not kind.is_custom):
            continue
        if kind.is_custom:
            yield from schema.complaints(value, shape, before, key)
        else:
            yield from typed.complaints(value, shape, before, key, kind.checks_itself)
