"""The discovery agent as its own process, against a real API server."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npu_operator.components import environment
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
WITHIN_S = 60.0


def test_the_discovery_agent_creates_its_npunode_and_ends_on_sigterm(control_plane: ControlPlane, tmp_path: Path):
    control_plane.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "crds"))
    function = tmp_path / "sys/bus/pci/devices/0000:c1:00.0"
    function.mkdir(parents=True)
    for name, text in {"vendor": "0x19e5", "device": "0xd802", "class": "0x120000"}.items():
        (function / name).write_text(text)
    settings = {
        "KUBECONFIG": str(control_plane.kubeconfig()),
        environment.NODE_NAME: "found-1",
        environment.HOST_ROOT: str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
    }
    command = [sys.executable, "-m", "npu_operator.cli.entry", "agent", "discovery"]
    with subprocess.Popen(command, env=os.environ | settings, stderr=subprocess.PIPE, text=True) as agent:
        try:
            end = time.monotonic() + WITHIN_S
            while "found-1" not in control_plane.kubectl("get", "npunodes", "-o", "name"):
                assert time.monotonic() < end, "no NPUNode was made"
                assert agent.poll() is None, agent.stderr.read() if agent.stderr else ""
                time.sleep(0.2)
        finally:
            agent.send_signal(signal.SIGTERM)
            control_plane.kubectl("delete", "npunode", "found-1", "--ignore-not-found")
        assert agent.wait(30) == 0
