"""RBAC objects: defaults and rules. What they allow is decided in `access`."""

from collections.abc import Iterator
from typing import Final

from npu_operator.sim.server import refusals
from npu_operator.sim.server.objects import Tree
from npu_operator.sim.server.refusals import Cause

GROUP: Final = "rbac.authorization.k8s.io"


def check_role(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """Rules of a Role or ClusterRole."""
    for index, rule in enumerate(new.get("rules") or ()):
        where = f"rules[{index}]"
        if not rule.get("verbs"):
            yield refusals.required(f"{where}.verbs", "verbs must contain at least one value")
        urls = rule.get("nonResourceURLs")
        if urls and (rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames")):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            yield refusals.wrong(f"{where}.nonResourceURLs", urls, why)
        elif not urls:
            if not rule.get("apiGroups"):
                yield refusals.required(f"{where}.apiGroups", "resource rules must supply at least one api group")
            if not rule.get("resources"):
                yield refusals.required(f"{where}.resources", "resource rules must supply at least one resource")


def fill_binding(binding: Tree) -> Tree:
    """The groups of the role and of the subjects."""
    subjects = [_with_group(subject) for subject in binding.get("subjects", [])]
    role = {"apiGroup": GROUP, **{key: value for key, value in binding.get("roleRef", {}).items() if value}}
    return {**binding, "roleRef": role, **({"subjects": subjects} if subjects else {})}


def _with_group(subject: Tree) -> Tree:
    if subject.get("kind") not in ("User", "Group"):
        return subject
    return {**subject, "apiGroup": subject.get("apiGroup") or GROUP}


def check_binding(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """Rules of a RoleBinding or ClusterRoleBinding."""
    role = new.get("roleRef", {})
    if old is not None:
        if role != old.get("roleRef"):
            shown = {"APIGroup": role.get("apiGroup"), "Kind": role.get("kind"), "Name": role.get("name")}
            yield refusals.wrong("roleRef", shown, "cannot change roleRef")
    else:
        kinds = ("Role", "ClusterRole") if new["metadata"].get("namespace") else ("ClusterRole",)
        if role.get("kind") not in kinds:
            yield refusals.unsupported("roleRef.kind", role.get("kind", ""), kinds)
        if not role.get("name"):
            yield refusals.required("roleRef.name")
    for index, subject in enumerate(new.get("subjects", [])):
        where = f"subjects[{index}]"
        if not subject.get("name"):
            yield refusals.required(f"{where}.name")
        if subject.get("kind") not in ("User", "Group", "ServiceAccount"):
            yield refusals.unsupported(f"{where}.kind", subject.get("kind"), ("ServiceAccount", "User", "Group"))
        is_bare = subject.get("kind") == "ServiceAccount" and not subject.get("namespace")
        if is_bare and not new["metadata"].get("namespace"):
            yield refusals.required(f"{where}.namespace")
