"""What can go wrong between a process and the API server, drawn from a seed or written down as a script.

A fault is an option with a name and a probability. In the second phase of a run (`calm`) nothing goes wrong by chance
any more; what is scripted still happens.
"""

import random
from collections.abc import Iterable
from typing import Final

import msgspec

from npu_operator.kube.answers import Ask
from npu_operator.sim.server import refusals
from npu_operator.sim.server.refusals import Refused

TOO_MANY: Final = "too_many_requests"
CONFLICT: Final = "conflict"
GONE: Final = "gone"
SERVER_ERROR: Final = "server_error"
REFUSED: Final = "refused"
LOST: Final = "lost_answer"
SILENT: Final = "silent_watch"
SLOW: Final = "slow"

STATUS: Final = {TOO_MANY: 429, CONFLICT: 409, GONE: 410, SERVER_ERROR: 500}
WRITES: Final = ("create", "apply", "patch", "delete", "evict")
VERBS: Final = {
    CONFLICT: ("create", "apply", "patch"),
    GONE: ("list", "watch"),
    LOST: WRITES,
    SILENT: ("watch",),
}
"""The verbs that a fault can hit; all where none are given."""


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The probability of each fault for one call that it can hit."""

    too_many_requests: float = 0.0
    """429 with Retry-After."""
    conflict: float = 0.0
    """409 for a write, as if somebody had been faster."""
    gone: float = 0.0
    """410 for a list page or at the start of a watch."""
    server_error: float = 0.0
    """500; the write did not take place."""
    refused: float = 0.0
    """Connection refused; nothing was sent."""
    lost_answer: float = 0.0
    """The write took place, the caller never hears of it."""
    silent_watch: float = 0.0
    """The watch opens, and then nothing arrives and nobody hangs up."""
    slow: float = 0.0
    """The request takes up to `slow_s` seconds on its way."""
    slow_s: float = 5.0


class Scripted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault at one place: "the 3rd patch of nodes is answered with 429"."""

    fault: str
    """One of the names in `Rates`."""
    verb: str | None = None
    """As in `Cluster`; None: any."""
    resource: str | None = None
    """As in RBAC messages, with the sub-resource: `nodes`, `pods/eviction`; None: any."""
    name: str | None = None
    nth: int = 1
    """Which of the matching calls, from 1."""
    times: int = 1
    """How many in a row from there."""

    def matches(self, ask: Ask) -> bool:
        """Whether the call is of this sort."""
        return (
            self.verb in (None, ask.verb)
            and self.resource in (None, ask.what)
            and self.name in (None, ask.name)
            and ask.verb in VERBS.get(self.fault, (ask.verb,))
        )


class Trouble(msgspec.Struct, frozen=True):
    """What happens to one call."""

    fault: str
    delay_s: float = 0.0
    """The request arrives that much later."""
    retry_after_s: int = 1

    @property
    def status(self) -> int:
        """The status that is answered; 0 when no answer comes."""
        return STATUS.get(self.fault, 0)

    @property
    def fails_before(self) -> bool:
        """The server does nothing about the request."""
        return self.fault not in (LOST, SLOW)

    @property
    def loses_answer(self) -> bool:
        """The server does what is asked, and the caller waits in vain."""
        return self.fault == LOST

    def error(self) -> OSError:
        """What the caller's connection says."""
        if self.fault == LOST:
            return TimeoutError()
        return ConnectionRefusedError("connection refused")

    def refusal(self, ask: Ask) -> Refused:
        """The server's words."""
        name = ask.name or ""
        match self.fault:
            case "too_many_requests":
                text = "the server has received too many requests and has asked us to try again later"
                return refusals.too_many_requests(text, retry_after_s=self.retry_after_s)
            case "conflict":
                return refusals.modified(ask.resource, name)
            case "gone":
                return refusals.expired("too old resource version")
        return refusals.internal("etcdserver: request timed out")


class Faults:
    """Decides, call by call, what goes wrong."""

    def __init__(self, rates: Rates | None = None, *, seed: int = 0, script: Iterable[Scripted] = ()) -> None:
        self.rates = rates or Rates()
        self.is_down = False
        """The API server does not answer at all."""
        self._rng = random.Random(seed)
        self._script = [(step, [0]) for step in script]

    def calm(self) -> None:
        """No more faults by chance."""
        self.rates = Rates()

    def add(self, *steps: Scripted) -> None:
        """More of the script; the calls are counted from now."""
        self._script += [(step, [0]) for step in steps]

    def next(self, ask: Ask) -> Trouble | None:
        """What happens to this call; None: nothing. A silent watch is asked for by `is_silent`."""
        if self.is_down:
            return Trouble(REFUSED)
        scripted = self._scripted(ask, but_not=SILENT)
        if scripted is not None:
            return Trouble(scripted, self.rates.slow_s if scripted == SLOW else 0.0)
        for fault in (TOO_MANY, CONFLICT, GONE, SERVER_ERROR, REFUSED, LOST):
            if ask.verb in VERBS.get(fault, (ask.verb,)) and self._happens(getattr(self.rates, fault)):
                return Trouble(fault, retry_after_s=self._rng.randint(1, 5) if fault == TOO_MANY else 1)
        if self._happens(self.rates.slow):
            return Trouble(SLOW, self._rng.uniform(0.0, self.rates.slow_s))
        return None

    def is_silent(self, ask: Ask) -> bool:
        """Whether this watch, just opened, will be silent."""
        return self._scripted(ask, only=SILENT) is not None or self._happens(self.rates.silent_watch)

    def _happens(self, rate: float) -> bool:
        return rate > 0.0 and self._rng.random() < rate

    def _scripted(self, ask: Ask, *, only: str | None = None, but_not: str | None = None) -> str | None:
        found = None
        for step, seen in self._script:
            if (only is not None and step.fault != only) or step.fault == but_not or not step.matches(ask):
                continue
            seen[0] += 1
            if found is None and step.nth <= seen[0] < step.nth + step.times:
                found = step.fault
        return found
