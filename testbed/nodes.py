"""What hollow nodes look like: Node objects as a kubelet on an Arm server with openEuler would register them."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from testbed.client import Object

CAPACITY = {"cpu": "192", "memory": "1576345892Ki", "ephemeral-storage": "3749553048Ki", "pods": "110"}
IMAGES = 20
CONDITIONS = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "NetworkUnavailable": ("False", "CalicoIsUp", "Calico is running on this node"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}
# The CPU flags that node-feature-discovery publishes for a Kunpeng 920 and its like, one label each.
CPU_FLAGS = (
    "AES", "ASIMD", "ASIMDDP", "ASIMDFHM", "ASIMDHP", "ASIMDRDM", "ATOMICS", "CPUID", "CRC32", "DCPOP", "DIT",
    "EVTSTRM", "FCMA", "FLAGM", "FP", "FPHP", "ILRCPC", "JSCVT", "LRCPC", "PACA", "PACG", "PMULL", "SHA1", "SHA2",
    "SHA3", "SHA512", "SM3", "SM4", "SSBS", "SVE", "USCAT",
)  # fmt: skip
NFD = "feature.node.kubernetes.io"


@dataclass(frozen=True, kw_only=True)
class HollowNode:
    """A node to be. `labels` win over the ones that follow from the other fields; a realistic one has 60 labels,
    20 images and 5 conditions in 12–16 KiB, the others only the Ready condition.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    architecture: str = "arm64"
    kernel: str = "6.6.0-145.0.4.135.oe2403sp3.aarch64"
    os_id: str = "openEuler"
    os_version: str = "24.03"
    os_image: str = "openEuler 24.03 (LTS-SP3)"
    runtime: str = "containerd://2.2.9"
    capacity: Mapping[str, str] = field(default_factory=lambda: CAPACITY)
    boot_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    realistic: bool = False
    has_nfd: bool = True
    """Whether node-feature-discovery has put its kernel and system labels on it."""


def address(name: str) -> str:
    """The node's internal address: always the same for a name, and nobody's in reality."""
    first, second, third, *_ = hashlib.sha256(name.encode()).digest()
    return f"10.{128 + first % 64}.{second}.{third}"


def condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    """One condition of a node, as of `now` (RFC 3339)."""
    return {
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }  # fmt: skip


def manifest(node: HollowNode, now: str) -> Object:
    """The Node object with its status, ready as of `now`."""
    kinds = CONDITIONS if node.realistic else ["Ready"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": _labels(node), "annotations": dict(node.annotations)},
        "spec": {"taints": [dict(taint) for taint in node.taints]},
        "status": {
            "capacity": dict(node.capacity),
            "allocatable": dict(node.capacity),
            "conditions": [condition(kind, *CONDITIONS[kind], now) for kind in kinds],
            "addresses": [
                {"type": "InternalIP", "address": address(node.name)},
                {"type": "Hostname", "address": node.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": _digest(node.name)[:32],
                "systemUUID": str(uuid.UUID(_digest(node.name)[:32])),
                "bootID": node.boot_id,
                "kernelVersion": node.kernel,
                "osImage": node.os_image,
                "containerRuntimeVersion": node.runtime,
                "kubeletVersion": "v1.34.4",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": node.architecture,
            },
            "images": _images() if node.realistic else [],
        },
    }


def _labels(node: HollowNode) -> dict[str, str]:
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/arch": node.architecture,
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": node.architecture,
        "beta.kubernetes.io/os": "linux",
    }
    if node.has_nfd:
        labels |= _nfd_labels(node)
    if node.realistic:
        number = int(_digest(node.name)[:8], 16)
        labels |= {f"{NFD}/cpu-cpuid.{flag}": "true" for flag in CPU_FLAGS}
        labels |= {
            f"{NFD}/cpu-hardware_multithreading": "false",
            f"{NFD}/cpu-model.vendor_id": "HiSilicon",
            f"{NFD}/memory-numa": "true",
            f"{NFD}/network-sriov.capable": "true",
            f"{NFD}/storage-nonrotationaldisk": "true",
            f"{NFD}/pci-0200_19e5.present": "true",
            f"{NFD}/pci-0300_19e5.present": "true",
            "topology.kubernetes.io/region": "region-1",
            "topology.kubernetes.io/zone": f"zone-{number % 3}",
            "topology.example.com/rack": f"rack-{number % 64}",
            "topology.example.com/row": f"row-{number % 8}",
            "node.example.com/asset": f"asset-{number:08x}",
            "node.example.com/generation": "g4",
            "node.example.com/owner": "research",
            "node.example.com/pool": "training",
            "node.kubernetes.io/instance-type": "bare-metal.npu8",
        }
    return labels | dict(node.labels)


def _nfd_labels(node: HollowNode) -> dict[str, str]:
    major, minor, revision = [*node.kernel.split("-")[0].split("."), "0", "0"][:3]
    labels = {
        f"{NFD}/kernel-version.full": node.kernel,
        f"{NFD}/kernel-version.major": major,
        f"{NFD}/kernel-version.minor": minor,
        f"{NFD}/kernel-version.revision": revision,
        f"{NFD}/system-os_release.ID": node.os_id,
    }
    if node.os_version:
        year, *month = node.os_version.split(".")
        labels[f"{NFD}/system-os_release.VERSION_ID"] = node.os_version
        labels[f"{NFD}/system-os_release.VERSION_ID.major"] = year
        if month:
            labels[f"{NFD}/system-os_release.VERSION_ID.minor"] = month[0]
    return labels


def _images() -> list[Object]:
    def image(number: int) -> Object:
        repository = f"registry.example.com/platform/training-and-serving-image-{number:02d}"
        names = [f"{repository}@sha256:{_digest(repository)}", f"{repository}:v2.{number}.0-cann8.3.rc1-py311-arm64"]
        return {"names": names, "sizeBytes": 100_000_000 + 37_000_000 * number}

    return [image(number) for number in range(IMAGES)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
