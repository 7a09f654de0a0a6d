"""RuntimeClass `ascend`, for manifests that still name it; new ones need none.

Its handler must exist on every NPU node and cannot be changed: where it differs the planner deletes the class and
creates it again. Running pods are not touched by that. Source: product.md §1.
"""

from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object
from npu_operator.components.placement import metadata
from npu_operator.model import names
from npu_operator.model.ctl import Spec

COMPONENT = "RuntimeClass"


def build(spec: Spec, facts: ClusterFacts) -> tuple[Object, ...]:
    """The class; nothing when the container runtime is left alone."""
    if not spec.container_runtime.enabled:
        return ()
    return (
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": metadata(names.RUNTIME_CLASS, COMPONENT, facts, namespaced=False),
            "handler": facts.runtime_handler,
        },
    )
