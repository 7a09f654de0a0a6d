"""The operator itself: what an admin applies once. Manifests, chart and bundle are all made from here.

Not found by `labels.MANAGED`, so the operator never takes itself for something it deployed. Source: product.md §3;
facts/peers.md §5.9 (A02, A05).
"""

import msgspec

from npu_operator.components import images, labels, operator_rights, pods, rbac
from npu_operator.components.labels import Object
from npu_operator.model import names

PORT = 8080
"""Probes and metrics, answered by the operator's own loop (`operator.settings`, `listen_port`)."""
METRICS_SERVICE = f"{names.DEPLOYMENT_OPERATOR}-metrics"
POD_SECURITY = "pod-security.kubernetes.io"


class Install(msgspec.Struct, frozen=True, kw_only=True):
    """What differs from one installation to another."""

    version: str
    image: str = ""
    """Empty: the release's image."""
    namespace: str = names.NAMESPACE
    replicas: int = 1
    pull_secrets: tuple[str, ...] = ()

    @property
    def operator_image(self) -> str:
        """The image that runs."""
        return self.image or str(images.Reference(images.OPERATOR_REPOSITORY, self.version))


def build(install: Install) -> tuple[Object, ...]:
    """Everything but the CRDs, in the order in which it is applied."""
    objects = [_namespace(install), _account(install), *_rights(install), _service(install), _deployment(install)]
    if install.replicas > 1:
        objects.append(_disruption_budget(install))
    return tuple(objects)


def _metadata(install: Install, name: str = names.DEPLOYMENT_OPERATOR, *, namespaced: bool = True) -> Object:
    own = {labels.PART_OF: names.OPERATOR_NAME, labels.VERSION: labels.label_value(install.version)}
    return {
        "labels": labels.merged(labels.selector_for(names.DEPLOYMENT_OPERATOR), own),
        "name": name,
        **({"namespace": install.namespace} if namespaced else {}),
    }


def _namespace(install: Install) -> Object:
    """Pod security `privileged`, because the loader, the node agent and the rebooter have to be."""
    meta = _metadata(install, install.namespace, namespaced=False)
    levels = {f"{POD_SECURITY}/{mode}": "privileged" for mode in ("audit", "enforce", "warn")}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": meta | {"labels": labels.merged(meta["labels"], levels)},
    }


def _account(install: Install) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(install),
        "automountServiceAccountToken": False,  # the Deployment says so itself
    }


def _rights(install: Install) -> list[Object]:
    objects: list[Object] = []
    for kind, rules in (("ClusterRole", operator_rights.IN_CLUSTER), ("Role", operator_rights.IN_NAMESPACE)):
        meta = _metadata(install, namespaced=kind == "Role")
        objects += [
            rbac.role(kind, meta, rules),
            rbac.binding(kind, meta, names.DEPLOYMENT_OPERATOR, install.namespace),
        ]
    return objects


def _service(install: Install) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(install, METRICS_SERVICE),
        "spec": {
            "ports": [{"name": "http", "port": PORT, "protocol": "TCP", "targetPort": "http"}],
            "selector": labels.selector_for(names.DEPLOYMENT_OPERATOR),
        },
    }


def _deployment(install: Install) -> Object:
    own = {labels.PART_OF: names.OPERATOR_NAME}
    selector = labels.selector_for(names.DEPLOYMENT_OPERATOR)
    pull_secrets = [{"name": name} for name in install.pull_secrets]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(install),
        "spec": {
            "replicas": install.replicas,
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": labels.merged(selector, own)},
                "spec": {
                    "affinity": _affinity(),
                    "automountServiceAccountToken": True,
                    "containers": [_container(install)],
                    "enableServiceLinks": False,
                    **({"imagePullSecrets": pull_secrets} if pull_secrets else {}),
                    "priorityClassName": "system-cluster-critical",
                    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                    "serviceAccountName": names.DEPLOYMENT_OPERATOR,
                    "tolerations": [{"key": key, "operator": "Exists"} for key in names.TAINTS_CONTROL_PLANE],
                },
            },
        },
    }


def _affinity() -> Object:
    """Rather not on a node with NPUs, which the operator itself may have to drain; replicas rather not together."""
    elsewhere = {"matchExpressions": [{"key": names.NPU_PRESENT, "operator": "DoesNotExist"}]}
    apart = {
        "labelSelector": {"matchLabels": labels.selector_for(names.DEPLOYMENT_OPERATOR)},
        "topologyKey": names.HOSTNAME,
    }
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    return {
        "nodeAffinity": {preferred: [{"preference": elsewhere, "weight": 100}]},
        "podAntiAffinity": {preferred: [{"podAffinityTerm": apart, "weight": 100}]},
    }


def _container(install: Install) -> Object:
    def from_field(name: str, path: str) -> Object:
        return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}

    def probe(path: str, period_s: int) -> Object:
        request = {"path": path, "port": "http", "scheme": "HTTP"}
        return {"failureThreshold": 3, "httpGet": request, "periodSeconds": period_s, "timeoutSeconds": 5}

    return {
        "command": [pods.PROGRAM, "run"],
        "env": [
            from_field("NPU_OPERATOR_NAMESPACE", "metadata.namespace"),
            from_field("POD_NAME", "metadata.name"),
            {"name": "NPU_OPERATOR_IMAGE", "value": install.operator_image},
        ],
        "image": install.operator_image,
        "imagePullPolicy": "IfNotPresent",
        "livenessProbe": probe("/healthz", 20),
        "name": "operator",
        "ports": [{"containerPort": PORT, "name": "http", "protocol": "TCP"}],
        "readinessProbe": probe("/readyz", 5),
        "resources": {
            "limits": {"memory": "512Mi"},  # 5,000 nodes need 320 MiB at the start, product.md §6
            "requests": {"cpu": "100m", "memory": "128Mi"},
        },
        "securityContext": dict(pods.AS_NOBODY),
    }


def _disruption_budget(install: Install) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(install),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": labels.selector_for(names.DEPLOYMENT_OPERATOR)},
        },
    }
