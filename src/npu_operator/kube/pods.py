"""Pods as one sees them who wants to empty a node: what kind each is, and what becomes of it.

The rules are those of `kubectl drain` (1.34: `pkg/drain/filters.go`). All pure.
"""

import enum

import msgspec

from npu_operator.kube.objects import Slim

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of a pod's volume that tells whether data is lost."""

    name: str = ""
    empty_dir: dict[str, str] | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of a pod's spec that draining reads."""

    node_name: str = ""
    volumes: tuple[Volume, ...] = ()
    termination_grace_period_seconds: int | None = None


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """One condition of a pod."""

    type: str
    status: str = ""


class PodStatus(msgspec.Struct, frozen=True, gc=False):
    """The part of a pod's status that draining reads."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()


class Pod(Slim, frozen=True):
    """What draining reads of a pod. Subclasses may read more."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Trait(enum.Enum):
    """What matters about a pod when its node is to be emptied."""

    MIRROR = "mirror pod of the kubelet"
    """Cannot be deleted through the API."""
    DAEMON = "managed by a DaemonSet"
    """Would be put back at once."""
    FINISHED = "finished"
    TERMINATING = "terminating"
    BARE = "without a controller"
    """Nobody puts it back elsewhere."""
    EMPTY_DIR = "with emptyDir data"
    """Its data is lost."""
    UNREADY = "not ready"


def traits(pod: Pod) -> frozenset[Trait]:
    """All that apply."""
    controller = pod.metadata.controller
    is_daemon = controller is not None and controller.kind == "DaemonSet"
    is_finished = pod.status.phase in ("Succeeded", "Failed")
    claims = {
        Trait.MIRROR: MIRROR_ANNOTATION in pod.metadata.annotations,
        Trait.DAEMON: is_daemon,
        Trait.FINISHED: is_finished,
        Trait.TERMINATING: pod.metadata.deletion_timestamp is not None,
        Trait.BARE: controller is None,
        Trait.EMPTY_DIR: any(volume.empty_dir is not None for volume in pod.spec.volumes),
        Trait.UNREADY: not is_finished and not is_ready(pod),
    }
    return frozenset(trait for trait, holds in claims.items() if holds)


def is_ready(pod: Pod) -> bool:
    """Is the pod ready, in the sense of disruption budgets?"""
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)


class Answer(enum.Enum):
    """What a drain does with a pod."""

    LEAVE = "leave"
    """It stays, and the node counts as empty with it."""
    WAIT = "wait"
    """It is on its way out."""
    EVICT = "evict"
    REFUSE = "refuse"
    """Somebody has to allow it first."""


def drain_answer(pod: Pod, *, force: bool, delete_empty_dir: bool) -> tuple[Answer, str]:
    """What a drain with these permissions does with `pod`, and why. As `kubectl drain --ignore-daemonsets`."""
    found = traits(pod)
    if Trait.MIRROR in found:
        return Answer.LEAVE, Trait.MIRROR.value
    if Trait.FINISHED in found:
        return (Answer.LEAVE, Trait.FINISHED.value) if Trait.DAEMON in found else (Answer.EVICT, Trait.FINISHED.value)
    if Trait.DAEMON in found:
        return Answer.LEAVE, Trait.DAEMON.value
    if Trait.TERMINATING in found:
        return Answer.WAIT, Trait.TERMINATING.value
    if Trait.EMPTY_DIR in found and not delete_empty_dir:
        return Answer.REFUSE, Trait.EMPTY_DIR.value
    if Trait.BARE in found and not force:
        return Answer.REFUSE, Trait.BARE.value
    return Answer.EVICT, "has to leave"
