"""The device plugin: offers chips to the kubelet.

It knows what the node's state file says, and never asks the API server.
"""

from npu_operator.components import environment, images, pods
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object, selector_for
from npu_operator.components.placement import daemon_set
from npu_operator.model import names
from npu_operator.model.ctl import Spec

COMPONENT = "DevicePlugin"
SERVICE_ACCOUNT = "npu-device-plugin"
KUBELET_DIR = "/var/lib/kubelet/device-plugins"
"""Where the kubelet listens for plugins and finds their sockets; owned by root, mode 0750."""


def build(spec: Spec, facts: ClusterFacts) -> tuple[Object, ...]:
    """Its DaemonSet; nothing when switched off."""
    part = spec.device_plugin
    if not part.enabled:
        return ()
    settings = {environment.INJECTION: part.injection.value}
    if part.resource_names:
        settings[environment.RESOURCE_NAMES] = environment.as_json(part.resource_names)
    container = pods.Container(
        name="plugin",
        image=images.overridden(facts.operator_image, part.image, spec.registry),
        pull_policy=part.image.pull_policy,
        command=pods.agent_command("device-plugin"),
        env=settings,
        security=pods.AS_ROOT,  # only root may enter the kubelet's directory
        mounts=(pods.Mount(KUBELET_DIR, read_only=False, must_exist=True), pods.STATE),
        requests={"cpu": "10m", "memory": "48Mi"},
        limits={"memory": "128Mi"},
        has_health_socket=True,
    )
    workload = pods.Workload(
        name=names.DEVICE_PLUGIN,
        component=COMPONENT,
        selector=selector_for(names.DEVICE_PLUGIN),
        labels=names.DEVICE_PLUGIN_LABELS,
        containers=(container,),
        service_account=SERVICE_ACCOUNT,
        host_network=True,  # uses none, and so has to wait for no network plugin after a boot
    )
    return (daemon_set(workload, spec, facts, part),)
