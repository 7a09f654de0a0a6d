"""The eviction of one pod: the only way to delete running work that asks the disruption budgets first."""

import enum
import random
import re
from collections.abc import Iterable

import msgspec

from npu_operator.kube import answers
from npu_operator.kube.api import ApiError, Clock, Cluster, Conflict, Forbidden, NotFound, TooManyRequests
from npu_operator.kube.backoff import delay_s
from npu_operator.kube.pods import Pod

FIRST_S, CAP_S = 5.0, 60.0  # between two tries to evict one pod; kubectl tries every 5 s for ever
_BUDGET = re.compile(r"The disruption budget (\S+) ")
_MANY_BUDGETS = "more than one PodDisruptionBudget"


class Outcome(enum.Enum):
    """How an eviction went."""

    ACCEPTED = "accepted"
    """The pod is being deleted, after its grace period."""
    GONE = "gone"
    """There is no such pod any more."""
    BLOCKED = "blocked"
    """Not now; the message says by which budget."""


class Eviction(msgspec.Struct, frozen=True):
    """The answer to a request for an eviction."""

    outcome: Outcome
    message: str = ""
    budget: str = ""
    """The budget that blocks, when the server named it."""


async def evict(cluster: Cluster, pod: Pod, *, grace_s: int | None = None) -> Eviction:
    """Ask once for the eviction of exactly this pod, not of a later one of its name.

    Raises ApiError for what is not about the pod: no rights, too many requests, no answer.
    """
    metadata = pod.metadata
    try:
        await cluster.evict(metadata.name, metadata.namespace, grace_s=grace_s, uid=metadata.uid)
    except NotFound:
        return Eviction(Outcome.GONE)
    except Conflict:  # the uid is another one's
        return Eviction(Outcome.GONE, "another pod has its name now")
    except TooManyRequests as error:
        if not answers.is_about_a_budget(error):
            raise
        said = "; ".join(cause.message for cause in answers.causes_of(error)) or str(error)
        named = _BUDGET.search(said)
        return Eviction(Outcome.BLOCKED, said, budget=named[1] if named else "")
    except Forbidden as error:
        if any(cause.reason == "NamespaceTerminating" for cause in answers.causes_of(error)):
            return Eviction(Outcome.ACCEPTED, "its namespace is being deleted")
        raise
    except ApiError as error:
        if _MANY_BUDGETS not in str(error):
            raise
        return Eviction(Outcome.BLOCKED, "more than one budget covers it, which evictions do not support")
    return Eviction(Outcome.ACCEPTED)


class Evictor:
    """Evicts pods without hammering the server: a pod that is blocked is asked about again only after a while.

    Can be called for the same pod as often as a plan is made.
    """

    def __init__(self, cluster: Cluster, *, clock: Clock, rng: random.Random) -> None:
        self._cluster = cluster
        self._clock = clock
        self._rng = rng
        self._blocked: dict[str, tuple[float, int, Eviction]] = {}
        """By uid: when to ask again (monotonic), how often it was refused, the last answer."""

    async def evict(self, pod: Pod, *, grace_s: int | None = None) -> Eviction:
        """As the function `evict`, but a refusal is repeated from memory until it is time to ask again."""
        uid = pod.metadata.uid
        again_at, refusals, last = self._blocked.get(uid, (0.0, 0, None))
        if last is not None and self._clock.monotonic() < again_at:
            return last
        answer = await evict(self._cluster, pod, grace_s=grace_s)
        if answer.outcome is Outcome.BLOCKED:
            wait_s = delay_s(self._rng, refusals, first_s=FIRST_S, cap_s=CAP_S)
            self._blocked[uid] = (self._clock.monotonic() + wait_s, refusals + 1, answer)
        else:
            self._blocked.pop(uid, None)
        return answer

    def again_s(self, pod: Pod) -> float:
        """Seconds until a blocked pod may be asked about again; 0 when now."""
        again_at, _, _ = self._blocked.get(pod.metadata.uid, (0.0, 0, None))
        return max(again_at - self._clock.monotonic(), 0.0)

    def forget_others(self, uids: Iterable[str]) -> None:
        """Only these pods still exist."""
        kept = set(uids)
        self._blocked = {uid: entry for uid, entry in self._blocked.items() if uid in kept}
