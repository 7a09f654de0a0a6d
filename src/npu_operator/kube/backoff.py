"""How long to wait after failures: twice as long each time, up to a cap, never in step with others."""

import random

JITTER = 0.25  # a quarter either way keeps a fleet of clients from returning at the same moment


class Backoff:
    """Growing waits in seconds. `rng` is injected so that a run can be repeated."""

    def __init__(self, rng: random.Random, *, first_s: float, cap_s: float) -> None:
        self._rng = rng
        self._first_s = first_s
        self._cap_s = cap_s
        self.failures = 0
        """In a row, since the last `reset`."""

    def next_s(self, *, at_least_s: float | None = None) -> float:
        """The wait after one more failure; not shorter than `at_least_s` (a Retry-After)."""
        wait_s = delay_s(self._rng, self.failures, first_s=self._first_s, cap_s=self._cap_s)
        self.failures += 1
        return max(wait_s, at_least_s or 0.0)

    def reset(self) -> None:
        """All is well again."""
        self.failures = 0


def delay_s(rng: random.Random, failures: int, *, first_s: float, cap_s: float) -> float:
    """`first_s` doubled `failures` times, at most `cap_s`, give or take a quarter."""
    doubled = first_s * 2.0 ** min(failures, 64)  # 2^64 is beyond every cap; a float could overflow
    return min(doubled, cap_s) * rng.uniform(1 - JITTER, 1 + JITTER)
