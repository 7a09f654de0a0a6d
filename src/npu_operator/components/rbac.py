"""Who our pods are to the API server, and the least that each of them may do.

Each agent has a ServiceAccount of its own. Loader, device plugin, exporter and validator have neither a token nor a
right: they live by disk, kubelet and the node's state file. No agent may write a Node, so a stolen token can neither
approve nor reboot; and RBAC cannot say "its own node", so `admission` says it. Source: product.md §2 (NPUNode), §3;
issue A02.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from npu_operator.components import (
    admission,
    device_plugin,
    discovery,
    driver,
    exporter,
    node_agent,
    rebooter,
    validator,
)
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object
from npu_operator.components.placement import metadata
from npu_operator.model import names
from npu_operator.model.ctl import Discovery, Spec

COMPONENT = "Rbac"
RBAC_GROUP = "rbac.authorization.k8s.io"


class Rule(msgspec.Struct, frozen=True):
    """One rule of a role."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    only: tuple[str, ...] = ()
    """Names of the objects; empty: all."""

    def as_object(self) -> Object:
        """As it stands in a role."""
        only = {"resourceNames": list(self.only)} if self.only else {}
        return {"apiGroups": [self.group], **only, "resources": list(self.resources), "verbs": list(self.verbs)}


class Account(msgspec.Struct, frozen=True):
    """A ServiceAccount and its rights."""

    name: str
    in_cluster: tuple[Rule, ...] = ()
    in_namespace: tuple[Rule, ...] = ()

    @property
    def has_rights(self) -> bool:
        """Whether it may ask the API server for anything at all."""
        return bool(self.in_cluster or self.in_namespace)


READ = ("get", "list", "watch")
"""Whoever may watch sees what a list shows, so the three go together."""

ACCOUNTS = (
    Account(
        node_agent.SERVICE_ACCOUNT,
        in_cluster=(
            # Its own Node: the state label, the right to restart the runtime. Its own NPUNode: isolated chips.
            Rule("", ("nodes",), READ),
            Rule(names.GROUP, (names.NODE_PLURAL,), READ),
            Rule(names.GROUP, (f"{names.NODE_PLURAL}/status",), ("patch",)),
        ),
        in_namespace=(
            # At its end: is the DaemonSet going away, so that containerd has to be restored?
            Rule("apps", ("daemonsets",), ("get",), only=(names.NODE_AGENT,)),
        ),
    ),
    Account(driver.SERVICE_ACCOUNT),
    Account(device_plugin.SERVICE_ACCOUNT),
    Account(exporter.SERVICE_ACCOUNT),
    Account(validator.SERVICE_ACCOUNT),
    # Once, right before the trigger: same node, attempt, state and boot?
    Account(rebooter.SERVICE_ACCOUNT, in_cluster=(Rule("", ("nodes",), ("get",)),)),
    Account(discovery.SERVICE_ACCOUNT, in_cluster=(Rule(names.GROUP, (names.NODE_PLURAL,), ("create",)),)),
)

WITH_RIGHTS = tuple(account.name for account in ACCOUNTS if account.has_rights)
"""The accounts whose requests `admission` looks at."""


def accounts_for(spec: Spec, facts: ClusterFacts) -> tuple[Account, ...]:
    """The accounts that this spec needs; the rights of what is switched off go as well."""
    needed = {
        driver.SERVICE_ACCOUNT: spec.driver.enabled or bool(facts.pools_to_keep),
        device_plugin.SERVICE_ACCOUNT: spec.device_plugin.enabled,
        exporter.SERVICE_ACCOUNT: spec.exporter.enabled,
        validator.SERVICE_ACCOUNT: spec.device_plugin.enabled,
        rebooter.SERVICE_ACCOUNT: spec.driver.enabled,
        discovery.SERVICE_ACCOUNT: spec.discovery is Discovery.AUTO,
    }
    return tuple(account for account in ACCOUNTS if needed.get(account.name, True))


def build(spec: Spec, facts: ClusterFacts) -> tuple[Object, ...]:
    """The fence first, then accounts and rights."""
    objects = list(admission.build(facts, WITH_RIGHTS))
    for account in accounts_for(spec, facts):
        objects += _of_account(account, facts)
    return tuple(objects)


def _of_account(account: Account, facts: ClusterFacts) -> list[Object]:
    objects = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(account.name, COMPONENT, facts),
            "automountServiceAccountToken": False,  # pods that need the token say so themselves
        }
    ]
    for kind, rules in (("ClusterRole", account.in_cluster), ("Role", account.in_namespace)):
        if rules:
            meta = metadata(account.name, COMPONENT, facts, namespaced=kind == "Role")
            objects += [role(kind, meta, rules), binding(kind, meta, account.name, facts.namespace)]
    return objects


def role(kind: str, meta: Object, rules: Iterable[Rule]) -> Object:
    """A `Role` or `ClusterRole`."""
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": kind,
        "metadata": meta,
        "rules": [rule.as_object() for rule in rules],
    }


def binding(role_kind: str, meta: Object, account: str, namespace: str) -> Object:
    """The binding of a role to a ServiceAccount; both have the role's name."""
    subject: dict[str, Any] = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": f"{role_kind}Binding",
        "metadata": meta,
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": meta["name"]},
        "subjects": [subject],
    }
