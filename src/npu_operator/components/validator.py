"""The validator: proves from a container that devices, libraries and `npu-smi` work. It gets what any workload gets.

The chips come by one internal resource, whose Allocate answers with all of them; so the pod starts only where the
device plugin offers it. It has the capabilities that the runtime gives to any container, so what it can do, a workload
can.
"""

from npu_operator.components import environment, images, pods
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object, selector_for
from npu_operator.components.placement import daemon_set
from npu_operator.model import names
from npu_operator.model.ctl import Spec

COMPONENT = "Validator"
SERVICE_ACCOUNT = "npu-validator"
REPORT_DIR = f"{names.STATE_DIR}/validator"
"""On the host; the only directory there into which it may write."""
LIKE_A_WORKLOAD = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "runAsGroup": 0, "runAsUser": 0}
"""Root with the runtime's usual capabilities, as vendor images run; a node's owner may be another user than root."""


def build(spec: Spec, facts: ClusterFacts) -> tuple[Object, ...]:
    """Its DaemonSet; nothing without the device plugin, which hands it the chips."""
    part = spec.validator
    if not spec.device_plugin.enabled:
        return ()
    container = pods.Container(
        name="validator",
        image=images.overridden(facts.operator_image, part.image, spec.registry),
        pull_policy=part.image.pull_policy,
        command=pods.agent_command("validator"),
        env={environment.REPORT_DIR: REPORT_DIR},
        security=LIKE_A_WORKLOAD,
        mounts=(pods.STATE, pods.Mount(REPORT_DIR, read_only=False)),
        requests={"cpu": "10m", "memory": "32Mi"},
        limits={"memory": "512Mi", names.VALIDATION_RESOURCE: "1"},
        has_health_socket=True,
    )
    workload = pods.Workload(
        name=names.VALIDATOR,
        component=COMPONENT,
        selector=selector_for(names.VALIDATOR),
        containers=(container,),
        service_account=SERVICE_ACCOUNT,
        runtime_class=names.RUNTIME_CLASS if facts.is_legacy_runtime else "",  # the way a workload goes there
    )
    return (daemon_set(workload, spec, facts, part),)
