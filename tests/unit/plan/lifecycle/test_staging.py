import msgspec
import pytest

from npu_operator.model.npunode import StagedVersion
from npu_operator.model.reasons import Reason
from npu_operator.plan.lifecycle import staging
from npu_operator.plan.lifecycle.record import Tried
from tests.unit.plan.lifecycle.nodes import (
    EARLIER,
    FLEET,
    KERNEL,
    NEW,
    NOW,
    OLD,
    STAGE_FAILED,
    S,
    a_driver_pod,
    a_record,
    a_target,
    a_view,
    found,
    policy,
    record_after,
    step,
)

NOT_THERE = found(OLD, staged=())
FAILED = Tried(count=1, at="2026-11-30T11:54:00Z", reason=Reason.StageFailed, message="NoSpace: disk full")


def not_staged(**changes):
    """A node that is to be upgraded, with the new driver not on its disk."""
    tried = changes.pop("tried", None)
    record = a_record(S.REQUIRED, attempt=None, approval=None, tried={"stage": tried} if tried else {})
    fields = {"record": record, "found": NOT_THERE, "held": (), **changes}
    return a_view(S.REQUIRED, **fields)


@pytest.mark.parametrize(
    ("parallel", "unavailable", "nodes", "places"),
    [(1, "25%", 12, 2), (3, "100%", 12, 6), (0, "25%", 12, 6), (0, 1, 12, 2), (5, 1, 12, 2), (50, "10%", 1000, 100)],
)
def test_twice_as_many_are_staged_as_may_be_down_and_at_least_two(parallel, unavailable, nodes, places):
    one = policy(maxParallelUpgrades=parallel, maxUnavailable=unavailable)
    assert staging.places(one, nodes) == places


def test_a_node_with_the_old_pod_may_be_tried():
    view = not_staged(driver_pod=a_driver_pod(OLD))
    assert staging.may_be_tried(view)
    assert not staging.is_under_way(view)
    write = staging.swap(view)
    assert (write.name, write.uid, NEW in write.why) == ("npu-driver-x", "uid-x", True)


@pytest.mark.parametrize(
    "changes",
    [
        {"driver_pod": a_driver_pod()},
        {"driver_pod": None},
        {"driver_pod": a_driver_pod(OLD, is_terminating=True)},
        {"driver_pod": a_driver_pod(OLD), "ready": "Unknown"},
        {"driver_pod": a_driver_pod(), "found": found()},
    ],
    ids=["new pod", "no pod", "leaving", "not ready", "staged"],
)
def test_otherwise_a_swap_makes_no_sense(changes):
    assert not staging.may_be_tried(not_staged(**changes))


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"driver_pod": a_driver_pod()}, True),
        ({"driver_pod": a_driver_pod(OLD)}, False),
        ({"driver_pod": a_driver_pod(OLD, is_terminating=True)}, True),
        ({"driver_pod": None}, True),
        ({"driver_pod": None, "seconds_without_pod": 60.0}, False),
        ({"driver_pod": a_driver_pod(), "ready": "False"}, False),
        ({"driver_pod": a_driver_pod(), "found": found()}, False),
        ({"driver_pod": a_driver_pod(), "tried": FAILED}, False),
    ],
    ids=["new pod", "old pod", "being swapped", "no pod yet", "no pod at all", "silent", "staged", "failed"],
)
def test_places_are_taken_by_nodes_that_are_getting_there(changes, counts):
    """U06: what never gets there blocks nobody."""
    assert staging.is_under_way(not_staged(**changes)) is counts


def test_a_driver_on_the_disk_is_not_staged_before_its_own_pod_is_there():
    """The loader of the next boot is told by its pod what to load, and with which options."""
    assert not a_view(S.REQUIRED, driver_pod=a_driver_pod(OLD)).is_staged
    assert a_view(S.REQUIRED).is_staged


@pytest.mark.parametrize(
    "there",
    [
        StagedVersion(version=OLD, kernel=KERNEL),
        StagedVersion(version=NEW, kernel="5.10"),
        StagedVersion(version=NEW, kernel=KERNEL, image_digest="sha256:b"),
        StagedVersion(version=NEW, kernel=KERNEL, state="Staging"),
    ],
    ids=["another version", "another kernel", "another image", "on its way"],
)
def test_only_the_wanted_driver_for_the_running_kernel_counts(there):
    view = a_view(S.REQUIRED, wanted=a_target(digest="sha256:a"), found=found(staged=(there,)))
    assert not view.is_staged


def test_the_attempt_is_made_when_the_driver_is_staged():
    with_content = found(staged=(StagedVersion(version=NEW, kernel=KERNEL, digest="abc", image_digest="sha256:a"),))
    found_step = step(not_staged(found=with_content), FLEET)
    record = record_after(not_staged(found=with_content))
    assert record.attempt.target == a_target(content="abc", digest="sha256:a")
    assert record.attempt.made_at == NOW
    told = [note for note in found_step.notes if note.reason == "RebootRequired"]
    assert len(told) == 1
    assert "reason=upgrade" in told[0].message


def test_a_failed_check_is_remembered_once_per_pod():
    view = not_staged(found=found(staged=(STAGE_FAILED,)))
    record = record_after(view)
    tried = record.tried["stage"]
    assert (tried.count, tried.at, tried.reason) == (1, NOW, Reason.StageFailed)
    assert tried.message == "NoSpace: disk full; tried again at 2026-11-30T12:05:00Z"
    again = not_staged(found=found(staged=(STAGE_FAILED,)), tried=tried)
    assert record_after(again).tried["stage"] == tried


def test_a_node_that_could_not_be_staged_serves_on_and_has_not_failed():
    view = not_staged(found=found(staged=(STAGE_FAILED,)))
    found_step = step(view, FLEET)
    assert (found_step.to, found_step.reason) == (S.REQUIRED, Reason.StageFailed)
    assert "disk full" in found_step.message


def test_staging_that_takes_too_long_has_failed_in_the_kubelets_words():
    pod = a_driver_pod(trouble="ImagePullBackOff: denied", created="2026-11-30T11:30:01Z")
    assert "stage" not in record_after(not_staged(driver_pod=pod)).tried
    late = msgspec.structs.replace(pod, created="2026-11-30T11:30:00Z")
    message = record_after(not_staged(driver_pod=late)).tried["stage"].message
    assert "1800 s" in message
    assert "denied" in message


def test_after_its_pause_a_node_is_tried_again_with_a_new_pod():
    resting = not_staged(tried=FAILED, driver_pod=a_driver_pod(created=EARLIER))
    assert staging.may_be_tried(resting)
    too_early = msgspec.structs.replace(resting, now="2026-11-30T11:58:59Z")
    assert not staging.may_be_tried(too_early)
    assert staging.look_again_s(too_early) == 1


def test_a_failure_from_before_the_swap_is_not_counted_for_the_new_pod():
    pod = a_driver_pod(created="2026-11-30T11:59:30Z")
    view = not_staged(found=found(staged=(STAGE_FAILED,)), tried=FAILED, driver_pod=pod)
    assert record_after(view).tried["stage"] == FAILED
    assert staging.look_again_s(view) == 30
    later = msgspec.structs.replace(view, now="2026-11-30T12:00:30Z")
    assert record_after(later).tried["stage"].count == 2


def test_success_forgets_the_failures():
    assert record_after(not_staged(found=found(), tried=FAILED)).tried == {}


def test_pauses_grow_up_to_two_hours():
    assert [staging.pause_s(count) for count in (1, 2, 3, 5, 6, 60)] == [300, 600, 1200, 4800, 7200, 7200]


def test_the_next_look_is_when_staging_would_be_late():
    view = not_staged(driver_pod=a_driver_pod(created="2026-11-30T11:50:00Z"))
    assert staging.look_again_s(view) == 1200
    assert step(view, FLEET).look_again_s == 1200
    assert staging.look_again_s(not_staged(driver_pod=a_driver_pod(OLD))) is None
    assert staging.look_again_s(not_staged(found=found())) is None
