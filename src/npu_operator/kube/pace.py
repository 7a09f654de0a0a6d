"""One brake for all requests: when the server says "too many requests", everybody waits, not only who was told.

Without it a plan that writes to hundreds of nodes in parallel would have each of its writes refused once.
"""

import random

from npu_operator.kube.api import Clock

DEFAULT_S = 1.0  # a 429 without Retry-After; priority and fairness in the API server says 1 as well
CAP_S = 30.0  # a mistaken header must not stop us for an hour


class Pace:
    """Holds requests back until the server wants them again."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._until = clock.monotonic()

    def slow_down(self, retry_after_s: float | None) -> None:
        """The server asked for a pause."""
        pause_s = min(DEFAULT_S if retry_after_s is None else retry_after_s, CAP_S)
        self._until = max(self._until, self._clock.monotonic() + pause_s)

    async def wait(self) -> None:
        """Return when requests are welcome; up to a tenth later, so that not all return at once."""
        while (left_s := self._until - self._clock.monotonic()) > 0:
            await self._clock.sleep(left_s * self._rng.uniform(1.0, 1.1))
