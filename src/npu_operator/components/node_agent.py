"""The node agent: the only process that talks to the chips, and the one that keeps the container runtime set up.

It is deployed whatever is switched off, because everything that is known of a node comes from it; the switch
`containerRuntime.enabled` only says whether it keeps CDI file and containerd settings. Source: product.md §3, §4.
"""

from npu_operator.components import environment, images, pods
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object, selector_for
from npu_operator.components.placement import daemon_set
from npu_operator.model import names
from npu_operator.model.ctl import Spec

COMPONENT = "NodeAgent"
SERVICE_ACCOUNT = "npu-node-agent"


def build(spec: Spec, facts: ClusterFacts) -> tuple[Object, ...]:
    """Its DaemonSet."""
    part = spec.container_runtime
    workload = pods.Workload(
        name=names.NODE_AGENT,
        component=COMPONENT,
        selector=selector_for(names.NODE_AGENT),
        containers=(_agent(spec, facts),),
        service_account=SERVICE_ACCOUNT,
        needs_token=True,  # reports to its NPUNode and watches its Node
        host_pid=True,  # finds the host's mount namespace and the containers of the processes that hold chips
        host_network=True,  # no network plugin has to be up before the chips are
        grace_s=120,  # restores containerd, with a restart, when it ends because we are uninstalled
    )
    return (daemon_set(workload, spec, facts, part),)


def _agent(spec: Spec, facts: ClusterFacts) -> pods.Container:
    """Privileged, because it runs the vendor's tools and opens devices inside the host's mount namespace. It writes on
    the host: /run/ascend, /var/lib/ascend, /var/run/cdi, the configuration of containerd (/etc/containerd or the paths
    of k3s and RKE2) and its restart by systemd, /var/log/npu, and by hccn_tool the chips' addresses; it reads /proc,
    /sys, /dev/kmsg, the driver tree, /etc/hccn.conf and the kubelet's pod-resources socket.
    """
    recovery = spec.driver.recovery_policy
    settings = {
        environment.DRIVER_MANAGED: environment.as_flag(spec.driver.enabled),
        environment.RUNTIME_MANAGED: environment.as_flag(spec.container_runtime.enabled),
        environment.LIBRARY_PATH: spec.container_runtime.library_path.value,
        environment.PROBE_SECOND: str(recovery.probe_second),
        environment.PROBE_FAILURES: str(recovery.failures),
        environment.HEALER: recovery.healer.value,
    }
    if spec.device_plugin.resource_names:
        settings[environment.RESOURCE_NAMES] = environment.as_json(spec.device_plugin.resource_names)
    return pods.Container(
        name="agent",
        image=images.overridden(facts.operator_image, spec.container_runtime.image, spec.registry),
        pull_policy=spec.container_runtime.image.pull_policy,
        command=pods.agent_command("node-agent"),
        env=settings,
        security=pods.PRIVILEGED,
        mounts=(pods.HOST,),
        requests={"cpu": "20m", "memory": "64Mi"},
        limits={"memory": "512Mi"},  # the vendor's tools are its children
        has_health_socket=True,
    )
