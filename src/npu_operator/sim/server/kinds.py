"""The built-in kinds: one table of what is served, and what a kind is.

Custom kinds are made from their definitions (`definitions`).
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import msgspec

from npu_operator.kube import api
from npu_operator.kube.api import Resource
from npu_operator.sim.server import access_rules, definitions, events, names, rules, services, typed, workloads
from npu_operator.sim.server.objects import Tree
from npu_operator.sim.server.refusals import Cause
from npu_operator.sim.server.shapes import Shape, builtin

Fill = Callable[[Tree], Tree]
Check = Callable[[Tree, Tree | None], Iterator[Cause]]


def as_it_is(tree: Tree) -> Tree:
    """No defaults."""
    return tree


def no_complaints(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """No rules beyond those of the type."""
    return iter(())


class Kind(msgspec.Struct, frozen=True, eq=False):
    """One kind of object."""

    resource: Resource
    shape: Shape
    fill: Fill = as_it_is
    """Fills in defaults that need thought; the declared ones come from the shape."""
    admit: Fill = as_it_is
    """What admission adds to a new object; it has no owner."""
    check: Check = no_complaints
    """Complaints about a new state, given the one before (None: create)."""
    name_rule: names.NameRule = names.subdomain
    checks_itself: frozenset[str] = frozenset()
    """Paths where `check` says what is wrong instead of the rules of the type."""
    has_status: bool = False
    """There is a status sub-resource: the main path ignores `status`, the other one everything but `status`."""
    has_generation: bool = False
    """`metadata.generation` counts changes of the spec."""
    fields: tuple[str, ...] = ()
    """Field selectors beside name and namespace."""
    indexed: tuple[str, ...] = ()
    """Field selectors that are asked often."""
    is_custom: bool = False

    @property
    def blank(self) -> Tree:
        """What an object is before it is there; ownership of a new one is counted from it."""
        return {} if self.is_custom else _blank(self.shape)


@cache
def _blank(shape: Shape) -> Tree:
    blank: Tree = typed.read({}, shape)
    return blank


BUILT_IN: Final = (
    Kind(
        api.NODES,
        builtin("api.core.v1.Node"),
        fill=rules.fill_node,
        admit=rules.admit_node,
        check=rules.check_node,
        checks_itself=frozenset({"spec.taints"}),
        has_status=True,
        fields=("spec.unschedulable",),
    ),
    Kind(
        api.PODS,
        builtin("api.core.v1.Pod"),
        fill=workloads.fill_pod,
        admit=workloads.admit_pod,
        check=workloads.check_pod,
        has_status=True,
        has_generation=True,
        fields=("spec.nodeName", "status.phase", "spec.restartPolicy", "spec.schedulerName"),
        indexed=("spec.nodeName",),
    ),
    Kind(
        api.NAMESPACES,
        builtin("api.core.v1.Namespace"),
        fill=rules.fill_namespace,
        name_rule=names.label,
        has_status=True,
        fields=("status.phase",),
    ),
    Kind(
        api.SERVICES,
        builtin("api.core.v1.Service"),
        fill=services.fill,
        check=services.check,
        name_rule=names.dns_1035,
        has_status=True,
        fields=("spec.clusterIP", "spec.type"),
    ),
    Kind(api.SECRETS, builtin("api.core.v1.Secret"), fill=rules.fill_secret, check=rules.check_keys, fields=("type",)),
    Kind(api.CONFIG_MAPS, builtin("api.core.v1.ConfigMap"), check=rules.check_keys),
    Kind(api.SERVICE_ACCOUNTS, builtin("api.core.v1.ServiceAccount")),
    Kind(
        api.DAEMON_SETS,
        builtin("api.apps.v1.DaemonSet"),
        fill=workloads.fill_daemon_set,
        check=workloads.check_daemon_set,
        checks_itself=frozenset({"spec.updateStrategy"}),
        has_status=True,
        has_generation=True,
    ),
    Kind(
        api.DEPLOYMENTS,
        builtin("api.apps.v1.Deployment"),
        fill=workloads.fill_deployment,
        check=workloads.check_template,
        has_status=True,
        has_generation=True,
    ),
    Kind(api.LEASES, builtin("api.coordination.v1.Lease"), check=rules.check_lease),
    Kind(
        api.EVENTS,
        builtin("api.events.v1.Event"),
        check=events.check,
        checks_itself=frozenset({"series"}),
        fields=events.FIELDS,
    ),
    Kind(api.RUNTIME_CLASSES, builtin("api.node.v1.RuntimeClass"), check=rules.check_runtime_class),
    Kind(
        api.POD_DISRUPTION_BUDGETS,
        builtin("api.policy.v1.PodDisruptionBudget"),
        check=rules.check_budget,
        has_status=True,
        has_generation=True,
    ),
    Kind(
        api.CLUSTER_ROLES,
        builtin("api.rbac.v1.ClusterRole"),
        check=access_rules.check_role,
        name_rule=names.path_segment,
    ),
    Kind(api.ROLES, builtin("api.rbac.v1.Role"), check=access_rules.check_role, name_rule=names.path_segment),
    Kind(
        api.CLUSTER_ROLE_BINDINGS,
        builtin("api.rbac.v1.ClusterRoleBinding"),
        fill=access_rules.fill_binding,
        check=access_rules.check_binding,
        name_rule=names.path_segment,
    ),
    Kind(
        api.ROLE_BINDINGS,
        builtin("api.rbac.v1.RoleBinding"),
        fill=access_rules.fill_binding,
        check=access_rules.check_binding,
        name_rule=names.path_segment,
    ),
    Kind(
        api.CUSTOM_RESOURCE_DEFINITIONS,
        builtin("apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"),
        fill=definitions.fill,
        check=definitions.check,
        has_status=True,
        has_generation=True,
    ),
    Kind(
        api.VALIDATING_ADMISSION_POLICIES,
        builtin("api.admissionregistration.v1.ValidatingAdmissionPolicy"),
        fill=rules.fill_policy,
        check=rules.check_policy,
        has_status=True,
        has_generation=True,
    ),
    Kind(
        api.VALIDATING_ADMISSION_POLICY_BINDINGS,
        builtin("api.admissionregistration.v1.ValidatingAdmissionPolicyBinding"),
        fill=rules.fill_policy_binding,
        check=rules.check_policy_binding,
        has_generation=True,
    ),
)
