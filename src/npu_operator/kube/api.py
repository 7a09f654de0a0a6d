"""The door to a Kubernetes API server: what a resource is, what can be asked, what can go wrong.

Everything above this module talks to `Cluster`. The real one (`kube.client`) speaks HTTP; the simulated one
(`npu_operator.sim`) answers from memory; both pass the same contract tests. Answers are the bytes the server sent,
so that each caller decodes only the fields it reads (python-stack measurements: whole Nodes cost ten times more).
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

Object = dict[str, Any]
"""A Kubernetes object that we write, as plain JSON data. Objects that we read are slim structs."""


class Resource(msgspec.Struct, frozen=True):
    """One kind of object and where the API server keeps it."""

    group: str
    """API group; empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in an object's `apiVersion` field."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """As in RBAC messages: `nodes`, `daemonsets.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection or of one object, without the server's address."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace is not None and self.namespaced:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)


class Page(msgspec.Struct, frozen=True):
    """One page of a list."""

    items: tuple[msgspec.Raw, ...]
    resource_version: str
    """The version of the whole list; the same on each page."""
    continues: bool
    """True when another page follows."""


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch. `ERROR` never gets here: it is raised as the `ApiError` that its status describes."""

    type: str
    """ADDED, MODIFIED, DELETED or BOOKMARK."""
    object: msgspec.Raw


class Preconditions(msgspec.Struct, frozen=True):
    """What must still be true of an object for a delete to happen."""

    uid: str | None = None
    resource_version: str | None = None


class ApiError(Exception):
    """The API server (or the way to it) said no. `str()` is one sentence that names verb and resource."""

    by_status: ClassVar[dict[int, type["ApiError"]]] = {}

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retry_after_s: float | None = None, body: bytes = b""
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status; 0 when no answer came."""
        self.reason = reason
        """The server's CamelCase reason, e.g. `NotFound`; empty when unknown."""
        self.retry_after_s = retry_after_s
        """Seconds the server asked us to wait; None when it did not say."""
        self.body = body
        """The `Status` object as sent; it can hold causes."""

    def __init_subclass__(cls, *, status: int | None = None) -> None:
        if status is not None:
            ApiError.by_status[status] = cls


class NotFound(ApiError, status=404):
    """No such object, or no such resource (a CRD that is not installed)."""


class Conflict(ApiError, status=409):
    """Our picture was old (resourceVersion) or the name is taken (`reason == "AlreadyExists"`): look again."""


class Gone(ApiError, status=410):
    """The resourceVersion or continue token is too old: list anew."""


class Invalid(ApiError, status=422):
    """The object does not fit its schema; trying again does not help."""


class TooManyRequests(ApiError, status=429):
    """Slow down; for an eviction: a disruption budget does not allow it now."""


class Forbidden(ApiError, status=403):
    """We lack the right; the message names verb and resource."""


class Unauthorized(ApiError, status=401):
    """The server does not know us: token or certificate expired."""


class Unreachable(ApiError):
    """No answer: connection refused, reset, timed out, TLS failure. It is not known whether a write took place."""


class Cluster(Protocol):
    """The verbs that we use, no more. Each has a finite time-out and raises `ApiError`."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        """One object. Raises NotFound."""
        ...

    def list_pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = 500,
    ) -> AsyncIterator[Page]:
        """All objects, consistent, in pages of `limit`. `namespace=None` means all. Raises Gone when a page expired."""
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        timeout_s: int,
        labels: str | None = None,
        fields: str | None = None,
    ) -> AsyncIterator[WatchEvent]:
        """What happens after `resource_version`, with bookmarks, until the server ends it after `timeout_s`.

        Raises Gone (in both forms: HTTP status and ERROR event) when the version is too old.
        """
        ...

    async def create(self, resource: Resource, body: Object, namespace: str | None = None, *, manager: str) -> bytes:
        """Create; raises Conflict with reason AlreadyExists. `manager` is the field manager."""
        ...

    async def apply(
        self, resource: Resource, body: Object, *, manager: str, force: bool = True, subresource: str | None = None
    ) -> bytes:
        """Server-side apply: the fields in `body` become ours, fields we named before and no more are removed."""
        ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Object,
        namespace: str | None = None,
        *,
        manager: str,
        subresource: str | None = None,
    ) -> bytes:
        """JSON merge patch; `metadata.resourceVersion` in `body` guards it (Conflict when it differs)."""
        ...

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        preconditions: Preconditions | None = None,
        propagation: str = "Background",
        grace_s: int | None = None,
    ) -> None:
        """Delete; raises NotFound, or Conflict when a precondition fails."""
        ...

    async def evict(self, pod: str, namespace: str, *, grace_s: int | None = None, uid: str | None = None) -> None:
        """Ask for the eviction of a pod (policy/v1). Raises TooManyRequests when a budget says not now."""
        ...

    async def close(self) -> None:
        """Give connections back."""
        ...


class Clock(Protocol):
    """Time, as a door. Stamps that are kept use `now`; waiting uses `monotonic` and `sleep`."""

    def now(self) -> float:
        """Server time in seconds since 1970: the monotonic clock plus the offset of the last answer's Date."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow; unrelated to any calendar."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellable."""
        ...


def selector(labels: Mapping[str, str]) -> str:
    """A label selector that wants all of `labels`, in a stable order."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICES = Resource("", "v1", "services", "Service")
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
VALIDATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
