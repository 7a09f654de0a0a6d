"""Labels of everything we deploy: who made it, which component it belongs to, what selects its pods.

A selector cannot be changed after a DaemonSet was made, so it holds only what never changes. Further labels go on pods
freely. The operator finds what it owns by `MANAGED`, also after a restart and after a component was switched off.
"""

import re
from collections.abc import Mapping
from typing import Any

from npu_operator.model import names

Object = dict[str, Any]
"""A Kubernetes object as plain JSON data."""

COMPONENT_OF = f"{names.GROUP}/component"
"""Label on each object: the component it belongs to, spelled as in the status (`DevicePlugin`)."""
POLICY_OF = f"{names.GROUP}/policy"
"""Annotation on each object: namespace and name of the `NPUOperatorCtl` that asked for it."""
PART_OF = "app.kubernetes.io/part-of"
VERSION = "app.kubernetes.io/version"
MANAGED = {names.LABEL_MANAGED_BY: names.OPERATOR_NAME, PART_OF: names.OPERATOR_NAME}
"""Labels that all objects the operator makes have in common, and no others have."""

_LONGEST_VALUE = 63
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")


def selector_for(workload: str) -> dict[str, str]:
    """Labels that select the pods of one DaemonSet or Deployment, and no other's."""
    return {names.LABEL_COMPONENT: workload, names.LABEL_NAME: names.OPERATOR_NAME}


def label_value(text: str) -> str:
    """`text` as the value of a label: other characters than the allowed ones become `_`, at most 63 are kept."""
    return _FOREIGN.sub("_", text)[:_LONGEST_VALUE].strip("_.-")


def merged(*maps: Mapping[str, str]) -> dict[str, str]:
    """All maps in one, the last one wins, keys in order."""
    together: dict[str, str] = {}
    for one in maps:
        together.update(one)
    return dict(sorted(together.items()))
