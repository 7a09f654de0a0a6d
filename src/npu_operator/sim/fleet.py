"""The nodes of a simulated cluster, as they are described: kinds of machines, and the Node objects they make."""

import zlib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from npu_operator.ascend import pci
from npu_operator.model import names
from npu_operator.model.chips import ChipFamily

PCI: Final = {device.family: f"{number:04x}" for number, device in sorted(pci.DEVICES.items(), reverse=True)}
"""A device id of each family; the lowest, which is the plain variant."""

ACCELERATORS: Final = {
    ChipFamily.ASCEND_310: "huawei-Ascend310",
    ChipFamily.ASCEND_310B: "huawei-Ascend310",
    ChipFamily.ASCEND_310P: "huawei-Ascend310P",
    ChipFamily.ASCEND_950: "huawei-npu",
}
ACCELERATOR_910: Final = "huawei-Ascend910"


class Sign(StrEnum):
    """How a node tells that it has chips."""

    NONE = "None"
    """Not at all: discovery has to find out."""
    NFD_CLASS = "NfdClass"
    """NFD by class and vendor: `pci-1200_19e5.present`."""
    NFD_DEVICE = "NfdDevice"
    """NFD with the device id: `pci-1200_19e5_d802.present`."""
    NPU = "Npu"
    """`npu=true`, set by hand."""
    MINDCLUSTER = "MindCluster"
    """`accelerator` and `workerselector`, as MindCluster wants them."""


class NodeKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of machine. The defaults are an A2 server with openEuler."""

    chip: ChipFamily | None = ChipFamily.ASCEND_910B
    """None: no chips at all."""
    model: str = "910B3"
    chips: int = 8
    memory_mib: int = 65536
    """Of one chip."""
    kernel: str = "6.6.0-145.0.4.135.oe2403sp3.aarch64"
    os_id: str = "openEuler"
    os_version: str = "24.03"
    os_image: str = "openEuler 24.03 (LTS-SP3)"
    architecture: str = "arm64"
    """As Kubernetes names it."""
    sign: Sign = Sign.NFD_CLASS
    has_nfd_system_labels: bool | None = None
    """NFD's labels for kernel and OS; None: when `sign` is NFD's."""
    host_driver: str = ""
    """Version of a driver that the host has installed and loads by itself; empty: none."""
    running_firmware: str = "7.8.0.5.216"
    sick: Mapping[int, str] = {}
    """Fault code by number of the chip."""
    super_pod: str = ""
    is_control_plane: bool = False
    taints: tuple[Mapping[str, str], ...] = ()
    labels: Mapping[str, str] = {}
    runtime: str = "containerd://2.2.9"

    @property
    def resource(self) -> str:
        """What its chips are asked for by."""
        assert self.chip is not None, "a node without chips has no resource"
        return names.RESOURCE_OF[self.chip]


def node_body(name: str, kind: NodeKind, *, boot_id: str) -> dict[str, Any]:
    """The Node object as its kubelet and NFD would make it."""
    amounts = {"cpu": "192", "memory": "1536Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    taints = [dict(taint) for taint in kind.taints]
    if kind.is_control_plane:
        taints.append({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"})
    return {
        "metadata": {"name": name, "labels": dict(_labels(name, kind))},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "nodeInfo": {
                "machineID": f"{zlib.crc32(name.encode()):032x}",
                "systemUUID": "",
                "bootID": boot_id,
                "kernelVersion": kind.kernel,
                "osImage": kind.os_image,
                "containerRuntimeVersion": kind.runtime,
                "kubeletVersion": "v1.34.4",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": kind.architecture,
            },
        },
    }


def _labels(name: str, kind: NodeKind) -> Iterator[tuple[str, str]]:
    yield names.HOSTNAME, name
    yield names.HOST_ARCH, kind.architecture
    yield "kubernetes.io/os", "linux"
    if kind.is_control_plane:
        yield "node-role.kubernetes.io/control-plane", ""
    if kind.chip is not None:
        yield from _signs(kind.chip, kind.sign)
    by_nfd = kind.sign in (Sign.NFD_CLASS, Sign.NFD_DEVICE)
    if by_nfd if kind.has_nfd_system_labels is None else kind.has_nfd_system_labels:
        yield names.NFD_KERNEL, kind.kernel
        yield names.NFD_OS_ID, kind.os_id
        if kind.os_version:
            yield names.NFD_OS_VERSION, kind.os_version
    if kind.super_pod:
        yield names.SUPER_POD_LABEL, kind.super_pod
    yield from kind.labels.items()


def _signs(chip: ChipFamily, sign: Sign) -> Iterator[tuple[str, str]]:
    match sign:
        case Sign.NFD_CLASS:
            yield f"{names.NFD_PCI}1200_19e5.present", names.TRUE
        case Sign.NFD_DEVICE:
            yield f"{names.NFD_PCI}1200_19e5_{PCI[chip.value]}.present", names.TRUE
        case Sign.NPU:
            yield names.SIGN_NPU, names.TRUE
        case Sign.MINDCLUSTER:
            yield names.SIGN_ACCELERATOR, ACCELERATORS.get(chip, ACCELERATOR_910)
            yield names.SIGN_WORKER, names.SIGN_WORKER_VALUE
