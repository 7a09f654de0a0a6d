"""Discovery: on nodes that no label tells about, look at the PCI bus and create the NPUNode where there is a chip.

That NPUNode is the sign; the operator then labels the node, and these pods leave it. Nothing but sysfs, read-only, as
nobody.
"""

from npu_operator.components import environment, images, pods
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object, selector_for
from npu_operator.components.placement import daemon_set
from npu_operator.model import names
from npu_operator.model.ctl import Discovery, Spec
from npu_operator.model.parts import Placed, PullPolicy

COMPONENT = "Discovery"
SERVICE_ACCOUNT = "npu-discovery"
SYSFS = pods.Mount("/sys", f"{pods.HOST_ROOT}/sys", must_exist=True)
LINUX = {"kubernetes.io/os": "linux"}


def build(spec: Spec, facts: ClusterFacts) -> tuple[Object, ...]:
    """Its DaemonSet; nothing with `discovery: Off`."""
    if spec.discovery is not Discovery.AUTO:
        return ()
    container = pods.Container(
        name="discovery",
        image=images.with_registry(facts.operator_image, spec.registry),
        pull_policy=PullPolicy.IF_NOT_PRESENT,
        command=pods.agent_command("discovery"),
        env={environment.HOST_ROOT: pods.HOST_ROOT},
        security=pods.AS_NOBODY,
        mounts=(SYSFS,),
        requests={"cpu": "5m", "memory": "32Mi"},
        limits={"memory": "96Mi"},
        has_health_socket=True,
    )
    workload = pods.Workload(
        name=names.DISCOVERY,
        component=COMPONENT,
        selector=selector_for(names.DISCOVERY),
        containers=(container,),
        service_account=SERVICE_ACCOUNT,
        needs_token=True,  # creates one NPUNode
        node_labels=LINUX,
        never_on=names.NPU_PRESENT,
    )
    return (daemon_set(workload, spec, facts, Placed()),)
