"""Every name that scripts, dashboards and users out there rely on; none of them may change.

One place, so that a reader can compare it with the list in the documentation. Where a name belongs to somebody else
(NFD, MindCluster, the vendor's driver package) the comment says to whom.
"""

from enum import StrEnum
from typing import Final

from .chips import ChipFamily

# --- the API -------------------------------------------------------------------------------------------------------

GROUP: Final = "npu-operator.alauda.io"
VERSION: Final = "v1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CTL_KIND: Final = "NPUOperatorCtl"
CTL_PLURAL: Final = "npuoperatorctls"
CTL_SINGULAR: Final = "npuoperatorctl"
CTL_SHORT: Final = "npuctl"
CTL_SAMPLE: Final = "npuoperatorctl-sample"
NODE_KIND: Final = "NPUNode"
NODE_PLURAL: Final = "npunodes"
NODE_SINGULAR: Final = "npunode"
NAMESPACE: Final = "npu-operator"
"""Where the operator lives unless it was installed elsewhere; the running operator takes its own namespace."""

# --- node labels that we read --------------------------------------------------------------------------------------

NFD: Final = "feature.node.kubernetes.io/"
"""Prefix of all labels of Node Feature Discovery."""
NFD_PCI: Final = f"{NFD}pci-"
NFD_KERNEL: Final = f"{NFD}kernel-version.full"
NFD_OS_ID: Final = f"{NFD}system-os_release.ID"
NFD_OS_VERSION: Final = f"{NFD}system-os_release.VERSION_ID"
SIGN_NPU: Final = "npu"
"""`npu=true`, set by hand or by older operators."""
SIGN_ACCELERATOR: Final = "accelerator"
"""MindCluster: `huawei-Ascend910`, `huawei-Ascend310`, `huawei-Ascend310P`, `huawei-npu`."""
SIGN_WORKER: Final = "workerselector"
SIGN_WORKER_VALUE: Final = "dls-worker-node"
SIGN_MASTER: Final = "masterselector"
SIGN_MASTER_VALUE: Final = "dls-master-node"
SUPER_POD_LABEL: Final = "huawei.com/topotree.superpodid"
"""MindCluster, newer: the super pod a node belongs to."""
SUPER_POD_ANNOTATION: Final = "superPodID"
"""MindCluster 7.3: the same as an annotation of the Node."""
HOST_ARCH: Final = "kubernetes.io/arch"
HOSTNAME: Final = "kubernetes.io/hostname"

# --- node labels that we write -------------------------------------------------------------------------------------

NPU_PRESENT: Final = "openfuyao.com/npu.present"
"""All selectors of ours start from this label; it stays for a while after the sign of an NPU goes."""
UPGRADE_STATE: Final = "npu.openfuyao.com/driver-upgrade-state"
REBOOT_REQUIRED: Final = "npu.openfuyao.com/reboot-required"
DRIVER_MANAGED: Final = "npu.openfuyao.com/driver-managed"
"""`true` hands a node with a driver installed by the host over to us."""
HEALTH: Final = "npu.health"
HEALTHY: Final = "healthy"
UNHEALTHY: Final = "unhealthy"
POOL: Final = f"{GROUP}/pool"
CHIP: Final = f"{GROUP}/chip"
CHIP_COUNT: Final = f"{GROUP}/chip.count"
CHIP_MEMORY: Final = f"{GROUP}/chip.memory"
"""Memory of one chip with unit, e.g. `64Gi`."""
DRIVER_VERSION: Final = f"{GROUP}/driver.version"
TRUE: Final = "true"

# --- node annotations ----------------------------------------------------------------------------------------------

APPROVE_REBOOT: Final = "npu.openfuyao.com/approve-reboot"
"""In: `true`, `recovery`, `recovery-force`, an attempt id or a version."""
APPROVE_RECOVERY: Final = "recovery"
APPROVE_RECOVERY_FORCE: Final = "recovery-force"
REBOOT_IN_PROGRESS: Final = "npu.openfuyao.com/reboot-in-progress"
PRE_REBOOT_BOOT_ID: Final = "npu.openfuyao.com/pre-reboot-bootid"
ATTEMPT: Final = f"{GROUP}/attempt"
"""Our record of the attempt in flight, as JSON."""
CORDON_MARK: Final = f"{GROUP}/cordoned"
"""Set together with our cordon; without it a cordon is somebody else's."""
KEEP_CORDONED: Final = f"{GROUP}/keep-cordoned"
UPGRADE_SKIP: Final = f"{GROUP}/upgrade-skip"

# --- pod annotations -----------------------------------------------------------------------------------------------

CHECKPOINT_BEFORE_DRAIN: Final = "npu.openfuyao.com/checkpoint-before-drain"
"""In: seconds that the pod wants for a checkpoint."""
DRAIN_REQUESTED: Final = "npu.openfuyao.com/drain-requested"
CHECKPOINT_DONE: Final = "npu.openfuyao.com/checkpoint-done"

# --- taints --------------------------------------------------------------------------------------------------------

TAINT_DEFAULT_KEY: Final = "npu.huawei.com/npu"
TAINT_KEYS_TOLERATED: Final = (
    "npu.huawei.com",
    TAINT_DEFAULT_KEY,
    "huawei.com/Ascend910",
    "huawei.com/Ascend310P",
    "huawei.com/Ascend310",
    "huawei.com/npu",
    "CriticalAddonsOnly",
)
"""Tolerated with any value and any effect."""
TAINT_DEVICE_PLUGIN: Final = "device-plugin"
TAINT_DEVICE_PLUGIN_VALUE: Final = "v2"
TAINTS_CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Tolerated where a control-plane node has chips."""

# --- resources -----------------------------------------------------------------------------------------------------

RESOURCE_PREFIX: Final = "huawei.com/"
VALIDATION_RESOURCE: Final = f"{GROUP}/validation"
"""One device; its Allocate answers with all chips. Only the validator asks for it."""

# --- workloads of ours ---------------------------------------------------------------------------------------------

DEPLOYMENT_OPERATOR: Final = "npu-operator"
DRIVER_PREFIX: Final = "npu-driver-"
NODE_AGENT: Final = "ascend-runtime-containerd"
DEVICE_PLUGIN: Final = "npu-device-plugin"
EXPORTER: Final = "npu-exporter"
SERVICE_MONITOR: Final = "npu-exporter-servicemonitor"
VALIDATOR: Final = "npu-validator"
REBOOTER: Final = "npu-rebooter"
DISCOVERY: Final = "npu-discovery"
CONTAINER_LOADER: Final = "loader"
CONTAINER_PAYLOAD: Final = "payload"
LEASE_LEADER: Final = "npu-operator"
LEASE_SLOTS: Final = "npu-operator-slots"
RUNTIME_CLASS: Final = "ascend"

LABEL_APP: Final = "app"
LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OPERATOR_NAME: Final = "npu-operator"
DRIVER_LABELS: Final = {LABEL_APP: "npu-driver-daemonset", LABEL_NAME: "ascend-driver"}
REBOOTER_LABELS: Final = {LABEL_COMPONENT: "npu-rebooter"}
DEVICE_PLUGIN_LABELS: Final = {"name": "ascend-device-plugin-ds"}

# --- events --------------------------------------------------------------------------------------------------------

EVENT_REBOOT_REQUIRED: Final = "RebootRequired"
"""Its message contains `reason=upgrade` or `reason=recovery`."""

# --- paths on the host ---------------------------------------------------------------------------------------------

DRIVER_TREE: Final = "/var/lib/Ascend/driver"
"""The link to the active version of the driver that we manage."""
DRIVER_VERSIONS: Final = "/var/lib/Ascend/versions"
HOST_DRIVER_TREE: Final = "/usr/local/Ascend/driver"
"""Where a driver installed by somebody else lies."""
STATE_DIR: Final = "/run/ascend"
STATE_FILE: Final = "/run/ascend/npu-state.json"
REBOOT_MARKER: Final = "/var/lib/ascend/.reboot-required"
EVIDENCE_DIR: Final = "/var/lib/ascend/evidence"
BIOS_DRIVER: Final = "/home/bios/driver"
FIRMWARE_CONF: Final = "/lib/davinci.conf"
INSTALL_INFO: Final = "/etc/ascend_install.info"
HCCN_CONF: Final = "/etc/hccn.conf"
ROOT_INFO: Final = "/etc/hccl_rootinfo.json"
LOG_DIR: Final = "/var/log/npu"

# --- paths inside containers (the vendor's, whatever the host's are) -------------------------------------------------

CONTAINER_DRIVER: Final = "/usr/local/Ascend/driver"
CONTAINER_DCMI: Final = "/usr/local/dcmi"
CONTAINER_NPU_SMI: Final = "/usr/local/bin/npu-smi"
CONTAINER_INSTALL_INFO: Final = INSTALL_INFO
CONTAINER_HCCN_CONF: Final = HCCN_CONF
CONTAINER_ROOT_INFO: Final = ROOT_INFO

# --- CDI -----------------------------------------------------------------------------------------------------------

CDI_FILE: Final = "/var/run/cdi/ascend.com-npu.yaml"
CDI_KIND: Final = "huawei.com/ascend"

# --- driver images -------------------------------------------------------------------------------------------------

DRIVER_REPOSITORY: Final = "mlops/ascend-driver"
DRIVER_DEFAULT_VERSION: Final = "25.5.0"
MINDCLUSTER_VERSION: Final = "v7.3.0"


class UpgradeState(StrEnum):
    """Values of the label `UPGRADE_STATE`, in the order a node walks through them. No label: no upgrade."""

    REQUIRED = "upgrade-required"
    CORDON = "cordon-required"
    JOBS = "wait-for-jobs-required"
    POD_DELETION = "pod-deletion-required"
    DRAIN = "drain-required"
    REBOOT = "node-reboot-required"
    RESTART = "pod-restart-required"
    VALIDATION = "validation-required"
    UNCORDON = "uncordon-required"
    DONE = "upgrade-done"
    FAILED = "upgrade-failed"


class Purpose(StrEnum):
    """What an attempt is for; stands in the attempt record, in slots and in messages."""

    UPGRADE = "upgrade"
    RECOVERY = "recovery"
    ROLLBACK = "rollback"
    RUNTIME = "runtime"


RESOURCE_OF: Final = {
    ChipFamily.ASCEND_310: "huawei.com/Ascend310",
    ChipFamily.ASCEND_310B: "huawei.com/Ascend310",
    ChipFamily.ASCEND_310P: "huawei.com/Ascend310P",
    ChipFamily.ASCEND_910: "huawei.com/Ascend910",
    ChipFamily.ASCEND_910B: "huawei.com/Ascend910",
    ChipFamily.ASCEND_A3: "huawei.com/Ascend910",
    ChipFamily.ASCEND_950: "huawei.com/npu",
}
"""Default resource name by chip family; `spec.devicePlugin.resourceNames` renames."""

DEVICE_ID_PREFIX: Final = {family: name.removeprefix(RESOURCE_PREFIX) + "-" for family, name in RESOURCE_OF.items()}
"""Device ids are this prefix and the physical id (`Ascend910-3`), whatever the resource is called."""
