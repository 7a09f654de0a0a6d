"""What a builder may know of the cluster besides the spec: a frozen value that the planner fills in."""

import msgspec

from npu_operator.components.pools import Pool
from npu_operator.model import names


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as far as it decides what is deployed."""

    namespace: str
    """Where the operator and all its pods live."""
    operator_image: str
    """The image the operator runs from; its agents run from the same."""
    operator_version: str
    policy_name: str
    """The `NPUOperatorCtl` in charge, in `namespace`."""
    has_service_monitor_crd: bool = False
    """Whether the cluster knows ServiceMonitors now; it may learn them later."""
    runtime_handler: str = "runc"
    """Handler of RuntimeClass `ascend`: containerd's default runtime where CDI works, `ascend` on the legacy path."""
    pools: tuple[Pool, ...] = ()
    """One driver DaemonSet each, in this order."""
    pools_to_keep: tuple[Pool, ...] = ()
    """In passthrough: the pools with nodes that run a driver we loaded. They keep their loader, or the next boot would
    be without a driver.
    """

    @property
    def is_legacy_runtime(self) -> bool:
        """Whether devices come into containers by the runtime handler `ascend` instead of by CDI."""
        return self.runtime_handler == names.RUNTIME_CLASS
