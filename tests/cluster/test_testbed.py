"""The testbed keeps its promises: a real control plane, nodes that behave, and nothing left behind."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from testbed import Unavailable, build, cache, kubectl, pods, pypi, toolchain
from testbed.client import Client
from testbed.control_plane import ADMIN, CommandFailed, ControlPlane, NotReady
from testbed.hollow import Background, OnPod, in_background, run_everything
from testbed.nodes import HollowNode
from testbed.pods import COMPLETED, CRASHING, FAILED, NO_IMAGE, RUNNING, UNREADY, Container, PodOutcome

pytestmark = pytest.mark.cluster

WITHIN_S = 90.0
RESOURCE = "example.com/chip"
NODES = ("hollow-1", "hollow-2", "hollow-3")
ROOT = Path(__file__).parents[2]


def eventually(check: Callable[[], Any], *, within_s: float = WITHIN_S) -> Any:
    """What the check returns once it is true; fails with what it returned last."""
    deadline = time.monotonic() + within_s
    while not (found := check()):
        assert time.monotonic() < deadline, f"still {found!r} after {within_s} s"
        time.sleep(0.1)
    return found


def daemon_set(namespace: str) -> str:
    """Two containers on every node, unless a node is not schedulable for them."""
    labels = {"app": "everywhere"}
    containers = [{"name": name, "image": "example.com/nothing:1"} for name in ("first", "second")]
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    }
    metadata = {"name": "everywhere", "namespace": namespace}
    return json.dumps({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec})


class Cluster:
    """The control plane with hollow nodes, and questions to them."""

    def __init__(self, plane: ControlPlane, namespace: str, hollow: Background) -> None:
        self.hollow = hollow
        self._plane = plane
        self._namespace = namespace

    def run_daemon_set(self) -> None:
        self._plane.kubectl("apply", "-f", "-", input=daemon_set(self._namespace))

    def ready(self) -> int:
        found = self._get("daemonset", "everywhere")["status"]
        return int(found.get("numberReady", 0))

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get("pods")["items"]
        return found

    def node(self, name: str) -> dict[str, Any]:
        return self._get("node", name)

    def taints(self, name: str) -> set[str]:
        return {taint["key"] for taint in self.node(name)["spec"].get("taints", ())}

    def kubectl(self, *arguments: str) -> str:
        return self._plane.kubectl("-n", self._namespace, *arguments)

    def _get(self, *what: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", *what, "-o", "json"))
        return found


@pytest.fixture
def with_nodes(control_plane: ControlPlane, namespace: str) -> Callable[..., Any]:
    """Three hollow nodes for as long as the `with` block; the hook decides what pods on them do."""

    @contextmanager
    def nodes(on_pod: OnPod = run_everything) -> Iterator[Cluster]:
        with in_background(control_plane.client, on_pod=on_pod) as hollow:
            hollow.call(hollow.nodes.add(*(HollowNode(name=name) for name in NODES)))
            try:
                yield Cluster(control_plane, namespace, hollow)
            finally:
                hollow.call(hollow.nodes.remove(*NODES))

    return nodes


# -- the control plane


def test_the_api_server_is_the_version_that_go_mod_names(control_plane: ControlPlane):
    version = json.loads(control_plane.kubectl("get", "--raw", "/version"))
    assert version["gitVersion"] == build.KUBERNETES
    assert f"k8s.io/kubernetes {build.KUBERNETES}" in (build.HERE / "go.mod").read_text()
    assert f"containerd/v2 {build.CONTAINERD}" in (build.HERE / "containerd" / "go.mod").read_text()


def test_a_service_account_may_do_only_what_it_was_given(control_plane: ControlPlane, namespace: str):
    control_plane.kubectl("create", "serviceaccount", "nobody", "-n", namespace)
    theirs = control_plane.service_account_kubeconfig(namespace, "nobody")
    with pytest.raises(CommandFailed, match="cannot list resource"):
        control_plane.kubectl("get", "nodes", kubeconfig=theirs)
    control_plane.kubectl("create", "role", "reader", "-n", namespace, "--verb=list", "--resource=pods")
    control_plane.kubectl(
        "create", "rolebinding", "reader", "-n", namespace, "--role=reader", f"--serviceaccount={namespace}:nobody"
    )
    eventually(lambda: may_list_pods(control_plane, namespace, theirs))


def may_list_pods(control_plane: ControlPlane, namespace: str, kubeconfig: Path) -> bool:
    try:
        control_plane.kubectl("get", "pods", "-n", namespace, kubeconfig=kubeconfig)
    except CommandFailed:
        return False
    return True


def test_the_audit_log_tells_who_asked_for_what(control_plane: ControlPlane, namespace: str):
    control_plane.kubectl("create", "serviceaccount", "curious", "-n", namespace)
    theirs = control_plane.service_account_kubeconfig(namespace, "curious")
    before = control_plane.audit_log.position()
    for _ in range(3):
        with pytest.raises(CommandFailed):
            control_plane.kubectl("get", "nodes/a7", kubeconfig=theirs)
    user = f"system:serviceaccount:{namespace}:curious"
    events = [event for event in control_plane.audit(user, since=before) if event.resource]
    assert [(event.verb, event.resource, event.name, event.code) for event in events] == [
        ("get", "nodes", "a7", 403)
    ] * 3
    assert control_plane.audit_log.requests(user, since=before)["get", "nodes"] == 3


def test_a_watch_counts_once_in_the_audit_log(control_plane: ControlPlane):
    before = control_plane.audit_log.position()
    control_plane.kubectl("get", "--raw", "/api/v1/nodes?watch=1&timeoutSeconds=1")
    assert control_plane.audit_log.requests(ADMIN, since=before)["watch", "nodes"] == 1


# -- nodes and pods


def test_a_daemon_set_becomes_ready_on_three_hollow_nodes(with_nodes: Callable[..., Any]):
    with with_nodes() as cluster:
        cluster.run_daemon_set()
        eventually(lambda: cluster.ready() == 3)
        assert sorted(pod["spec"]["nodeName"] for pod in cluster.pods()) == list(NODES)


def test_a_test_decides_which_container_fails(with_nodes: Callable[..., Any]):
    def on_pod(pod: dict[str, Any]) -> PodOutcome:
        is_sick = pod["spec"]["nodeName"] == "hollow-2"
        return PodOutcome(containers={"second": NO_IMAGE} if is_sick else {})

    with with_nodes(on_pod) as cluster:
        cluster.run_daemon_set()
        eventually(lambda: cluster.ready() == 2)
        shown = cluster.kubectl("get", "pods", "-o", "wide")
        (line,) = (line for line in shown.splitlines() if "hollow-2" in line)
        assert line.split()[1:3] == ["1/2", "ImagePullBackOff"]


def test_a_test_may_change_its_mind_about_running_pods(with_nodes: Callable[..., Any]):
    mood = {"every": RUNNING}
    with with_nodes(lambda _pod: PodOutcome(every=mood["every"])) as cluster:
        cluster.run_daemon_set()
        eventually(lambda: cluster.ready() == 3)
        mood["every"] = UNREADY
        cluster.hollow.reconsider()
        eventually(lambda: cluster.ready() == 0)


def test_a_hook_writes_for_the_program_in_the_pod(with_nodes: Callable[..., Any]):
    async def label_node(client: Client, pod: dict[str, Any]) -> None:
        path = f"/api/v1/nodes/{pod['spec']['nodeName']}"
        await client.merge(path, {"metadata": {"labels": {"example.com/seen": "yes"}}})

    with with_nodes(lambda _pod: PodOutcome(then=label_node)) as cluster:
        cluster.run_daemon_set()
        eventually(lambda: all("example.com/seen" in cluster.node(name)["metadata"]["labels"] for name in NODES))


def test_chips_are_allocatable_as_long_as_the_plugins_pod_is_there(with_nodes: Callable[..., Any]):
    def chips(cluster: Cluster, where: str) -> list[str]:
        return [cluster.node(name)["status"][where].get(RESOURCE) for name in NODES]

    with with_nodes(lambda _pod: PodOutcome(node_resources={RESOURCE: 8})) as cluster:
        cluster.run_daemon_set()
        eventually(lambda: chips(cluster, "allocatable") == ["8", "8", "8"])
        cluster.kubectl("delete", "daemonset", "everywhere")
        eventually(lambda: chips(cluster, "allocatable") == ["0", "0", "0"])
        assert chips(cluster, "capacity") == ["8", "8", "8"]
        assert eventually(lambda: not cluster.pods())


def test_a_rebooted_node_has_a_new_boot_id_and_its_pods_start_again(with_nodes: Callable[..., Any]):
    with with_nodes() as cluster:
        cluster.run_daemon_set()
        eventually(lambda: cluster.ready() == 3)
        before = cluster.node("hollow-1")["status"]["nodeInfo"]["bootID"]
        cluster.hollow.call(cluster.hollow.nodes.reboot("hollow-1"))
        assert cluster.node("hollow-1")["status"]["nodeInfo"]["bootID"] != before

        def restarts() -> dict[str, int]:
            return {
                pod["spec"]["nodeName"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in cluster.pods()
            }

        eventually(lambda: restarts() == {"hollow-1": 1, "hollow-2": 0, "hollow-3": 0})
        eventually(lambda: cluster.ready() == 3)


def test_a_silent_node_is_tainted_until_it_speaks_again(with_nodes: Callable[..., Any]):
    with with_nodes() as cluster:
        cluster.hollow.call(cluster.hollow.nodes.set_ready("hollow-1", "Unknown"))
        eventually(lambda: "node.kubernetes.io/unreachable" in cluster.taints("hollow-1"))
        cluster.hollow.call(cluster.hollow.nodes.set_ready("hollow-1"))
        eventually(lambda: not cluster.taints("hollow-1"))


def test_an_error_in_a_hook_fails_the_test(control_plane: ControlPlane, namespace: str):
    asked = threading.Event()

    def on_pod(_pod: dict[str, Any]) -> PodOutcome:
        asked.set()
        raise ZeroDivisionError

    def story() -> None:
        with in_background(control_plane.client, on_pod=on_pod) as hollow:
            hollow.call(hollow.nodes.add(HollowNode(name="hollow-bad")))
            control_plane.kubectl("apply", "-f", "-", input=daemon_set(namespace))
            assert asked.wait(WITHIN_S)

    try:
        with pytest.raises(ExceptionGroup) as failure:
            story()
        assert failure.group_contains(ZeroDivisionError)
    finally:
        control_plane.kubectl("delete", "node", "hollow-bad", "--ignore-not-found")


def test_a_realistic_node_weighs_as_much_as_a_real_one(control_plane: ControlPlane):
    with in_background(control_plane.client) as hollow:
        hollow.call(hollow.nodes.add(HollowNode(name="hollow-real", realistic=True)))
        node = json.loads(control_plane.kubectl("get", "--raw", "/api/v1/nodes/hollow-real"))
        hollow.call(hollow.nodes.remove("hollow-real"))
    assert len(node["metadata"]["labels"]) == 60
    assert len(node["status"]["images"]) == 20
    assert len(node["status"]["conditions"]) == 5
    assert 12 <= len(json.dumps(node, separators=(",", ":"))) / 1024 <= 16


ONE = {"containers": [{"name": "a", "image": "i"}]}
PHASES = {
    "running": (ONE, RUNNING, "Running", True),
    "unready": (ONE, UNREADY, "Running", False),
    "no image": (ONE, NO_IMAGE, "Pending", False),
    "crashing": (ONE, CRASHING, "Running", False),
    "job done": (ONE | {"restartPolicy": "Never"}, COMPLETED, "Succeeded", False),
    "job failed": (ONE | {"restartPolicy": "Never"}, FAILED, "Failed", False),
    "job to be tried again": (ONE | {"restartPolicy": "OnFailure"}, FAILED, "Running", False),
    "ended but to be restarted": (ONE, COMPLETED, "Running", False),
    "gate closed": (ONE | {"readinessGates": [{"conditionType": "example.com/open"}]}, RUNNING, "Running", False),
}


@pytest.mark.parametrize(("spec", "every", "phase", "ready"), PHASES.values(), ids=PHASES)
def test_a_pods_phase_follows_from_its_containers(spec: dict[str, Any], every: Container, phase: str, ready: bool):
    pod = {"metadata": {}, "spec": spec}
    status = pods.status(pod, PodOutcome(every=every), pods.Place("10.0.0.1", "10.0.0.2", "2026-01-01T00:00:00Z"))
    assert (status["phase"], pods.is_ready(status)) == (phase, ready)


@pytest.mark.parametrize(("init", "phase"), [(RUNNING, "Pending"), (COMPLETED, "Running"), (FAILED, "Pending")])
def test_containers_wait_for_the_ones_before_them(init: Container, phase: str):
    pod = {"metadata": {}, "spec": ONE | {"initContainers": [{"name": "before", "image": "i"}]}}
    outcome = PodOutcome(containers={"before": init})
    status = pods.status(pod, outcome, pods.Place("10.0.0.1", "10.0.0.2", "2026-01-01T00:00:00Z"))
    assert status["phase"] == phase
    assert ("waiting" in status["containerStatuses"][0]["state"]) == (phase == "Pending")


# -- bad days and the end


@pytest.fixture(scope="module")
def lonely(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """An API server without controllers, to be ill-treated."""
    with ControlPlane(controllers=False, scheduler=False, audit_log=False) as plane:
        yield plane


def test_a_restarted_api_server_is_where_it_was_and_forgot_nothing(lonely: ControlPlane):
    lonely.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    lonely.stop_apiserver()
    with pytest.raises(CommandFailed, match="refused"):
        lonely.kubectl("get", "configmap", "kept")
    lonely.start_apiserver()
    assert lonely.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"


def test_a_paused_api_server_answers_nobody_until_it_goes_on(lonely: ControlPlane):
    ask = httpx2.Client(base_url=lonely.api_url, verify=False, timeout=1.0, trust_env=False)
    with ask:
        lonely.pause_apiserver()
        with pytest.raises(httpx2.TimeoutException):
            ask.get("/readyz")
        lonely.resume_apiserver()
        assert ask.get("/readyz", timeout=WITHIN_S).text == "ok"


def test_an_expired_certificate_is_refused_by_clients(lonely: ControlPlane):
    lonely.replace_certificate(valid_days=-1)
    with pytest.raises(CommandFailed, match="certificate has expired"):
        lonely.kubectl("get", "namespaces")
    lonely.replace_certificate(valid_days=1)
    assert "default" in lonely.kubectl("get", "namespaces")


def test_a_part_that_does_not_come_up_shows_its_last_words(control_plane: ControlPlane):
    with pytest.raises(NotReady, match="unknown flag: --no-such-flag"):
        ControlPlane(api_flags=["--no-such-flag"]).start()


def test_nothing_is_left_after_the_end(control_plane: ControlPlane):
    with ControlPlane(audit_log=False) as plane:
        folder, pids = plane.folder, list(plane.pids.values())
        assert len(pids) == 4
    assert not folder.exists()
    assert not [pid for pid in pids if is_alive(pid)]


def test_nothing_is_left_when_the_starter_is_killed(control_plane: ControlPlane):
    program = (
        "import json, time\n"
        "from testbed.control_plane import ControlPlane\n"
        "plane = ControlPlane(controllers=False, scheduler=False, audit_log=False)\n"
        "plane.start()\n"
        "plane.pause_apiserver()\n"  # a stopped program hears only SIGKILL
        "print(json.dumps([str(plane.folder), list(plane.pids.values())]), flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE) as starter:
        assert starter.stdout
        folder, pids = json.loads(starter.stdout.readline())
        assert all(is_alive(pid) for pid in pids)
        starter.send_signal(signal.SIGKILL)
    eventually(lambda: not [pid for pid in pids if is_alive(pid)])
    eventually(lambda: not Path(folder).exists())


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# -- where the programs come from


def test_kubectl_and_helm_come_from_the_package_where_the_machine_has_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kubectl.shutil, "which", {"uv": kubectl.shutil.which("uv")}.get)
    try:
        found = kubectl.kubectl()
    except Unavailable as why:
        pytest.skip(str(why))
    assert kubectl.fits(kubectl.version_of(found))
    said = subprocess.run([kubectl.helm(), "version", "--short"], capture_output=True, text=True, check=True).stdout
    assert re.match(r"v[34]\.\d+", said)


@pytest.mark.parametrize(
    ("version", "is_taken"),
    [
        ("v1.34.4", True),
        ("v1.35.0", True),
        ("v1.33.1+k3s1", True),
        ("v1.32.4", False),
        ("v1.34.4-dispatcher", False),
        ("", False),
    ],
)
def test_only_a_kubectl_that_fits_the_server_is_taken(version: str, is_taken: bool):
    assert kubectl.fits(version) is is_taken


def test_a_machine_without_go_or_its_package_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def no_network(_name: str, _into: Path) -> None:
        raise Unavailable("the network is away")

    monkeypatch.setenv("NPU_TESTBED_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "USUAL_PLACE", str(tmp_path / "go"))
    monkeypatch.setattr(pypi, "install", no_network)
    with pytest.raises(Unavailable, match=r"Go 1.26.0 or later is needed, none is installed, and the network is away"):
        toolchain.go("1.26.0")
    assert not [path for path in tmp_path.iterdir() if path.is_dir()], "an entry that was not made is kept"


def test_modules_that_cannot_be_fetched_are_a_shortage_and_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("NPU_TESTBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("GOPROXY", "off")
    with pytest.raises(Unavailable, match=r"the Go modules of kubernetes cannot be had: .*GOPROXY=off"):
        build.kubernetes()


def test_go_versions_compare_by_number():
    assert toolchain.number("go1.26.8") > toolchain.number("1.26.0") > toolchain.number("go1.9")
    assert toolchain.number("devel +a1b2c3") < toolchain.number("go1.0")


def test_two_that_want_the_same_entry_make_it_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("NPU_TESTBED_CACHE", str(tmp_path))
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        time.sleep(0.2)
        (folder / "program").write_text("x")

    threads = [threading.Thread(target=cache.entry, args=("thing", "key", make)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert (cache.entry("thing", "key", make) / "program").read_text() == "x"


def test_what_a_killed_build_left_is_removed_by_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("NPU_TESTBED_CACHE", str(tmp_path))
    (tmp_path / ".thing-half.part").mkdir()
    cache.entry("thing", "key", lambda folder: (folder / "program").touch())
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["thing-key"]
