"""The rebooter: executes exactly the reboot that was authorised, once.

Goes where the driver goes. Source: product.md §4.9.
"""

from npu_operator.components import environment, images, pods
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object, selector_for
from npu_operator.components.placement import daemon_set
from npu_operator.model import names
from npu_operator.model.ctl import RebootMethod, Spec
from npu_operator.model.parts import Placed, PullPolicy

COMPONENT = "Rebooter"
SERVICE_ACCOUNT = "npu-rebooter"


def build(spec: Spec, facts: ClusterFacts) -> tuple[Object, ...]:
    """Its DaemonSet; nothing in passthrough, where nobody but the admin reboots."""
    if not spec.driver.enabled:
        return ()
    driver = spec.driver
    part = Placed(
        node_selector=driver.node_selector,
        tolerations=driver.tolerations,
        affinity=driver.affinity,
        priority_class_name=driver.priority_class_name,
        env=driver.env,
    )
    workload = pods.Workload(
        name=names.REBOOTER,
        component=COMPONENT,
        selector=selector_for(names.REBOOTER),
        labels=names.REBOOTER_LABELS,
        containers=(_rebooter(spec, facts),),
        service_account=SERVICE_ACCOUNT,
        needs_token=True,  # asks once more, right before the trigger, whether this reboot is still wanted
        host_pid=True,  # systemctl and command run in the host's namespaces
        host_network=True,  # a node whose network plugin is broken can still be told to reboot
        grace_s=60,  # an authorised reboot that has been recorded goes through: 30 s for sync, then the trigger
    )
    return (daemon_set(workload, spec, facts, part),)


def _rebooter(spec: Spec, facts: ClusterFacts) -> pods.Container:
    """Privileged, because /proc/sysrq-trigger is read-only in any other container and the host's systemctl or command
    has to be run on the host. It writes on the host: /proc/sysrq-trigger, /run/ascend, and in /var/lib/Ascend and
    /var/lib/ascend its record and the pointer `next`.
    """
    reboot = spec.driver.reboot
    settings = {environment.REBOOT_METHOD: reboot.method.value}
    if reboot.method is RebootMethod.COMMAND:
        settings[environment.REBOOT_COMMAND] = environment.as_json(reboot.command)
    return pods.Container(
        name="rebooter",
        image=images.with_registry(facts.operator_image, spec.registry),
        pull_policy=PullPolicy.IF_NOT_PRESENT,
        command=pods.agent_command("rebooter"),
        env=settings,
        security=pods.PRIVILEGED,
        mounts=(pods.HOST,),
        requests={"cpu": "10m", "memory": "32Mi"},
        limits={"memory": "128Mi"},
        has_health_socket=True,
        may_be_restarted=False,  # a kill between the record and the trigger would use up the attempt
    )
