"""Which API resources the operator touches: its own two, and the kinds that it deploys."""

from npu_operator.kube import api
from npu_operator.kube.api import Resource
from npu_operator.model import names

CTLS = Resource(names.GROUP, names.VERSION, names.CTL_PLURAL, names.CTL_KIND)
NPU_NODES = Resource(names.GROUP, names.VERSION, names.NODE_PLURAL, names.NODE_KIND, namespaced=False)
SERVICE_MONITORS = Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor")
SERVICE_MONITOR_CRD = SERVICE_MONITORS.name
OWN_CRDS = (CTLS.name, NPU_NODES.name)
"""Definitions without which the operator can do nothing."""

OWNED = (
    api.SERVICE_ACCOUNTS,
    api.CLUSTER_ROLES,
    api.CLUSTER_ROLE_BINDINGS,
    api.ROLES,
    api.ROLE_BINDINGS,
    api.VALIDATING_ADMISSION_POLICIES,
    api.VALIDATING_ADMISSION_POLICY_BINDINGS,
    api.RUNTIME_CLASSES,
    api.CONFIG_MAPS,
    api.SERVICES,
    api.DAEMON_SETS,
)
"""Kinds that we deploy and that every cluster has."""
OPTIONAL = (SERVICE_MONITORS,)
"""Kinds that we deploy where the cluster knows them."""

_BY_KIND = {(resource.api_version, resource.kind): resource for resource in (*OWNED, *OPTIONAL)}


def resource_of(api_version: str, kind: str) -> Resource:
    """The resource of an object that we deploy. A kind that is not listed above is a mistake of ours (KeyError)."""
    return _BY_KIND[api_version, kind]
