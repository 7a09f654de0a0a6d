"""Who may do what: RBAC as the real authorizer decides it, from the roles and bindings in the store.

Also the rule that nobody hands out rights he does not have, which decides whether an operator may install its agents'
roles. Source: kubernetes `pkg/registry/rbac` and `plugin/pkg/auth/authorizer/rbac` (1.34).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from npu_operator.kube import api
from npu_operator.kube.api import Resource
from npu_operator.sim.server import refusals
from npu_operator.sim.server.objects import Stored, Tree
from npu_operator.sim.server.store import Store

MASTERS: Final = "system:masters"
RBAC_TABLES: Final = (api.CLUSTER_ROLES, api.ROLES, api.CLUSTER_ROLE_BINDINGS, api.ROLE_BINDINGS)


class User(msgspec.Struct, frozen=True):
    """Somebody who asks."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def is_master(self) -> bool:
        """May do everything."""
        return MASTERS in self.groups


def service_account(namespace: str, name: str) -> User:
    """The user that a pod with this ServiceAccount is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


class Right(msgspec.Struct, frozen=True):
    """One thing that is asked for."""

    verb: str
    resource: Resource
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None

    @property
    def plural(self) -> str:
        """As in a rule: `nodes/status`."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural


class Access:
    """Decides from the present roles and bindings; what it worked out is kept until one of them changes."""

    def __init__(self, store: Store) -> None:
        self._tables = [store.table(resource) for resource in RBAC_TABLES]
        self._rules: dict[tuple[User, str], list[Tree]] = {}
        for table in self._tables:
            table.listeners.append(lambda event: self._rules.clear())

    def check(self, user: User, right: Right) -> None:
        """Raises Refused (403) in the authorizer's words."""
        if user.is_master or any(_allows(rule, right) for rule in self._rules_of(user, right.namespace or "")):
            return
        scope = f'in the namespace "{right.namespace}"' if right.namespace else "at the cluster scope"
        message = (
            f'User "{user.name}" cannot {right.verb} resource "{right.plural}" in API group '
            f'"{right.resource.group}" {scope}'
        )
        raise refusals.forbidden(right.resource, right.name, message)

    def check_grant(self, user: User, resource: Resource, tree: Tree) -> None:
        """Refuse (403) a role, or a binding to a role, with rights that `user` does not have himself."""
        if user.is_master or resource not in RBAC_TABLES:
            return
        namespace = tree["metadata"].get("namespace", "")
        name = tree["metadata"].get("name")
        is_role = resource in (api.CLUSTER_ROLES, api.ROLES)
        special = Right("escalate" if is_role else "bind", resource, None, namespace or None, name)
        rules = tree.get("rules") or [] if is_role else self._role_rules(tree.get("roleRef", {}), namespace)
        if not is_role:
            role = tree.get("roleRef", {})
            bound = api.CLUSTER_ROLES if role.get("kind") == "ClusterRole" else api.ROLES
            special = Right("bind", bound, None, namespace or None, role.get("name"))
        held = self._rules_of(user, namespace)
        if any(_allows(rule, special) for rule in held):
            return
        missing = [one for rule in rules for one in _single(rule) if not any(_covers(rule, one) for rule in held)]
        if missing:
            groups = ", ".join(f'"{group}"' for group in user.groups)
            listed = "\n".join(_shown(each) for each in missing)
            raise refusals.forbidden(
                resource,
                name,
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:'
                f"\n{listed}",
            )

    def _rules_of(self, user: User, namespace: str) -> list[Tree]:
        found = self._rules.get((user, namespace))
        if found is None:
            found = self._rules[user, namespace] = list(self._collect(user, namespace))
        return found

    def _collect(self, user: User, namespace: str) -> Iterator[Tree]:
        _, _, cluster_bindings, bindings = self._tables
        for binding in cluster_bindings.objects.values():
            if _is_bound(user, binding):
                yield from self._role_rules(binding.tree["roleRef"], "")
        for binding in bindings.objects.values():
            if namespace and binding.namespace == namespace and _is_bound(user, binding):
                yield from self._role_rules(binding.tree["roleRef"], namespace)

    def _role_rules(self, role: Mapping[str, Any], namespace: str) -> list[Tree]:
        cluster_roles, roles, _, _ = self._tables
        is_cluster_role = role.get("kind") == "ClusterRole"
        table, where = (cluster_roles, "") if is_cluster_role else (roles, namespace)
        found = table.objects.get((where, role.get("name", "")))
        return (found.tree.get("rules") or []) if found is not None else []


def _is_bound(user: User, binding: Stored) -> bool:
    for subject in binding.tree.get("subjects") or ():
        kind, name = subject["kind"], subject["name"]
        if kind == "User" and name == user.name:
            return True
        if kind == "Group" and name in user.groups:
            return True
        if kind == "ServiceAccount" and user.name == f"system:serviceaccount:{subject['namespace']}:{name}":
            return True
    return False


def _has(values: list[str], wanted: str) -> bool:
    return "*" in values or wanted in values


def _allows(rule: Tree, right: Right) -> bool:
    if not _has(rule.get("verbs", []), right.verb) or not _has(rule.get("apiGroups", []), right.resource.group):
        return False
    resources = rule.get("resources", [])
    if not _has(resources, right.plural) and not (right.subresource and f"*/{right.subresource}" in resources):
        return False
    names = rule.get("resourceNames", [])
    return not names or (right.name is not None and right.name in names)


def _single(rule: Tree) -> Iterator[Tree]:
    """A rule as many rules with one verb, one group, one resource (and one name) each."""
    names: list[str | None] = [*rule.get("resourceNames", [])] or [None]
    for verb in rule.get("verbs", []):
        for group in rule.get("apiGroups", []):
            for resource in rule.get("resources", []):
                for name in names:
                    named = {"resourceNames": [name]} if name else {}
                    yield {"verbs": [verb], "apiGroups": [group], "resources": [resource], **named}
        for url in rule.get("nonResourceURLs", []):
            yield {"verbs": [verb], "nonResourceURLs": [url]}


def _covers(held: Tree, one: Tree) -> bool:
    (verb,) = one["verbs"]
    if not _has(held.get("verbs", []), verb):
        return False
    if "nonResourceURLs" in one:
        return _has(held.get("nonResourceURLs", []), one["nonResourceURLs"][0])
    (group,), (resource,) = one["apiGroups"], one["resources"]
    if not _has(held.get("apiGroups", []), group) or not _has(held.get("resources", []), resource):
        return False
    names = held.get("resourceNames", [])
    return not names or (bool(one.get("resourceNames")) and one["resourceNames"][0] in names)


def _shown(rule: Tree) -> str:
    words = (
        ("APIGroups", "apiGroups"), ("Resources", "resources"), ("ResourceNames", "resourceNames"),
        ("NonResourceURLs", "nonResourceURLs"), ("Verbs", "verbs"),
    )  # fmt: skip
    parts = []
    for word, key in words:
        if key in rule:
            listed = ", ".join(f'"{value}"' for value in rule[key])
            parts.append(f"{word}:[{listed}]")
    return "{" + ", ".join(parts) + "}"
