"""How many requests were made, by verb, resource and answer. Read by metrics and by the benchmark."""

from collections import Counter
from collections.abc import Iterator

import msgspec

NO_ANSWER = 0


class Call(msgspec.Struct, frozen=True):
    """One kind of request with one kind of answer."""

    verb: str
    """As in `Cluster`: get, list (one per page), watch (one per connection), create, apply, patch, delete, evict."""
    resource: str
    """As in RBAC messages, with the sub-resource: `nodes`, `daemonsets.apps`, `nodes/status`."""
    code: int
    """HTTP status; 0 when no answer came."""


class Calls:
    """Counters since the process started."""

    def __init__(self) -> None:
        self._counts: Counter[Call] = Counter()

    def count(self, verb: str, resource: str, code: int) -> None:
        """One more."""
        self._counts[Call(verb, resource, code)] += 1

    def __iter__(self) -> Iterator[tuple[Call, int]]:
        return iter(sorted(self._counts.items(), key=lambda item: (item[0].resource, item[0].verb, item[0].code)))

    def total(self, *verbs: str) -> int:
        """All requests with one of these verbs; all requests when none is named."""
        return sum(number for call, number in self._counts.items() if not verbs or call.verb in verbs)
