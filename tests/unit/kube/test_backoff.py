"""Waits after failures."""

import random

from hypothesis import given
from hypothesis import strategies as st

from npu_operator.kube.backoff import Backoff, delay_s


def test_waits_double_up_to_the_cap_and_begin_anew_after_a_success():
    backoff = Backoff(random.Random(1), first_s=1.0, cap_s=30.0)
    waits = [backoff.next_s() for _ in range(10)]
    assert all(0.75 * min(2**n, 30) <= wait <= 1.25 * min(2**n, 30) for n, wait in enumerate(waits))
    backoff.reset()
    assert backoff.next_s() <= 1.25


def test_a_server_that_asks_for_more_gets_more():
    assert Backoff(random.Random(1), first_s=1.0, cap_s=30.0).next_s(at_least_s=60) == 60


@given(st.integers(0, 10_000), st.integers())
def test_no_number_of_failures_breaks_the_cap(failures, seed):
    assert 0 < delay_s(random.Random(seed), failures, first_s=0.005, cap_s=1000.0) <= 1250.0
