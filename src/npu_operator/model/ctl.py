"""`NPUOperatorCtl`: the one object in which an admin says what should be on the NPU nodes.

The structs hold the *effective* spec: every field has the value the operator acts on. `model.reading` makes them from
an object as it was written, and tells what is wrong with it.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, field

from . import names
from .chips import ChipFamily
from .driver import CHIP_RULE, Driver
from .driver import RebootMethod as RebootMethod
from .fields import Keyed, LabelKey, LabelValue, Pattern, Section
from .parts import (
    Component,
    NodeSelector,
    PullSecret,
    Switched,
    Tolerations,
)


class Mode(StrEnum):
    """How far the operator may go."""

    APPLY = "Apply"
    PLAN = "Plan"
    PAUSED = "Paused"


class Discovery(StrEnum):
    """How nodes without any label are looked at."""

    AUTO = "Auto"
    OFF = "Off"


class TaintMode(StrEnum):
    """Whether NPU nodes get a taint from us."""

    OFF = "Off"
    KEEP = "Keep"
    UNTIL_READY = "UntilReady"


class LibraryPath(StrEnum):
    """Whether containers get `LD_LIBRARY_PATH` from us."""

    NONE = "None"
    ENV = "Env"


class PluginFlavor(StrEnum):
    """Whose device plugin runs."""

    AUTO = "auto"
    NATIVE = "native"
    MINDCLUSTER = "mindcluster"


class ExporterFlavor(StrEnum):
    """Whose exporter runs."""

    NATIVE = "native"
    MINDCLUSTER = "mindcluster"


class Injection(StrEnum):
    """How the device plugin gives devices to a container."""

    CDI = "CDI"
    ANNOTATION = "Annotation"
    DEVICES = "Devices"


class VolcanoMode(StrEnum):
    """Whether we deploy Volcano or use the one that is there."""

    DEPLOY = "Deploy"
    EXTERNAL = "External"


class Taint(Section, frozen=True, kw_only=True):
    """A taint on NPU nodes."""

    key: Annotated[LabelKey, "Key of the taint; its effect is NoSchedule."] = names.TAINT_DEFAULT_KEY
    mode: Annotated[
        TaintMode, "Off: no taint. Keep: always. UntilReady: until the node's chips can be used for the first time."
    ] = TaintMode.OFF


class Placement(Section, frozen=True, kw_only=True):
    """Where all components run; those of a single component are added to it."""

    node_selector: Annotated[NodeSelector, "Labels a node must have, besides being an NPU node."] = field(
        default_factory=dict
    )
    tolerations: Annotated[
        Tolerations, "Taints tolerated by every component, besides the usual ones of NPU nodes."
    ] = ()
    priority_class_name: Annotated[str, Meta(max_length=253), "PriorityClass of every component."] = (
        "system-node-critical"
    )
    taint: Annotated[Taint, "Taint that the operator puts on NPU nodes."] = Taint()


class ContainerRuntime(Component, frozen=True, kw_only=True):
    """The node agent's work on the container runtime: CDI file and containerd's settings."""

    enabled: Annotated[bool, "Whether the container runtime is set up for NPUs."] = True
    library_path: Annotated[
        LibraryPath,
        "None: images find the libraries where the vendor's images look. Env: set LD_LIBRARY_PATH, for images that "
        "need it.",
    ] = LibraryPath.NONE


class DevicePlugin(Component, frozen=True, kw_only=True):
    """The device plugin, which offers chips to pods."""

    enabled: Annotated[bool, "Whether the device plugin is deployed."] = True
    flavor: Annotated[
        PluginFlavor,
        "auto: mindcluster when ascendOperator, clusterD or volcano is on, else native.",
    ] = PluginFlavor.AUTO
    injection: Annotated[
        Injection,
        "How devices come into a container. CDI: by the kubelet's CDI field. Annotation: by CDI annotations, for "
        "older runtimes. Devices: device nodes and mounts one by one.",
    ] = Injection.CDI
    resource_names: Annotated[
        dict[
            ChipFamily,
            Annotated[
                str,
                Meta(min_length=1, max_length=253),
                Pattern(
                    "[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
                    "must be a resource name with its domain, for example huawei.com/Ascend910B",
                ),
            ],
        ],
        Meta(max_length=16),
        CHIP_RULE,
        "Resource names by chip, where they differ from the usual ones (huawei.com/Ascend910, …310P, …310, …/npu).",
    ] = field(default_factory=dict)


class ServiceMonitor(Section, frozen=True, kw_only=True):
    """How Prometheus finds the exporter."""

    enabled: Annotated[bool, "Make a ServiceMonitor where that resource exists."] = True
    interval: Annotated[
        str,
        Meta(min_length=2, max_length=16),
        Pattern("([0-9]+(ms|[smhd]))+", "must be a duration such as 30s or 1m"),
        "Time between two scrapes.",
    ] = "30s"
    labels: Annotated[
        dict[LabelKey, LabelValue], Meta(max_length=32), "Labels by which a Prometheus selects its ServiceMonitors."
    ] = field(default_factory=dict)


class Exporter(Component, frozen=True, kw_only=True):
    """The exporter, which turns the state of the chips into metrics."""

    enabled: Annotated[bool, "Whether the exporter is deployed."] = True
    flavor: Annotated[ExporterFlavor, "native: this project's. mindcluster: the one of MindCluster."] = (
        ExporterFlavor.NATIVE
    )
    service_monitor: Annotated[ServiceMonitor, "How Prometheus finds the exporter."] = ServiceMonitor()


class Validator(Component, frozen=True, kw_only=True):
    """The validator, which proves from a container that chips, libraries and tools work."""


class Volcano(Switched, frozen=True, kw_only=True):
    """The Volcano scheduler with the Ascend plugin."""

    mode: Annotated[VolcanoMode, "Deploy: we deploy it. External: the cluster has one already."] = VolcanoMode.DEPLOY


class Spec(Section, frozen=True, kw_only=True):
    """What should be on the NPU nodes of the cluster."""

    mode: Annotated[
        Mode,
        "Apply: do it. Plan: compute and report, write only the status; what is in flight finishes. Paused: finish "
        "what runs, start nothing.",
    ] = Mode.APPLY
    discovery: Annotated[
        Discovery,
        "Auto: where no label tells, one small unprivileged DaemonSet looks at unlabelled nodes. Off: labels only.",
    ] = Discovery.AUTO
    placement: Annotated[Placement, "Where all components run."] = Placement()
    image_pull_secrets: Annotated[
        tuple[PullSecret, ...], Meta(max_length=16), Keyed("name"), "Secrets with which all images are pulled."
    ] = ()
    registry: Annotated[
        str,
        Meta(max_length=255),
        Pattern(
            "([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*)?",
            "must be a registry host, with port and path if need be, without scheme, for example "
            "registry.example.com:5000/mirror",
        ),
        "Put before every image without a registry host.",
    ] = ""
    driver: Annotated[Driver, "The Ascend driver."] = Driver()
    container_runtime: Annotated[ContainerRuntime, "CDI file and containerd's settings."] = ContainerRuntime()
    device_plugin: Annotated[DevicePlugin, "The device plugin."] = DevicePlugin()
    exporter: Annotated[Exporter, "The metrics exporter."] = Exporter()
    validator: Annotated[Validator, "The validator."] = Validator()
    ascend_operator: Annotated[Switched, "MindCluster's Ascend Operator, for distributed training jobs."] = Switched()
    node_d: Annotated[Switched, "MindCluster's NodeD, which reports faults of nodes."] = Switched()
    cluster_d: Annotated[Switched, "MindCluster's ClusterD, which collects faults of the cluster; needs Volcano."] = (
        Switched()
    )
    volcano: Annotated[Volcano, "The Volcano scheduler with the Ascend plugin."] = Volcano()
    resilience_controller: Annotated[Switched, "MindCluster's Resilience Controller, for elastic training."] = (
        Switched()
    )
    mind_io_tft: Annotated[Switched, "MindIO TFT, which keeps training going after a fault."] = field(
        default=Switched(), name="mindIOTFT"
    )
    mind_io_acp: Annotated[Switched, "MindIO ACP, which writes checkpoints faster."] = field(
        default=Switched(), name="mindIOACP"
    )


COMPONENTS = (
    "driver",
    "containerRuntime",
    "devicePlugin",
    "exporter",
    "validator",
    "ascendOperator",
    "nodeD",
    "clusterD",
    "volcano",
    "resilienceController",
    "mindIOTFT",
    "mindIOACP",
)
"""The components as they are spelled in the spec, in the order they are shown."""


def driver_version_for(spec: Spec, chip: ChipFamily) -> str:
    """The driver version wanted on nodes with this chip."""
    own = spec.driver.per_chip.get(chip)
    return own.version if own else spec.driver.version


def resource_name_for(spec: Spec, chip: ChipFamily) -> str:
    """The resource under which chips of this family are offered, e.g. `huawei.com/Ascend910`."""
    return spec.device_plugin.resource_names.get(chip, names.RESOURCE_OF[chip])


def plugin_flavor(spec: Spec) -> PluginFlavor:
    """Whose device plugin runs: `auto` resolved to native or mindcluster."""
    if spec.device_plugin.flavor is not PluginFlavor.AUTO:
        return spec.device_plugin.flavor
    mindcluster = spec.ascend_operator.enabled or spec.cluster_d.enabled or spec.volcano.enabled
    return PluginFlavor.MINDCLUSTER if mindcluster else PluginFlavor.NATIVE


def share(limit: int | str, *, of: int) -> int:
    """How many nodes a `Share` allows: a number as it is, a percentage of `of` rounded up; at least 1."""
    if isinstance(limit, int):
        return max(1, limit)
    return max(1, -(-of * int(limit.removesuffix("%")) // 100))
