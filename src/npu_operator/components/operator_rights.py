"""What the operator may do, and why: nothing with a wildcard, no `update` (it patches), no `escalate`, no `bind`.

It holds every right that it grants to an agent, as the API server demands of whoever writes a role. Kinds whose
objects we name ourselves may be changed and removed by those names only; `create` cannot be limited by name in
Kubernetes.
"""

from npu_operator.components import admission, rbac
from npu_operator.components.rbac import READ, Rule
from npu_operator.model import names

CREATE = ("create",)
CHANGE = ("delete", "patch")
OWN = (*READ, *CREATE, *CHANGE)
"""Server-side apply needs `create` besides `patch` where the object does not exist yet."""

_CLUSTER_ROLES = tuple(account.name for account in rbac.ACCOUNTS if account.in_cluster)

# fmt: off
IN_CLUSTER = (
    # What people want, in whatever namespace they put it; finalizer and status.
    Rule(names.GROUP, (names.CTL_PLURAL,), (*READ, "patch")),
    Rule(names.GROUP, (f"{names.CTL_PLURAL}/status",), ("patch",)),
    # One object per NPU node.
    Rule(names.GROUP, (names.NODE_PLURAL,), OWN),
    Rule(names.GROUP, (f"{names.NODE_PLURAL}/status",), ("patch",)),
    # Labels, cordon and attempt record.
    Rule("", ("nodes",), (*READ, "patch")),
    # Taking a node out of service: who runs there, a mark that asks for a checkpoint, eviction, deletion with force.
    Rule("", ("pods",), (*READ, *CHANGE)),
    Rule("", ("pods/eviction",), CREATE),
    Rule("policy", ("poddisruptionbudgets",), READ),
    # Is our namespace going away?
    Rule("", ("namespaces",), ("get",)),
    # Do ServiceMonitors exist? Are our own definitions there, and of this version?
    Rule("apiextensions.k8s.io", ("customresourcedefinitions",), READ),
    Rule("events.k8s.io", ("events",), ("create", "patch")),
    # What `components` makes outside the namespace.
    Rule("node.k8s.io", ("runtimeclasses",), (*READ, *CREATE)),
    Rule("node.k8s.io", ("runtimeclasses",), CHANGE, only=(names.RUNTIME_CLASS,)),
    Rule(rbac.RBAC_GROUP, ("clusterroles", "clusterrolebindings"), (*READ, *CREATE)),
    Rule(rbac.RBAC_GROUP, ("clusterroles", "clusterrolebindings"), CHANGE, only=_CLUSTER_ROLES),
    Rule(admission.GROUP, ("validatingadmissionpolicies", "validatingadmissionpolicybindings"), (*READ, *CREATE)),
    Rule(admission.GROUP, ("validatingadmissionpolicies", "validatingadmissionpolicybindings"), CHANGE,
         only=(admission.NAME,)),
)

IN_NAMESPACE = (
    # What `components` makes in it.
    Rule("apps", ("daemonsets",), OWN),
    Rule("", ("configmaps", "services", "serviceaccounts"), OWN),
    Rule(rbac.RBAC_GROUP, ("roles", "rolebindings"), OWN),
    Rule("monitoring.coreos.com", ("servicemonitors",), OWN),
    # Who leads, and which nodes are down.
    Rule("coordination.k8s.io", ("leases",), CREATE),
    Rule("coordination.k8s.io", ("leases",), ("get", *CHANGE), only=(names.LEASE_LEADER, names.LEASE_SLOTS)),
    # The logins with which it asks registries for driver images.
    Rule("", ("secrets",), ("get",)),
)
# fmt: on
