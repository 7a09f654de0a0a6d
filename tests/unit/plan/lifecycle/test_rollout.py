import pytest

from npu_operator.model import names
from npu_operator.model.names import Purpose
from npu_operator.model.reasons import Reason
from npu_operator.model.status import HISTORY_LENGTH, Rollout, RolloutResult, UpgradeStatus
from npu_operator.plan.lifecycle import rollout
from npu_operator.plan.lifecycle.book import Book, Brief, Kind, brief_of, kind_of
from npu_operator.plan.lifecycle.effects import No
from npu_operator.plan.lifecycle.record import Record
from npu_operator.plan.lifecycle.slots import Standing
from tests.unit.plan.lifecycle.nodes import (
    EARLIER,
    NEW,
    NOW,
    SICK,
    S,
    a_driver_pod,
    a_failure,
    a_record,
    a_view,
    found,
    policy,
    recovery_policy,
)

ABORTED = Record(ended=a_failure(reason="Aborted"))
FAILED = Record(ended=a_failure()).entered(S.FAILED, EARLIER)


@pytest.mark.parametrize(
    ("view", "kind"),
    [
        (a_view(wanted=None), Kind.OUTSIDE),
        (a_view(found=found(NEW)), Kind.DONE),
        (a_view(found=None), Kind.DONE),
        (a_view(S.DONE, found=found(NEW)), Kind.DONE),
        (a_view(), Kind.WAITING),
        (a_view(S.REQUIRED), Kind.STAGED),
        (a_view(S.REQUIRED, driver_pod=a_driver_pod("25.3.RC1")), Kind.WAITING),
        (a_view(S.REQUIRED, annotations={names.UPGRADE_SKIP: "true"}), Kind.SKIPPED),
        (a_view(S.REQUIRED, unschedulable=True), Kind.SKIPPED),
        (a_view(S.REQUIRED, unschedulable=True, policy=policy(ignoreCordoned=False)), Kind.STAGED),
        (a_view(S.REQUIRED, labels={names.HEALTH: "unhealthy"}), Kind.SKIPPED),
        (a_view(S.DRAIN), Kind.IN_PROGRESS),
        (a_view(S.REQUIRED, Purpose.ROLLBACK), Kind.IN_PROGRESS),
        (a_view(S.DRAIN, Purpose.RECOVERY, found=found(NEW)), Kind.DONE),
        (a_view(None, purpose=None, record=ABORTED), Kind.SKIPPED),
        (a_view(S.FAILED, purpose=None, record=FAILED), Kind.FAILED),
    ],
)
def test_each_node_stands_somewhere(view, kind):
    assert kind_of(view) is kind


def test_a_recovery_with_an_upgrade_behind_it_waits():
    record = a_record(S.DRAIN, Purpose.RECOVERY, target=a_record(S.REQUIRED).target)
    assert kind_of(a_view(S.DRAIN, Purpose.RECOVERY, record=record)) is Kind.WAITING


def a_brief(name: str, **changes) -> Brief:
    standing = {key: changes.pop(key) for key in ("state", "is_down", "is_started", "purpose") if key in changes}
    fields = {"standing": Standing(name=name, uid=f"uid-{name}", pool=changes.pop("pool", "p"), **standing)}
    return Brief(**(fields | {"order": (name,), "kind": Kind.DONE, "loaded": NEW} | changes))


def a_book(*briefs: Brief) -> Book:
    book = Book()
    for brief in briefs:
        book.put(brief)
    return book


def test_a_book_kept_by_difference_is_the_same_as_a_new_one():
    ends = [a_brief("a1", kind=Kind.FAILED, is_down=True), a_brief("a2", pool="q"), a_brief("a3", is_sick=True)]
    book = a_book(a_brief("a1", pool="q", super_pod="s"), a_brief("a2", is_sick=True), a_brief("a4", is_down=True))
    for brief in (*ends, *ends):
        book.put(brief)
    book.drop("a4")
    book.drop("a4")
    fresh = a_book(*ends)
    for name in ("kinds", "down", "sizes", "sick", "waiting", "stageable", "started"):
        assert getattr(book, name) == getattr(fresh, name), name
    assert book.by_uid("uid-a4") is None
    assert book.by_uid("uid-a1") == ends[0]
    assert book.managed == 3
    assert book.mixed_super_pods() == {}


def test_the_order_is_labels_then_super_pod_then_name():
    view = a_view(labels={"npu.zone": "z1"})
    assert brief_of(view, ["npu.zone"], "sp-3").order == ("z1", "sp-3", "a7")
    book = a_book(a_brief("b", order=("2", "b")), a_brief("c", order=("1", "c")), a_brief("a", order=("2", "a")))
    assert [brief.name for brief in book.in_order(["a", "b", "c"])] == ["c", "a", "b"]


def test_nodes_of_a_super_pod_with_two_drivers_are_told():
    book = a_book(
        a_brief("a1", super_pod="s1"), a_brief("a2", super_pod="s1", loaded="25.3"), a_brief("a3", super_pod="s2")
    )
    assert book.mixed_super_pods() == {"s1": ("25.3", NEW)}
    book.put(a_brief("a2", super_pod="s1"))
    assert book.mixed_super_pods() == {}


def test_a_brief_holds_what_the_fleet_asks_for():
    brief = brief_of(a_view(S.REQUIRED, found=found(recovery=SICK)), (), "sp")
    assert brief.waits_with_attempt
    assert brief.is_sick
    assert brief.approved_at == EARLIER
    assert not brief.may_be_staged
    assert (brief.standing.attempt, brief.standing.uid, brief.pool) == ("try-1", "uid-a7", "pool-1")


@pytest.mark.parametrize(
    ("view", "is_sick"),
    [
        (a_view(S.DRAIN, found=found(recovery=SICK)), False),
        (a_view(S.DRAIN, Purpose.RECOVERY, found=None), True),
        (a_view(None, purpose=None, found=found(NEW, recovery=SICK)), True),
        (a_view(None, purpose=None, found=found(NEW)), False),
    ],
    ids=["in an upgrade", "in a recovery", "waiting", "well"],
)
def test_the_breaker_counts_sick_nodes_but_for_those_in_an_upgrade(view, is_sick):
    """L19"""
    assert brief_of(view, (), "").is_sick is is_sick


# --- canaries

CANARY = policy(canary={"nodes": 2, "soakSeconds": 60})


def test_the_first_nodes_of_a_pool_are_its_canaries():
    book = a_book(
        a_brief("a3"), a_brief("a1"), a_brief("a2"), a_brief("b1", pool="q"), a_brief("a0", kind=Kind.SKIPPED)
    )
    assert book.canaries("p", 2) == ("a1", "a2")
    assert book.canaries("q", 2) == ("b1",)
    book.put(a_brief("a1", kind=Kind.SKIPPED))
    assert book.canaries("p", 2) == ("a2", "a3")


def test_the_others_wait_until_all_canaries_work():
    book = a_book(a_brief("a1"), a_brief("a2", is_well=False, kind=Kind.STAGED), a_brief("a3"))
    no = book.canary_objection("p", CANARY)
    assert no == No(Reason.WaitsForCanary, "canary a2 is not through yet (staged)")
    book.put(a_brief("a2", is_well=False, state=S.DONE))
    assert book.canary_objection("p", CANARY).message == "canary a2 is being soaked"
    book.put(a_brief("a2"))
    assert book.canary_objection("p", CANARY) is None


@pytest.mark.parametrize(
    ("view", "is_well"),
    [
        (a_view(found=found(NEW)), True),
        (a_view(S.DONE, found=found(NEW)), False),
        (a_view(found=found(NEW, recovery=SICK)), False),
        (a_view(found=found(NEW), ready="False"), False),
        (a_view(), False),
    ],
    ids=["through", "soaking", "sick", "not ready", "before"],
)
def test_a_canary_works_when_it_is_through_and_nothing_ails_it(view, is_well):
    assert brief_of(view, (), "").is_well is is_well


# --- the status


def test_the_numbers_add_up():
    """U13"""
    kinds = [Kind.DONE, Kind.DONE, Kind.STAGED, Kind.IN_PROGRESS, Kind.WAITING, Kind.FAILED, Kind.SKIPPED]
    book = a_book(
        *(a_brief(f"a{number}", kind=kind) for number, kind in enumerate(kinds)), a_brief("x", kind=Kind.OUTSIDE)
    )
    found_status = rollout.status(book, NEW, {}, UpgradeStatus(), NOW)
    assert found_status == UpgradeStatus(
        target=NEW,
        total=7,
        done=2,
        staged=1,
        in_progress=1,
        waiting=1,
        failed=1,
        skipped=1,
        started_at=NOW,
        summary="2/7",
    )


def test_without_a_rollout_the_status_is_empty():
    assert rollout.status(a_book(a_brief("a1")), NEW, {}, UpgradeStatus(target=NEW), NOW) == UpgradeStatus()


def test_a_rollout_keeps_its_beginning():
    book = a_book(a_brief("a1", kind=Kind.WAITING))
    old = UpgradeStatus(target=NEW, started_at=EARLIER, total=1, waiting=1)
    assert rollout.status(book, NEW, {}, old, NOW).started_at == EARLIER
    assert rollout.status(book, "25.7", {}, old, NOW).started_at == NOW


def test_what_blocks_is_told_worst_first_and_once_for_many():
    """U01"""
    slot = No(Reason.WaitsForSlot, "all slots are taken (maxParallelUpgrades 1)")
    lines = rollout.blocked_by(
        {
            "a3": slot,
            "a2": slot,
            "a4": No(Reason.ImageMissing, "x:25.5.0 not found"),
            "a5": No(Reason.UptimeTooShort, "later"),
            "a6": No(Reason.WaitsForApproval, "waits for approval"),
        }
    )
    assert lines == (
        "ImageMissing: a4: x:25.5.0 not found",
        "WaitsForApproval: a6: waits for approval",
        "WaitsForSlot: 2 nodes (first: a2): all slots are taken (maxParallelUpgrades 1)",
        "UptimeTooShort: a5: later",
    )


def test_more_failures_than_allowed_pause_the_rollout():
    book = a_book(a_brief("a1", kind=Kind.FAILED))
    assert rollout.too_many_failed(book, 1) is None
    book.put(a_brief("a2", kind=Kind.FAILED))
    assert rollout.too_many_failed(book, 1).reason == Reason.MaxFailures


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ((True, True, True), Reason.SpecRejected),
        ((True, True, False), Reason.PlanOnly),
        ((True, False, False), Reason.Paused),
    ],
)
def test_what_halts_everything_has_a_reason(flags, reason):
    paused, plan, rejected = flags
    assert rollout.halted(is_paused=paused, is_plan_only=plan, is_rejected=rejected).reason == reason
    assert rollout.halted(is_paused=False, is_plan_only=False, is_rejected=False) is None


# --- history


def going(**changes) -> UpgradeStatus:
    return UpgradeStatus(**{"target": NEW, "total": 4, "waiting": 1, "done": 3, "started_at": EARLIER} | changes)


def test_a_rollout_that_is_through_is_history():
    (entry,) = rollout.history((), going(), UpgradeStatus(), NOW)
    assert entry == Rollout(
        target=NEW, started_at=EARLIER, finished_at=NOW, result=RolloutResult.SUCCEEDED, total=4, done=4
    )


def test_one_that_goes_on_is_none():
    assert rollout.history((), UpgradeStatus(), going(), NOW) == ()
    assert rollout.history((), going(), going(done=2, waiting=2), NOW) == ()
    assert rollout.history((), UpgradeStatus(), UpgradeStatus(), NOW) == ()


def test_one_that_left_failed_nodes_is_written_once():
    ended = going(waiting=0, failed=1)
    (entry,) = rollout.history((), going(), ended, NOW)
    assert (entry.result, entry.done, entry.failed) == (RolloutResult.FAILED, 3, 1)
    assert rollout.history((entry,), ended, ended, "2026-11-30T13:00:00Z") == (entry,)


def test_when_the_failed_nodes_were_retried_its_entry_is_written_anew():
    (entry,) = rollout.history((), going(), going(waiting=0, failed=1), NOW)
    later = "2026-11-30T13:00:00Z"
    assert rollout.history((entry,), going(), going(), later) == (entry,)
    (again,) = rollout.history((entry,), going(), UpgradeStatus(), later)
    assert (again.result, again.finished_at) == (RolloutResult.SUCCEEDED, later)


def test_one_in_which_nodes_were_left_out_was_aborted_there():
    (entry,) = rollout.history((), going(), going(waiting=0, skipped=1), NOW)
    assert (entry.result, entry.skipped) == (RolloutResult.ABORTED, 1)


def test_another_target_supersedes_it():
    (entry,) = rollout.history((), going(), going(target="25.7", started_at=NOW), NOW)
    assert (entry.target, entry.result, entry.done) == (NEW, RolloutResult.SUPERSEDED, 3)


def test_only_the_last_ten_are_kept_the_newest_first():
    past = tuple(Rollout(target=str(number), started_at=EARLIER) for number in range(HISTORY_LENGTH))
    kept = rollout.history(past, going(), UpgradeStatus(), NOW)
    assert len(kept) == HISTORY_LENGTH
    assert kept[0].target == NEW
    assert kept[1:] == past[:-1]


def test_recovery_policies_are_no_part_of_a_rollout():
    view = a_view(None, purpose=None, found=found(NEW, recovery=SICK), recovery=recovery_policy(autoRecover=True))
    assert kind_of(view) is Kind.DONE
