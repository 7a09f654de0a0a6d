"""Bad days on a real control plane: each cause gives one clear sentence, and when it is gone the operator goes on."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from npu_operator.model import names
from testbed import Unavailable
from testbed.control_plane import CommandFailed, ControlPlane

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
WITHIN_S = 120.0


@pytest.fixture
def cluster() -> Iterator[ControlPlane]:
    """An API server of our own: it is stopped, starved of rights and robbed of definitions here."""
    try:
        plane = ControlPlane(controllers=False, scheduler=False)
    except Unavailable as why:
        pytest.skip(f"no control plane: {why}")
    with plane:
        yield plane


class Process:
    """The operator, with its answers and its log."""

    def __init__(self, kubeconfig: Path, folder: Path, name: str = "operator") -> None:
        self._log = folder / f"{name}.log"
        command = [sys.executable, "-m", "npu_operator.cli.entry", "run", "--kubeconfig", str(kubeconfig)]
        command += ["--namespace", names.NAMESPACE, "--listen", "127.0.0.1:0", "--log", "json"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def readiness(self) -> str:
        started = [json.loads(line) for line in self.log.splitlines() if '"event": "started"' in line]
        if not started:
            return ""
        try:
            with urllib.request.urlopen(f"http://{started[0]['listen']}/readyz", timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def until(self, claim: str, check) -> None:
        end = time.monotonic() + WITHIN_S
        while not check():
            if time.monotonic() > end or self.process.poll() is not None:
                pytest.fail(f"never came true: {claim}\n{self.log[-4000:]}")
            time.sleep(0.2)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def crds(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "crds"))


def sample(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "-f", str(ROOT / "deploy" / "samples" / "npuoperatorctl-sample.yaml"))


def answers(cluster: ControlPlane) -> bool:
    """An API server that slept may refuse the first requests: their deadlines passed meanwhile."""
    try:
        cluster.kubectl("get", "namespaces")
    except CommandFailed:
        return False
    return True


def exporter_is_there(cluster: ControlPlane) -> bool:
    return names.EXPORTER in cluster.kubectl("get", "daemonsets", "-n", names.NAMESPACE, "-o", "name")


def test_missing_definitions_are_named_and_waited_for(cluster: ControlPlane, tmp_path: Path):
    cluster.kubectl("create", "namespace", names.NAMESPACE)
    operator = Process(cluster.kubeconfig(), tmp_path)
    try:
        wanted = (
            "npuoperatorctls.npu-operator.alauda.io: the CustomResourceDefinition is not installed; apply deploy/crds"
        )
        operator.until("it says what is missing", lambda: wanted in operator.readiness)
        crds(cluster)
        operator.until("it goes on", lambda: operator.readiness == "leading\n")
        sample(cluster)
        operator.until("it works", lambda: exporter_is_there(cluster))
    finally:
        assert operator.stop() == 0


def test_missing_rights_are_named_by_verb_and_resource(cluster: ControlPlane, tmp_path: Path):
    crds(cluster)
    cluster.kubectl("create", "namespace", names.NAMESPACE)
    cluster.kubectl("create", "serviceaccount", "poor", "-n", names.NAMESPACE)
    operator = Process(cluster.service_account_kubeconfig(names.NAMESPACE, "poor"), tmp_path)
    try:
        operator.until("it says what it may not do", lambda: "list nodes: " in operator.readiness)
        assert "forbidden" in operator.readiness
        account = f"--serviceaccount={names.NAMESPACE}:poor"
        cluster.kubectl("create", "clusterrolebinding", "rich", "--clusterrole=cluster-admin", account)
        operator.until("it goes on", lambda: operator.readiness == "leading\n")
    finally:
        assert operator.stop() == 0


def test_an_api_server_that_is_away_at_the_start_and_silent_later_is_waited_for(cluster: ControlPlane, tmp_path: Path):
    crds(cluster)
    cluster.kubectl("create", "namespace", names.NAMESPACE)
    cluster.stop_apiserver()
    operator = Process(cluster.kubeconfig(), tmp_path)
    try:
        operator.until("it says that nobody answers", lambda: "no answer" in operator.readiness)
        cluster.start_apiserver()
        operator.until("it goes on", lambda: operator.readiness == "leading\n")
        cluster.pause_apiserver()
        operator.until("it stops acting", lambda: "acting is suspended" in operator.log)
        cluster.resume_apiserver()
        operator.until("it leads again", lambda: operator.log.count('"event": "leading"') == 2)
        operator.until("the server answers kubectl again", lambda: answers(cluster))
        sample(cluster)
        operator.until("it works", lambda: exporter_is_there(cluster))
    finally:
        assert operator.stop() == 0


def test_an_expired_certificate_of_the_server_is_named_and_a_new_one_is_taken(cluster: ControlPlane, tmp_path: Path):
    crds(cluster)
    cluster.kubectl("create", "namespace", names.NAMESPACE)
    operator = Process(cluster.kubeconfig(), tmp_path)
    try:
        operator.until("it leads", lambda: operator.readiness == "leading\n")
        cluster.replace_certificate(valid_days=-1)
        cluster.restart_apiserver()
        operator.until("it says why nobody can be trusted", lambda: "certificate has expired" in operator.readiness)
        cluster.replace_certificate(valid_days=1)
        cluster.restart_apiserver()
        operator.until("it leads again", lambda: operator.readiness == "leading\n")
        sample(cluster)
        operator.until("it works", lambda: exporter_is_there(cluster))
    finally:
        assert operator.stop() == 0


def test_a_second_replica_takes_over_at_once_after_a_clean_stop(cluster: ControlPlane, tmp_path: Path):
    crds(cluster)
    cluster.kubectl("create", "namespace", names.NAMESPACE)
    first, second = Process(cluster.kubeconfig(), tmp_path, "first"), None
    try:
        first.until("the first leads", lambda: first.readiness == "leading\n")
        second = Process(cluster.kubeconfig(), tmp_path, "second")
        second.until("the second stands by", lambda: second.readiness == "standing by\n")
        assert first.stop() == 0
        second.until("the second leads", lambda: second.readiness == "leading\n")
        sample(cluster)
        second.until("it works", lambda: exporter_is_there(cluster))
    finally:
        first.stop()
        if second is not None:
            assert second.stop() == 0


def test_an_older_definition_is_told_in_the_status(cluster: ControlPlane, tmp_path: Path):
    crds(cluster)
    cluster.kubectl("create", "namespace", names.NAMESPACE)
    definition = "crd/npunodes.npu-operator.alauda.io"
    cluster.kubectl("annotate", "--overwrite", definition, f"{names.GROUP}/schema-digest=0123456789ab")
    sample(cluster)
    operator = Process(cluster.kubeconfig(), tmp_path)

    def degraded() -> str:
        path = "{.status.conditions[?(@.type=='Degraded')].message}"
        return cluster.kubectl("get", "npuctl", names.CTL_SAMPLE, "-n", names.NAMESPACE, "-o", f"jsonpath={path}")

    try:
        operator.until("the status tells", lambda: "digest 0123456789ab" in degraded())
        assert "apply deploy/crds" in degraded()
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "deploy" / "crds"))
        operator.until("all is well again", lambda: degraded() == "nothing needs a person")
    finally:
        assert operator.stop() == 0


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"driver": {"version": "25.5 0"}}, "spec.driver.version"),
        ({"driver": {"upgradePolicy": {"maxUnavailable": "300%"}}}, "spec.driver.upgradePolicy.maxUnavailable"),
        ({"driver": {"upgradePolicy": {"maxUnavailable": "0%"}}}, "spec.driver.upgradePolicy.maxUnavailable"),
        ({"mode": "Aply"}, 'supported values: "Apply", "Plan", "Paused"'),
        ({"driver": {"upgradePolicy": {"drain": {}, "drainSpec": {}}}}, "drain"),
    ],
    ids=["version with a space", "300 percent", "0 percent", "unknown mode", "both spellings"],
)
def test_a_wrong_value_is_refused_with_its_place(cluster: ControlPlane, spec: dict, told: str):
    crds(cluster)
    cluster.kubectl("create", "namespace", names.NAMESPACE)
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.CTL_KIND,
        "metadata": {"name": "wrong", "namespace": names.NAMESPACE},
        "spec": spec,
    }
    with pytest.raises(CommandFailed) as refused:
        cluster.kubectl("create", "-f", "-", input=json.dumps(body))
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--kubeconfig", "/nowhere/config"], "/nowhere/config"),
        (["--listen", "everywhere"], "must be HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "must be HOST:PORT"),
    ],
    ids=["no kubeconfig", "no port", "no such port"],
)
def test_a_wrong_command_line_is_one_sentence(arguments: list[str], told: str):
    command = [sys.executable, "-m", "npu_operator.cli.entry", "run", *arguments]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, "KUBECONFIG": "/nowhere"}
    )
    assert ran.returncode == 2
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr
