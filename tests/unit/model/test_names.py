"""Names on which scripts and dashboards rely. A change here breaks somebody; the test is meant to be in the way."""

import pytest

from npu_operator.model import names
from npu_operator.model.chips import ChipFamily
from npu_operator.model.names import UpgradeState

KEPT = {
    names.API_VERSION: "npu-operator.alauda.io/v1",
    names.NPU_PRESENT: "openfuyao.com/npu.present",
    names.UPGRADE_STATE: "npu.openfuyao.com/driver-upgrade-state",
    names.REBOOT_REQUIRED: "npu.openfuyao.com/reboot-required",
    names.DRIVER_MANAGED: "npu.openfuyao.com/driver-managed",
    names.HEALTH: "npu.health",
    names.POOL: "npu-operator.alauda.io/pool",
    names.APPROVE_REBOOT: "npu.openfuyao.com/approve-reboot",
    names.REBOOT_IN_PROGRESS: "npu.openfuyao.com/reboot-in-progress",
    names.PRE_REBOOT_BOOT_ID: "npu.openfuyao.com/pre-reboot-bootid",
    names.ATTEMPT: "npu-operator.alauda.io/attempt",
    names.KEEP_CORDONED: "npu-operator.alauda.io/keep-cordoned",
    names.UPGRADE_SKIP: "npu-operator.alauda.io/upgrade-skip",
    names.CHECKPOINT_BEFORE_DRAIN: "npu.openfuyao.com/checkpoint-before-drain",
    names.NFD_KERNEL: "feature.node.kubernetes.io/kernel-version.full",
    names.NFD_OS_ID: "feature.node.kubernetes.io/system-os_release.ID",
    names.VALIDATION_RESOURCE: "npu-operator.alauda.io/validation",
    names.CDI_FILE: "/var/run/cdi/ascend.com-npu.yaml",
    names.CDI_KIND: "huawei.com/ascend",
    names.STATE_FILE: "/run/ascend/npu-state.json",
    names.NODE_AGENT: "ascend-runtime-containerd",
    names.SERVICE_MONITOR: "npu-exporter-servicemonitor",
    names.LEASE_SLOTS: "npu-operator-slots",
    names.DRIVER_REPOSITORY: "mlops/ascend-driver",
}


@pytest.mark.parametrize(("found", "promised"), KEPT.items())
def test_a_promised_name_is_kept(found: str, promised: str) -> None:
    assert found == promised


def test_the_upgrade_states_keep_their_words_and_order() -> None:
    assert [str(state) for state in UpgradeState] == [
        "upgrade-required", "cordon-required", "wait-for-jobs-required", "pod-deletion-required", "drain-required",
        "node-reboot-required", "pod-restart-required", "validation-required", "uncordon-required", "upgrade-done",
        "upgrade-failed",
    ]  # fmt: skip


def test_device_ids_keep_their_prefix_whatever_the_chip_generation() -> None:
    assert {family.value: names.DEVICE_ID_PREFIX[family] for family in ChipFamily} == {
        "310": "Ascend310-", "310b": "Ascend310-", "310p": "Ascend310P-", "910": "Ascend910-", "910b": "Ascend910-",
        "a3": "Ascend910-", "950": "npu-",
    }  # fmt: skip


def test_nothing_below_usr_is_ours_to_write() -> None:
    ours = [names.DRIVER_TREE, names.DRIVER_VERSIONS, names.STATE_DIR, names.REBOOT_MARKER, names.EVIDENCE_DIR]
    assert not any(path.startswith("/usr") for path in ours)
