"""Admission: what is refused because of other objects. Admission policies (CEL) are not evaluated."""

from npu_operator.kube import api
from npu_operator.kube.api import Resource
from npu_operator.sim.server import refusals
from npu_operator.sim.server.objects import Tree
from npu_operator.sim.server.refusals import Cause
from npu_operator.sim.server.store import Store
from npu_operator.sim.server.workloads import PRIORITIES


class Admission:
    """The plugins NamespaceLifecycle, Priority and ServiceAccount, as far as they refuse."""

    def __init__(self, store: Store, *, checks_accounts: bool) -> None:
        self.priorities = dict(PRIORITIES)
        """Priority classes by name; a pod of another class is refused."""
        self._store = store
        self._checks_accounts = checks_accounts

    def check_namespace(self, resource: Resource, name: str | None, namespace: str) -> None:
        """Refused when a new object's namespace is not there (404) or on its way out (403)."""
        found = self._store.table(api.NAMESPACES).objects.get(("", namespace))
        if found is None:
            raise refusals.not_found(api.NAMESPACES, namespace)
        if found.is_leaving:
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
            raise refusals.forbidden(resource, name, message, [cause])

    def check_pod(self, pod: Tree) -> None:
        """Refused (403) when a pod names a priority class or a ServiceAccount that is not there."""
        spec, name, namespace = pod["spec"], pod["metadata"]["name"], pod["metadata"]["namespace"]
        wanted = spec.get("priorityClassName")
        if wanted and wanted not in self.priorities:
            raise refusals.forbidden(api.PODS, name, f"no PriorityClass with name {wanted} was found")
        account = spec.get("serviceAccountName", "default")
        if self._checks_accounts and (namespace, account) not in self._store.table(api.SERVICE_ACCOUNTS).objects:
            why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
            raise refusals.forbidden(api.PODS, name, why)
