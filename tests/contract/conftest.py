"""Each contract test runs against the simulated server and against a real one (marker `cluster`)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.backends import Backend, Real, Simulated


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Any]:
    """A real control plane of our own; skips with the reason when this machine cannot have one."""
    from testbed import Unavailable
    from testbed.control_plane import ControlPlane

    try:
        # No scheduler and no account controller's help: contract pods are placed and ended by the tests themselves.
        cluster = ControlPlane(scheduler=False, service_account_admission=False, audit_log=False)
        cluster.start()
    except Unavailable as reason:
        pytest.skip(f"no real control plane: {reason}")
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.cluster)])
def backend(request: pytest.FixtureRequest) -> Backend:
    """The server that a test talks to."""
    if request.param == "simulated":
        return Simulated()
    return Real(request.getfixturevalue("control_plane"))
