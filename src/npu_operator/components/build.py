"""Everything that a spec asks for, component by component, in the order in which it is applied.

Rights before those who use them; the node agent before those who wait for its file. All components are listed, also
those that are switched off or in conflict: with no objects, so that the planner sees what to take back and the status
what to say.
"""

from collections.abc import Callable

import msgspec

from npu_operator.components import (
    device_plugin,
    discovery,
    driver,
    exporter,
    node_agent,
    rbac,
    rebooter,
    runtime_class,
    validator,
)
from npu_operator.components.conflicts import MINDCLUSTER_PARTS, Conflict, conflicts
from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object
from npu_operator.model.ctl import Discovery, Spec

Builder = Callable[[Spec, ClusterFacts], tuple[Object, ...]]
Switch = Callable[[Spec], bool]


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """One component as this spec wants it."""

    name: str
    """As in the status: `DevicePlugin`; also the value of the label `labels.COMPONENT_OF` on its objects."""
    is_on: bool
    """Whether the spec switches it on."""
    objects: tuple[Object, ...] = ()
    """In the order in which they are applied. Not to be changed: builders share parts of them."""
    conflicts: tuple[Conflict, ...] = ()
    """Why nothing of it is deployed though it is on; what was there before is left as it is."""


def _always(_: Spec) -> bool:
    return True


def _in_later_version(_: Spec, __: ClusterFacts) -> tuple[Object, ...]:
    """MindCluster's parts; `conflicts` tells whoever switches one on."""
    return ()


# fmt: off
COMPONENTS: tuple[tuple[str, Switch, Builder], ...] = (
    (rbac.COMPONENT,          _always,                                            rbac.build),
    (runtime_class.COMPONENT, lambda spec: spec.container_runtime.enabled,        runtime_class.build),
    (node_agent.COMPONENT,    _always,                                            node_agent.build),
    (driver.COMPONENT,        lambda spec: spec.driver.enabled,                   driver.build),
    (device_plugin.COMPONENT, lambda spec: spec.device_plugin.enabled,            device_plugin.build),
    (exporter.COMPONENT,      lambda spec: spec.exporter.enabled,                 exporter.build),
    (validator.COMPONENT,     lambda spec: spec.device_plugin.enabled,            validator.build),
    (rebooter.COMPONENT,      lambda spec: spec.driver.enabled,                   rebooter.build),
    (discovery.COMPONENT,     lambda spec: spec.discovery is Discovery.AUTO,      discovery.build),
    *(
        (part.component,      lambda spec, part=part: part.of(spec).enabled,      _in_later_version)
        for part in MINDCLUSTER_PARTS
    ),
)
# fmt: on


def wanted(spec: Spec, facts: ClusterFacts) -> tuple[Component, ...]:
    """What should be in the cluster. Same input, same output."""
    against = conflicts(spec, facts.pools)
    components = []
    for name, is_on, build in COMPONENTS:
        found = tuple(conflict for conflict in against if conflict.component == name)
        is_blocked = any(not conflict.chips for conflict in found)
        objects = () if is_blocked else build(spec, facts)
        components.append(Component(name=name, is_on=is_on(spec), objects=objects, conflicts=found))
    return tuple(components)
