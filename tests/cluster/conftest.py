"""What tests on a real control plane share: one control plane for the session, a namespace for each test."""

import time
import uuid
from collections.abc import Generator, Iterator

import pytest

from testbed import Unavailable
from testbed.control_plane import CommandFailed, ControlPlane

ACCOUNT_LIMIT_S = 60.0


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A whole control plane. A machine that cannot have one skips the test and says why."""
    try:
        cluster = ControlPlane()
    except Unavailable as why:
        pytest.skip(f"no control plane: {why}")
    with cluster:
        yield cluster


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a fresh namespace in which pods can be made; it goes after the test, in its own time."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    control_plane.kubectl("create", "namespace", name)
    deadline = time.monotonic() + ACCOUNT_LIMIT_S
    while not _has_account(control_plane, name):
        assert time.monotonic() < deadline, f"namespace {name} got no ServiceAccount"
        time.sleep(0.05)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of the control plane's logs with a failed test that used it."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("control_plane")
    if report.failed and isinstance(cluster, ControlPlane):
        report.sections.append(("control plane", cluster.last_words()))
    return report


def _has_account(cluster: ControlPlane, namespace: str) -> bool:
    try:
        return bool(cluster.kubectl("get", "serviceaccount", "default", "-n", namespace))
    except CommandFailed:
        return False
