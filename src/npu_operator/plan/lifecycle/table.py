"""The life of a driver on one node, as one table and one list. There is no transition anywhere else.

A row reads: in *state* we *do* this; it is *over* when that holds and *then* comes next; after *limit* seconds it is
*late*, and *ends* like that. The last column completes "node a7 waits for …". Before its row is asked, a node may leave
by a detour: somebody edited its label, another version is wanted, a reboot was not ours. Everything that one step changes
on the Node goes in one patch: a state with nothing to do is passed in it, one with something to do is shown. Source:
product.md §4; the label values are the reference's.
"""

# ruff: noqa: E501 - a table is as wide as its columns

from collections.abc import Callable

import msgspec

from npu_operator.model.names import UpgradeState
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import actions, exits, midflight
from npu_operator.plan.lifecycle.actions import nothing
from npu_operator.plan.lifecycle.effects import Act
from npu_operator.plan.lifecycle.failure import fails, gives_back, gives_back_unless_forced, goes_on
from npu_operator.plan.lifecycle.fleet import Fleet
from npu_operator.plan.lifecycle.view import NodeView
from npu_operator.plan.lifecycle.waiting import prepare

S = UpgradeState
R = Reason
NONE = None
"""No label: the node is in no upgrade. A recovery waits here, too."""


class Row(msgspec.Struct, frozen=True):
    """One state; see the module's text for how to read it."""

    state: UpgradeState | None
    do: Callable[[NodeView, Fleet], Act]
    over: Callable[[NodeView, Fleet], bool]
    then: UpgradeState | None
    limit: Callable[[NodeView], int | None]
    late: Reason | Callable[[NodeView], Reason]
    ends: Callable[[NodeView, Reason, str], Act | None]
    """What a late node does; None as its answer means that it goes on to `then`."""
    waits_for: str


# fmt: off
TABLE: tuple[Row, ...] = (
    #   state           we do                     over when                then            limit                   late                  ends                      waits for
    Row(NONE,           prepare,                  exits.wants_a_walk,      S.REQUIRED,     exits.no_limit,         R.Waiting,            goes_on,                  "another driver to be wanted"),
    Row(S.REQUIRED,     prepare,                  exits.may_start,         S.CORDON,       exits.no_limit,         R.Waiting,            goes_on,                  "its turn"),
    Row(S.CORDON,       actions.cordon,           exits.is_cordoned,       S.JOBS,         exits.cordon_limit,     R.CordonRefused,      gives_back,               "the cordon to be accepted"),
    Row(S.JOBS,         nothing,                  exits.jobs_are_over,     S.POD_DELETION, exits.jobs_limit,       R.WaitsForJobs,       goes_on,                  "jobs to end by themselves"),
    Row(S.POD_DELETION, actions.evict_npu_pods,   exits.npu_pods_are_gone, S.DRAIN,        exits.pods_limit,       R.DrainBlocked,       gives_back_unless_forced, "pods with NPUs to go"),
    Row(S.DRAIN,        actions.drain,            exits.is_empty,          S.REBOOT,       exits.drain_limit,      R.DrainBlocked,       gives_back,               "the other pods to go"),
    Row(S.REBOOT,       actions.arm_reboot,       exits.has_new_boot,      S.RESTART,      exits.reboot_limit,     exits.reboot_late,    fails,                    "a new boot id"),
    Row(S.RESTART,      actions.unstick_loader,   exits.has_driver,        S.VALIDATION,   exits.restart_limit,    R.DriverNotReady,     fails,                    "the wanted driver to be loaded in this boot"),
    Row(S.VALIDATION,   nothing,                  exits.is_validated,      S.UNCORDON,     exits.validation_limit, R.ValidationTimeout,  fails,                    "the validator's verdict for this boot"),
    Row(S.UNCORDON,     actions.uncordon_if_ours, exits.serves_again,      S.DONE,         exits.uncordon_limit,   R.AllocatableMissing, fails,                    "the kubelet to offer all its chips"),
    Row(S.DONE,         nothing,                  exits.is_forgotten,      NONE,           exits.no_limit,         R.Waiting,            goes_on,                  "its slot to be free, and its soak to be over"),
    Row(S.FAILED,       prepare,                  exits.is_to_start_anew,  S.REQUIRED,     exits.no_limit,         R.Waiting,            goes_on,                  "another try, or another driver to be wanted"),
)
# fmt: on
ROW_OF = {row.state: row for row in TABLE}

DETOURS: tuple[Callable[[NodeView, Fleet], Act | None], ...] = (
    midflight.record_is_broken,
    midflight.driver_is_not_ours,
    midflight.label_without_record,
    midflight.label_was_removed,
    midflight.label_was_edited,
    midflight.cordon_was_undone,
    midflight.force_was_allowed,
    midflight.target_changed,
    midflight.chip_came_back,
    midflight.breaker_tripped,
    midflight.reboot_was_foreign,
    midflight.armed_in_use,
    midflight.driver_gave_up,
    midflight.trial_was_lost,
    midflight.verdict_is_bad,
    midflight.rollback_is_over,
    midflight.failed_node_is_well,
    midflight.failure_still_stands,
)
"""Asked in this order; the first that answers decides."""
