"""Builders for tests of plans: sensible defaults, so that a test names only what it is about."""

from typing import Any

from npu_operator.model import names
from npu_operator.model.chips import ChipFamily, ChipHealth, ChipState
from npu_operator.model.metadata import Metadata
from npu_operator.model.node import Node, Taint
from npu_operator.model.npunode import (
    Chip,
    DriverFound,
    Found,
    ManagedBy,
    NPUNode,
    NPUNodeStatus,
    RuntimeFound,
    Validation,
)
from npu_operator.model.reading import ParsedCtl, parse_ctl
from npu_operator.plan.snapshot import Snapshot

NFD = {"feature.node.kubernetes.io/pci-1200_19e5.present": "true"}
OS = {names.NFD_OS_ID: "openEuler", names.NFD_OS_VERSION: "24.03"}
KERNEL = "6.6.0-145.0.4.135.oe2403sp3.aarch64"
BOOT = "boot-1"
NOW = "2026-11-30T12:00:00Z"


def a_node(name: str = "a1", **changes: Any) -> Node:
    """An A2 node that NFD has labelled; Kubernetes says Ready."""
    labels = changes.pop("labels", NFD | OS)
    annotations = changes.pop("annotations", {})
    version = changes.pop("version", "7")
    fields: dict[str, Any] = {
        "metadata": Metadata(
            name=name, uid=f"uid-{name}", resource_version=version, labels=dict(labels), annotations=dict(annotations)
        ),
        "ready": "True",
        "boot_id": BOOT,
        "kernel": KERNEL,
        "architecture": "arm64",
        "runtime": "containerd://2.2.9",
    }
    return Node(**(fields | changes))


def a_chip(number: int = 0, **changes: Any) -> Chip:
    """A healthy free 910B3."""
    fields: dict[str, Any] = {"id": f"Ascend910-{number}", "model": "910B3", "physical": number, "memory_mib": 65536}
    return Chip(**(fields | changes))


def found(**changes: Any) -> Found:
    """What the agent of a node that works reports."""
    fields: dict[str, Any] = {
        "boot_id": BOOT,
        "kernel": KERNEL,
        "os_id": "openEuler",
        "os_version": "24.03",
        "chip": ChipFamily.ASCEND_910B,
        "chips": tuple(a_chip(number) for number in range(8)),
        "driver": DriverFound(version="25.5.0", loaded=True, managed_by=ManagedBy.OPERATOR),
        "validation": Validation(passed=True, boot_id=BOOT, version="25.5.0"),
        "runtime": RuntimeFound(name="containerd", handler="runc", configured=True),
    }
    return Found(**(fields | changes))


def an_npu_node(name: str = "a1", reported: Found | None = None, *, by_operator: bool = True) -> NPUNode:
    """The NPUNode, made by the operator unless told otherwise."""
    labels = {names.LABEL_MANAGED_BY: names.OPERATOR_NAME} if by_operator else {}
    return NPUNode(
        metadata=Metadata(name=name, uid=f"npu-{name}", resource_version="5", labels=labels),
        status=NPUNodeStatus(found=reported if reported is not None else Found()),
    )


def a_ctl(name: str = "npuoperatorctl-sample", **spec: Any) -> ParsedCtl:
    """The object in charge."""
    return parse_ctl(
        {
            "metadata": {
                "name": name,
                "namespace": names.NAMESPACE,
                "uid": f"uid-{name}",
                "generation": 1,
                "creationTimestamp": NOW,
            },
            "spec": spec,
        }
    )


def a_snapshot(nodes: tuple[Node, ...] = (), npu_nodes: tuple[NPUNode, ...] = (), **changes: Any) -> Snapshot:
    """A cluster with the sample object, unless `ctls` says otherwise."""
    ctls = changes.pop("ctls", (a_ctl(),))
    fields: dict[str, Any] = {
        "namespace": names.NAMESPACE,
        "operator_image": "npu-operator:test",
        "operator_version": "1.0.0",
        "now": NOW,
        "ctls": {f"{ctl.metadata.namespace}/{ctl.metadata.name}": ctl for ctl in ctls},
        "nodes": {node.name: node for node in nodes},
        "npu_nodes": {npu_node.metadata.name: npu_node for npu_node in npu_nodes},
        "objects": {},
        "has_service_monitor_crd": False,
        "seconds_without_sign": {},
        "seconds_without_ctl": 0.0,
    }
    return Snapshot(**(fields | changes))


SICK = {"health": ChipHealth.CRITICAL, "fault_codes": ("80E18402",)}
LOST = {"state": ChipState.LOST}
FOREIGN_TAINT = Taint(key=names.TAINT_DEFAULT_KEY, effect="NoSchedule")
