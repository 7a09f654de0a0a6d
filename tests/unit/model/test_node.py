"""The slim Node: what is kept of a real one, and what is not."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from npu_operator.model import node
from npu_operator.model.node import Node, NodeDecoder

SAMPLES = Path(__file__).parents[4] / "shared" / "samples" / "k8s" / "node-labels_constructed.yaml"


def a_node(**changes: Any) -> bytes:
    """A Node as the API server sends it, with much that is nothing to us."""
    whole: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "a7",
            "uid": "u-7",
            "resourceVersion": "42",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "kubernetes.io/hostname": "a7",
                "kubernetes.io/arch": "arm64",
                "openfuyao.com/npu.present": "true",
                "npu.openfuyao.com/driver-upgrade-state": "drain-required",
                "npu.health": "healthy",
                "npu-operator.alauda.io/pool": "1f2e",
                "feature.node.kubernetes.io/pci-1200_19e5.present": "true",
                "feature.node.kubernetes.io/cpu-cpuid.AVX512": "true",
                "node-role.kubernetes.io/control-plane": "",
                "topology.kubernetes.io/zone": "z1",
            },
            "annotations": {
                "npu.openfuyao.com/approve-reboot": "true",
                "npu-operator.alauda.io/attempt": "{}",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                "superPodID": "3",
            },
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
        },
        "spec": {
            "podCIDR": "10.0.0.0/24",
            "unschedulable": True,
            "taints": [{"key": "npu.huawei.com/npu", "effect": "NoSchedule"}],
        },
        "status": {
            "capacity": {"cpu": "192", "memory": "1583Gi", "huawei.com/Ascend910": "8"},
            "allocatable": {"cpu": "191900m", "huawei.com/Ascend910": "7", "npu-operator.alauda.io/validation": "1"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                },
            ],
            "nodeInfo": {
                "bootID": "boot-1",
                "kernelVersion": "6.6.0-145.0.4.135.oe2403sp3.aarch64",
                "osImage": "openEuler 24.03 (LTS-SP3)",
                "architecture": "arm64",
                "containerRuntimeVersion": "containerd://2.2.9",
            },
            "images": [{"names": ["registry.example.com/x:1"], "sizeBytes": 1}] * 20,
        },
    }
    for part, change in changes.items():
        whole[part] = {**whole[part], **change}
    return msgspec.json.encode(whole)


def test_what_decisions_need_is_kept() -> None:
    found = NodeDecoder()(a_node())
    assert (found.name, found.metadata.uid, found.metadata.resource_version) == ("a7", "u-7", "42")
    assert found.unschedulable
    assert found.taints == (node.Taint(key="npu.huawei.com/npu", effect="NoSchedule"),)
    assert found.is_ready
    assert (found.boot_id, found.kernel) == ("boot-1", "6.6.0-145.0.4.135.oe2403sp3.aarch64")
    assert (found.os_image, found.architecture, found.runtime) == (
        "openEuler 24.03 (LTS-SP3)", "arm64", "containerd://2.2.9",
    )  # fmt: skip
    assert found.capacity == {"huawei.com/Ascend910": 8}
    assert found.allocatable == {"huawei.com/Ascend910": 7, "npu-operator.alauda.io/validation": 1}


def test_labels_that_nobody_reads_are_left_out() -> None:
    found = NodeDecoder()(a_node())
    assert "openfuyao.com/npu.present" in found.labels
    assert "node-role.kubernetes.io/control-plane" in found.labels
    assert "feature.node.kubernetes.io/cpu-cpuid.AVX512" not in found.labels
    assert "topology.kubernetes.io/zone" not in found.labels


def test_labels_by_which_the_policy_orders_are_kept() -> None:
    found = NodeDecoder(labels=["topology.kubernetes.io/zone"])(a_node())
    assert found.labels["topology.kubernetes.io/zone"] == "z1"


def test_annotations_of_ours_and_the_super_pod_are_kept() -> None:
    assert set(NodeDecoder()(a_node()).annotations) == {
        "npu.openfuyao.com/approve-reboot", "npu-operator.alauda.io/attempt", "superPodID",
    }  # fmt: skip


def test_a_renamed_resource_is_kept_when_told() -> None:
    raw = a_node(status={"allocatable": {"example.com/npu": "4", "nvidia.com/gpu": "8"}})
    assert NodeDecoder()(raw).allocatable == {}
    assert NodeDecoder(resources=["example.com/npu"])(raw).allocatable == {"example.com/npu": 4}


def test_two_nodes_share_the_strings_they_have_in_common() -> None:
    decode = NodeDecoder()
    first, second = decode(a_node()), decode(a_node(metadata={"name": "a8", "labels": {"npu.health": "healthy"}}))
    assert first.kernel is second.kernel
    assert first.labels["npu.health"] is second.labels["npu.health"]


def test_a_node_that_has_just_registered_is_read_as_not_ready() -> None:
    found = NodeDecoder()(b'{"metadata": {"name": "new"}, "spec": {}, "status": {}}')
    assert found == Node(metadata=found.metadata)
    assert not found.is_ready


def test_a_change_of_what_nobody_reads_leaves_the_slim_node_the_same() -> None:
    decode = NodeDecoder()
    other = decode(a_node(spec={"podCIDR": "10.9.0.0/24"}))
    assert other == decode(a_node())


@pytest.mark.parametrize(("text", "number"), [("8", 8), ("0", 0), ("1k", 1000)])
def test_counts_are_read_in_both_canonical_forms(text: str, number: int) -> None:
    assert node.count(text) == number


@pytest.mark.skipif(not SAMPLES.exists(), reason=f"the samples are not here: {SAMPLES.name}")
def test_every_sign_of_an_npu_in_the_samples_is_kept() -> None:
    signs = {"accelerator", "workerselector", "npu"}
    for labels in yaml.safe_load(SAMPLES.read_text()).values():
        wanted = {key for key in labels if key in signs or "19e5" in key or "os_release" in key}
        assert wanted <= {key for key in labels if node.keep_label(key)}
