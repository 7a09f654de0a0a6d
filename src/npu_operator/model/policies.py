"""When and how nodes are taken out of service: the upgrade policy and the recovery policy.

The CRD sets no defaults here, so that a second spelling of a field can be told from a default; the operator's defaults
are the ones written below, and each description names its own. Spelling: that of the reference (`drainSpec`,
`timeoutSecond`), the usual one (`drain`, `timeoutSeconds`) is accepted as well.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from .fields import Alias, Count, Distinct, LabelKey, Pattern, Policy, Rule, Seconds, SecondsOrNoLimit, Share

PodSelector = Annotated[str, Meta(max_length=1024)]
ClockTime = Annotated[
    str,
    Meta(max_length=5),
    Pattern("([01][0-9]|2[0-3]):[0-5][0-9]", 'must be a time of day such as "22:30"'),
]
TimeZone = Annotated[
    str,
    Meta(min_length=1, max_length=64),
    Pattern("[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", "must be the name of a time zone, for example Asia/Shanghai or UTC"),
]


class Day(StrEnum):
    """A day of the week."""

    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


class Healer(StrEnum):
    """Who reboots a node to cure its chips."""

    OPERATOR = "operator"
    MINDCLUSTER = "mindcluster"


class Canary(Policy, frozen=True, kw_only=True):
    """A few nodes of each pool go first and are watched before the others follow."""

    nodes: Annotated[Count, "Nodes per pool that go first; 0: no canary."] = 0
    soak_seconds: Annotated[SecondsOrNoLimit, "Seconds the canary nodes must work before the others follow."] = 0


class Window(Policy, frozen=True, kw_only=True):
    """A span of time in which reboots may start; what has started is finished after it."""

    rules = (
        Rule("!has(self.start) || !has(self.end) || self.start != self.end", "start and end of a window must differ"),
    )

    days: Annotated[
        tuple[Day, ...], Meta(max_length=7), Distinct(), "Days on which the window starts; empty: every day."
    ] = ()
    start: Annotated[ClockTime, "Time of day at which the window opens."] = "00:00"
    end: Annotated[ClockTime, "Time of day at which it closes; earlier than `start` means on the next day."] = "23:59"
    time_zone: Annotated[TimeZone, "IANA time zone of `start` and `end`."] = "UTC"


class WaitForCompletion(Policy, frozen=True, kw_only=True):
    """Jobs that may end by themselves before pods are evicted."""

    pod_selector: Annotated[PodSelector, "Label selector of the pods to wait for; empty: none."] = ""
    timeout_second: Annotated[
        SecondsOrNoLimit, "Seconds to wait, after which pods are evicted all the same; 0: no limit."
    ] = 3600


class PodDeletion(Policy, frozen=True, kw_only=True):
    """Eviction of the pods that hold an NPU."""

    force: Annotated[
        bool,
        "Evict pods without a controller too, and after the limit delete pods with NPUs past their disruption "
        "budgets with grace 0.",
    ] = False
    timeout_second: Annotated[
        SecondsOrNoLimit, "Seconds for these pods to go, longer grace periods of theirs apart; 0: no limit."
    ] = 300
    grace_period_second: Annotated[
        Annotated[int, Meta(ge=0, le=2_592_000)] | None, "Grace period to evict with; null: the pod's own."
    ] = None
    delete_empty_dir: Annotated[bool, "Evict pods whose emptyDir volumes are lost with them."] = False


class Drain(Policy, frozen=True, kw_only=True):
    """Eviction of the other pods of the node."""

    enable: Annotated[bool, "Evict the pods that hold no NPU as well."] = True
    force: Annotated[bool, "Evict pods without a controller too, nothing more."] = False
    delete_empty_dir: Annotated[bool, "Evict pods whose emptyDir volumes are lost with them."] = False
    timeout_second: Annotated[
        SecondsOrNoLimit, "Seconds for these pods to go, longer grace periods of theirs apart; 0: no limit."
    ] = 300
    pod_selector: Annotated[PodSelector, "Label selector of the pods to evict; empty: all."] = ""


class Deadlines(Policy, frozen=True, kw_only=True):
    """How long each step of an upgrade may take before it has failed."""

    stage_second: Annotated[Seconds, "Seconds to copy the new driver to the node and check it."] = 1800
    reboot_down_second: Annotated[Seconds, "Seconds for the node to go down once its reboot is authorised."] = 600
    reboot_up_second: Annotated[Seconds, "Seconds for the node to come back with a new boot id."] = 3600
    pod_restart_second: Annotated[Seconds, "Seconds for the wanted driver to be loaded after the boot."] = 1800
    validation_second: Annotated[Seconds, "Seconds for the validator's verdict."] = 600


class UpgradePolicy(Policy, frozen=True, kw_only=True):
    """How the fleet is taken from one driver version to another."""

    auto_upgrade: Annotated[bool, "Reboot without asking; false: every reboot waits for approval."] = False
    max_parallel_upgrades: Annotated[Count, "Nodes that may be in an upgrade at once; 0: no limit of this kind."] = 1
    max_unavailable: Annotated[
        Share,
        "Managed nodes that may be down at once for any cause, as a number or a percentage, rounded up, at least 1.",
    ] = "25%"
    order: Annotated[
        tuple[LabelKey, ...],
        Meta(max_length=8),
        "Keys of node labels by whose values nodes are put in order; empty: super pod, then name.",
    ] = ()
    canary: Annotated[Canary, "Nodes that go first."] = Canary()
    max_failures: Annotated[Count, "When more nodes than this have failed, the rollout pauses."] = 1
    rollback: Annotated[bool, "A failed node goes back to the last driver that was validated there."] = True
    window: Annotated[
        tuple[Window, ...], Meta(max_length=16), "Spans of time in which reboots may start; empty: always."
    ] = ()
    ignore_cordoned: Annotated[bool, "Leave nodes alone that somebody else has cordoned, and say so."] = True
    wait_for_completion: Annotated[WaitForCompletion, "Jobs to wait for."] = WaitForCompletion()
    pod_deletion: Annotated[PodDeletion, "Eviction of the pods that hold an NPU."] = PodDeletion()
    drain_spec: Annotated[Drain, Alias("drain"), "Eviction of the other pods."] = Drain()
    deadlines: Annotated[Deadlines, "How long each step may take."] = Deadlines()


class RecoveryDrain(Policy, frozen=True, kw_only=True):
    """Emptying a node before a recovery reboot."""

    force: Annotated[bool, "After the limit delete pods with NPUs past their disruption budgets with grace 0."] = False
    timeout_second: Annotated[SecondsOrNoLimit, "Seconds for pods with NPUs to go; 0: no limit."] = 3600


class RecoveryPolicy(Policy, frozen=True, kw_only=True):
    """What happens when a chip is sick in a way that a reboot of its node can cure."""

    auto_recover: Annotated[bool, "Reboot without asking; false: each recovery reboot waits for approval."] = False
    healer: Annotated[Healer, "Who heals: this operator, or MindCluster's own parts."] = Healer.OPERATOR
    probe_second: Annotated[Seconds, "Seconds between two looks at the chips."] = 60
    failures: Annotated[int, Meta(ge=1, le=1000), "Looks in a row that must fail before the tool counts as wedged."] = 3
    min_uptime_second: Annotated[
        SecondsOrNoLimit, "Seconds since the boot before a node may have a recovery reboot."
    ] = 600
    max_attempts: Annotated[
        int, Meta(ge=0, le=100), "Recovery reboots per node and window; after them the node needs a power cycle."
    ] = 2
    window_second: Annotated[Seconds, "Seconds over which `maxAttempts` counts."] = 86_400
    max_unhealthy: Annotated[
        Share,
        "Nodes, of those that were healthy an hour ago, that may be sick at once, as a number or a percentage, "
        "rounded up, at least 1; when there are more, nothing reboots and one alert is raised.",
    ] = "20%"
    drain: Annotated[RecoveryDrain, Alias("drainSpec"), "Emptying the node before the reboot."] = RecoveryDrain()
