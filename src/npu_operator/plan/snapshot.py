"""Everything a decision may look at, frozen.

The mappings are read-only views of the stores, so taking a snapshot copies nothing. Elapsed times are observed facts,
which lets every wait be tested without a clock.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from npu_operator.model.node import Node
from npu_operator.model.npunode import NPUNode
from npu_operator.model.reading import ParsedCtl


class ObjectKey(NamedTuple):
    """Which object. `namespace` is empty for cluster-scoped ones."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "ObjectKey":
        """The key of an object in JSON form."""
        metadata = body["metadata"]
        return cls(body["apiVersion"], body["kind"], metadata.get("namespace", ""), metadata["name"])


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one moment."""

    namespace: str
    """The operator's own."""
    operator_image: str
    operator_version: str
    now: str
    """Server time in RFC 3339, for stamps that are kept together with a change."""
    ctls: Mapping[str, ParsedCtl]
    """All `NPUOperatorCtl` objects by `namespace/name`."""
    nodes: Mapping[str, Node]
    npu_nodes: Mapping[str, NPUNode]
    objects: Mapping[ObjectKey, Mapping[str, Any]]
    """What of ours exists, as JSON."""
    has_service_monitor_crd: bool
    seconds_without_sign: Mapping[str, float]
    """Nodes with our label on which no sign of an NPU is left, and for how long that has been so."""
    seconds_without_ctl: float
    """How long no object has been in charge; 0 while one is."""
    api_problems: tuple[str, ...] = ()
    """What the API server refuses us at the moment, one sentence each."""
    stale_definitions: tuple[str, ...] = ()
    """Definitions in the cluster that are not those of this operator, one sentence each."""
    refused_objects: Mapping[ObjectKey, str] = {}
    """Objects of ours that the API server did not take, and why."""
