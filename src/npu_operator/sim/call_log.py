"""What was asked of the server: by whom, what, and with which answer. Read by budgets and traces."""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from npu_operator.kube.answers import Ask

KEPT: Final = 200_000  # calls in detail; the counters go on for ever

WRITES: Final = ("create", "apply", "patch", "delete", "evict")


class Call(NamedTuple):
    """One request."""

    at_s: float
    """Server time."""
    user: str
    ask: Ask
    code: int
    """HTTP status of the answer, whether or not it arrived."""


class CallLog:
    """All calls since the server started; the last ones in detail."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque(maxlen=KEPT)
        self._counts: Counter[tuple[str, str, str, int]] = Counter()

    def record(self, call: Call) -> None:
        """Take note of one."""
        self._calls.append(call)
        self._counts[call.user, call.ask.verb, call.ask.what, call.code] += 1

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls)

    def count(
        self,
        *verbs: str,
        user: str | None = None,
        resource: str | None = None,
        code: int | None = None,
        refused: bool | None = None,
    ) -> int:
        """How many calls had one of `verbs` (none: any), and the given user, resource (as in RBAC) and code."""
        return sum(
            number
            for (who, verb, what, answer), number in self._counts.items()
            if (not verbs or verb in verbs)
            and user in (None, who)
            and resource in (None, what)
            and code in (None, answer)
            and refused in (None, answer >= 400)
        )

    def writes(self, *, user: str | None = None) -> int:
        """How many writes were asked for."""
        return self.count(*WRITES, user=user)

    def clear(self) -> None:
        """Begin to count anew."""
        self._calls.clear()
        self._counts.clear()
