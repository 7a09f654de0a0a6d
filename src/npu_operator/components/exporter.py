"""npu-exporter: serves the metrics in the node's state file. Needs no device, no token and no root."""

from npu_operator.components import environment, images, pods
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object, merged, selector_for
from npu_operator.components.placement import daemon_set, metadata
from npu_operator.model import names
from npu_operator.model.ctl import ServiceMonitor, Spec

COMPONENT = "Exporter"
SERVICE_ACCOUNT = "npu-exporter"
PORT = 8082
"""MindCluster's exporter listens here; dashboards and network policies expect it."""
APP = {names.LABEL_APP: names.EXPORTER}
"""As on MindCluster's exporter pods; scrape configurations out there select by it."""


def build(spec: Spec, facts: ClusterFacts) -> tuple[Object, ...]:
    """DaemonSet, Service, and a ServiceMonitor where the cluster knows that kind; nothing when switched off."""
    part = spec.exporter
    if not part.enabled:
        return ()
    container = pods.Container(
        name="exporter",
        image=images.overridden(facts.operator_image, part.image, spec.registry),
        pull_policy=part.image.pull_policy,
        command=pods.agent_command("exporter"),
        env={environment.METRICS_PORT: str(PORT)},
        security=pods.AS_NOBODY,
        mounts=(pods.STATE,),
        requests={"cpu": "10m", "memory": "48Mi"},
        limits={"memory": "128Mi"},
        port=PORT,
    )
    workload = pods.Workload(
        name=names.EXPORTER,
        component=COMPONENT,
        selector=selector_for(names.EXPORTER),
        labels=APP,
        containers=(container,),
        service_account=SERVICE_ACCOUNT,
    )
    objects = [daemon_set(workload, spec, facts, part), _service(facts)]
    if part.service_monitor.enabled and facts.has_service_monitor_crd:
        objects.append(_service_monitor(part.service_monitor, facts))
    return tuple(objects)


def _service(facts: ClusterFacts) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(names.EXPORTER, COMPONENT, facts, {**selector_for(names.EXPORTER), **APP}),
        "spec": {
            "ports": [{"name": "http", "port": PORT, "protocol": "TCP", "targetPort": "http"}],
            "selector": selector_for(names.EXPORTER),
        },
    }


def _service_monitor(wanted: ServiceMonitor, facts: ClusterFacts) -> Object:
    """`honorLabels`, because `namespace`, `pod_name` and `container_name` of a series tell who holds the chip, not who
    is scraped.
    """
    own = merged(wanted.labels, selector_for(names.EXPORTER))
    on_node = {"action": "replace", "sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata(names.SERVICE_MONITOR, COMPONENT, facts, own),
        "spec": {
            "endpoints": [
                {
                    "honorLabels": True,
                    "interval": wanted.interval,
                    "path": "/metrics",
                    "port": "http",
                    "relabelings": [on_node],
                }
            ],
            "namespaceSelector": {"matchNames": [facts.namespace]},
            "selector": {"matchLabels": selector_for(names.EXPORTER)},
        },
    }
