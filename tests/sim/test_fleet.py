"""Machines as they are described, and what their Node objects show."""

import pytest

from npu_operator.ascend import labels
from npu_operator.model.chips import ChipFamily
from npu_operator.sim.fleet import NodeKind, Sign, node_body


def labels_of(kind: NodeKind) -> dict[str, str]:
    return dict(node_body("a1", kind, boot_id="b")["metadata"]["labels"])


@pytest.mark.parametrize("sign", [sign for sign in Sign if sign is not Sign.NONE])
@pytest.mark.parametrize("chip", list(ChipFamily))
def test_the_operator_understands_every_sign(sign: Sign, chip: ChipFamily) -> None:
    found = labels.sign_of_npu(labels_of(NodeKind(chip=chip, sign=sign)))
    assert found is not None
    if sign is Sign.NFD_DEVICE:
        assert found.chip == chip.value


def test_a_node_without_a_sign_or_without_chips_shows_none() -> None:
    assert labels.sign_of_npu(labels_of(NodeKind(sign=Sign.NONE))) is None
    assert labels.sign_of_npu(labels_of(NodeKind(chip=None))) is None


def test_kernel_and_system_are_labels_where_nfd_runs() -> None:
    with_nfd = labels_of(NodeKind(os_version=""))
    assert with_nfd["feature.node.kubernetes.io/kernel-version.full"] == "6.6.0-145.0.4.135.oe2403sp3.aarch64"
    assert with_nfd["feature.node.kubernetes.io/system-os_release.ID"] == "openEuler"
    assert "feature.node.kubernetes.io/system-os_release.VERSION_ID" not in with_nfd
    assert not any(key.startswith("feature.") for key in labels_of(NodeKind(sign=Sign.NPU)))


def test_a_control_plane_node_is_tainted_and_labelled() -> None:
    kind = NodeKind(is_control_plane=True, taints=({"key": "npu.huawei.com/npu", "effect": "NoSchedule"},))
    body = node_body("a1", kind, boot_id="b")
    assert body["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] == ""
    assert [taint["key"] for taint in body["spec"]["taints"]] == [
        "npu.huawei.com/npu",
        "node-role.kubernetes.io/control-plane",
    ]
