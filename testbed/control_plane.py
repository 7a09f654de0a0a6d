"""A real Kubernetes control plane on loopback: etcd, kube-apiserver, controller manager and scheduler.

    with ControlPlane() as cluster:
        cluster.kubectl("get", "namespaces")

Each one lives in a temporary folder with its own certificates and ports, so several can run side by side. It ends with
the `with` block, or with the process, even a killed one. Ready after about 5 s, with about 500 MB.

Nodes: the node lifecycle controller runs (it sets the taints that follow from a node's conditions), but with a grace
period of a day, because nodes without a kubelet would have to renew one lease each every 10 s: 500 writes a second for
5,000 nodes, more than all that is under test. A node that falls silent has to be marked so (`HollowNodes.set_ready`).
Give `--node-monitor-grace-period=50s` in `controller_flags` to have it as in production.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2

from testbed import build, certificates, kubectl
from testbed.audit import POLICY, AuditLog, Event
from testbed.client import Client
from testbed.processes import Household, Port, Process

ADMIN = "admin"
HOLLOW = "hollow-nodes"  # who hollow nodes act as: almighty too, but told apart in the audit log
_MANAGER = "system:kube-controller-manager"
_SCHEDULER = "system:kube-scheduler"
USERS: Mapping[str, str] = {ADMIN: "system:masters", HOLLOW: "system:masters", _MANAGER: "", _SCHEDULER: ""}

READY_LIMIT_S = 180.0  # 5 s are usual; a machine busy with builds has needed ten times that
KUBECTL_LIMIT_S = 120.0
_FIRST_NAMESPACES = ("default", "kube-system", "kube-node-lease")  # made by the API server after it says ready


class NotReady(Exception):
    """A part did not come up; the text has the end of its log."""


class CommandFailed(Exception):
    """kubectl ended with an error; the text is the command and what it printed."""


class ControlPlane:
    """One control plane; a context manager, or `start` and `stop`.

    `controllers` and `scheduler` switch those parts on; without them the API server stands alone.
    `service_account_admission` is the admission plug-in that refuses pods whose ServiceAccount is missing.
    `audit_log` records every request. The `…_flags` are added to the parts' own and win over them.
    Raises `Unavailable` if this machine cannot have the programs.
    """

    def __init__(
        self,
        *,
        controllers: bool = True,
        scheduler: bool = True,
        service_account_admission: bool = True,
        audit_log: bool = True,
        api_flags: Sequence[str] = (),
        controller_flags: Sequence[str] = (),
    ) -> None:
        self._program = build.kubernetes()
        self._kubectl = kubectl.kubectl()
        self._has_controllers = controllers
        self._has_scheduler = scheduler
        self._service_account_admission = service_account_admission
        self._has_audit_log = audit_log
        self._api_flags = api_flags
        self._controller_flags = controller_flags
        self._tokens = {user: secrets.token_hex(16) for user in USERS}
        self._ports: list[Port] = []
        self._household: Household | None = None
        self._processes: dict[str, Process] = {}

    def __enter__(self) -> ControlPlane:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- life

    def start(self) -> None:
        """Start all parts and wait until they answer. Raises `NotReady`, with nothing left behind, if one does not."""
        self._household = Household()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all parts and remove the folder. May be called again."""
        if self._household:
            self._household.close()
            self._household = None
        self._processes.clear()
        for port in self._ports:
            port.close()
        self._ports.clear()

    def stop_apiserver(self) -> None:
        """End the API server in good order; connections to it are refused from now on."""
        self._processes["kube-apiserver"].stop()

    def start_apiserver(self) -> None:
        """Start it again, at the same address with the same data, and wait until it answers."""
        self._processes["kube-apiserver"].start()
        self._wait_for_apiserver()

    def restart_apiserver(self) -> None:
        """Stop and start the API server."""
        self.stop_apiserver()
        self.start_apiserver()

    def pause_apiserver(self) -> None:
        """Let the API server hold still: connections are accepted by the kernel and nobody answers."""
        self._processes["kube-apiserver"].pause()

    def resume_apiserver(self) -> None:
        """Let it go on after `pause_apiserver`."""
        self._processes["kube-apiserver"].resume()

    def replace_certificate(self, *, valid_days: int) -> None:
        """Give the API server another certificate from the same authority and restart it; negative days: expired.

        While the certificate is expired, nothing here that checks certificates works, waiting for readiness excepted.
        """
        certificates.server(self.folder, valid_days=valid_days)
        self.restart_apiserver()

    # -- use

    @property
    def folder(self) -> Path:
        """The temporary folder with everything of this control plane in it."""
        assert self._household, "the control plane is not running"
        return self._household.folder

    @property
    def api_url(self) -> str:
        """Where the API server is."""
        return f"https://127.0.0.1:{self._api_port.number}"

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that signed the API server's."""
        return self.folder / "ca.crt"

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the parts that run, by name."""
        return {name: process.pid for name, process in self._processes.items() if process.is_running()}

    def token(self, user: str = ADMIN) -> str:
        """The bearer token of one of `USERS`."""
        return self._tokens[user]

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """A kubeconfig file for one of `USERS`; by default for the admin, who may do everything."""
        return self._write_kubeconfig(user, self._tokens[user])

    def service_account_kubeconfig(self, namespace: str, name: str, *, valid_s: int = 3600) -> Path:
        """A kubeconfig file with a fresh token of a ServiceAccount, valid for `valid_s` seconds (at least 600)."""
        token = self.service_account_token(namespace, name, valid_s=valid_s)
        return self._write_kubeconfig(f"{namespace}-{name}", token)

    def service_account_token(self, namespace: str, name: str, *, valid_s: int = 3600) -> str:
        """A fresh token of a ServiceAccount, as its pods would get one."""
        made = self.kubectl("create", "token", name, "--namespace", namespace, f"--duration={valid_s}s")
        return made.strip()

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002 - as subprocess.run calls it
        kubeconfig: Path | None = None,
        timeout_s: float = KUBECTL_LIMIT_S,
    ) -> str:
        """Run kubectl, as the admin unless another kubeconfig is given, and return what it prints.

        Raises `CommandFailed` if it ends with an error. Each call costs 0.1–0.2 s of CPU.
        """
        done = subprocess.run(
            [self._kubectl, "--kubeconfig", str(kubeconfig or self.kubeconfig()), *arguments],
            input=input, capture_output=True, text=True, timeout=timeout_s, check=False,
            env={**os.environ, "KUBECACHEDIR": str(self.folder / "kubectl-cache")},
        )  # fmt: skip
        if done.returncode != 0:
            raise CommandFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def client(self, user: str = HOLLOW) -> Client:
        """An asynchronous client, by default the one that hollow nodes use. Whoever gets it closes it."""
        return Client(self.api_url, self._tokens[user], self.ca_file)

    def audit(self, user: str | None = None, *, since: int = 0) -> Iterator[Event]:
        """The requests that were answered, oldest first; `since` is an earlier `audit_log.position()`."""
        return self.audit_log.events(user, since=since)

    @property
    def audit_log(self) -> AuditLog:
        """Who asked for what. A ServiceAccount's user is `system:serviceaccount:<namespace>:<name>`."""
        assert self._has_audit_log, "this control plane was made without an audit log"
        return AuditLog(self.folder / "audit.log")

    def last_words(self) -> str:
        """The end of every part's log, for a failed test."""
        return "\n".join(f"--- {name}\n{process.last_words()}" for name, process in self._processes.items())

    # -- how it is put together

    def _start(self) -> None:
        assert self._household
        self._ports = [Port() for _ in range(5)]
        etcd, peer, self._api_port, manager, scheduler = self._ports
        self._prepare_files()
        self._launch("etcd", self._etcd_flags(etcd.number, peer.number))
        self._launch("kube-apiserver", self._apiserver_flags(etcd.number))
        self._wait_for_apiserver()
        if self._has_controllers:
            self._launch("kube-controller-manager", self._manager_flags(manager.number))
        if self._has_scheduler:
            self._launch("kube-scheduler", self._serving_flags(_SCHEDULER, scheduler.number))
        if self._has_controllers:
            self._wait_for("kube-controller-manager", f"https://127.0.0.1:{manager.number}/healthz")
        if self._has_scheduler:
            self._wait_for("kube-scheduler", f"https://127.0.0.1:{scheduler.number}/readyz")

    def _launch(self, name: str, flags: Sequence[str]) -> None:
        assert self._household
        self._processes[name] = self._household.process(name, [str(self._program), name, *flags])
        self._processes[name].start()

    def _prepare_files(self) -> None:
        certificates.authority(self.folder)
        certificates.server(self.folder)
        certificates.public_key(certificates.key(self.folder / "accounts.key"), self.folder / "accounts.pub")
        rows = [f'{self._tokens[user]},{user},{user},"{group}"\n' for user, group in USERS.items()]
        (self.folder / "tokens.csv").write_text("".join(rows))
        (self.folder / "audit-policy.json").write_text(json.dumps(POLICY))

    @staticmethod
    def _etcd_flags(port: int, peer_port: int) -> list[str]:
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
        return [
            "--name=testbed", "--data-dir=etcd", "--unsafe-no-fsync", "--socket-reuse-port", "--log-level=warn",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=testbed={peer}",
        ]  # fmt: skip

    def _apiserver_flags(self, etcd_port: int) -> list[str]:
        flags = [
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            "--bind-address=127.0.0.1", f"--secure-port={self._api_port.number}", "--permit-port-sharing",
            # Endpoints may not be on loopback, so the Service `kubernetes` gets an address kept for documentation.
            "--advertise-address=192.0.2.1",
            "--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--cert-dir=.",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            "--token-auth-file=tokens.csv", "--client-ca-file=ca.crt",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=accounts.pub", "--service-account-signing-key-file=accounts.key",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Without it open watches keep the server from ending for up to a minute.
            "--shutdown-watch-termination-grace-period=1s",
        ]  # fmt: skip
        if self._has_audit_log:
            # The size in MiB after which a new file is begun: never, so that positions in it stay good.
            flags += [
                "--audit-policy-file=audit-policy.json", "--audit-log-path=audit.log", "--audit-log-maxsize=1000000",
            ]  # fmt: skip
        if not self._service_account_admission:
            flags.append("--disable-admission-plugins=ServiceAccount")
        return [*flags, *self._api_flags]

    def _manager_flags(self, port: int) -> list[str]:
        return [
            *self._serving_flags(_MANAGER, port),
            "--controllers=*,-node-ipam-controller,-cloud-node-lifecycle-controller",
            "--use-service-account-credentials",
            "--service-account-private-key-file=accounts.key", "--root-ca-file=ca.crt",
            "--node-monitor-grace-period=24h", "--node-startup-grace-period=24h",
            # The usual 20 a second would let 5,000 nodes wait 4 minutes for whatever is written to each.
            "--kube-api-qps=500", "--kube-api-burst=1000",
            *self._controller_flags,
        ]  # fmt: skip

    def _serving_flags(self, user: str, port: int) -> list[str]:
        config = self.kubeconfig(user)
        return [
            f"--kubeconfig={config}", f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1", f"--secure-port={port}", "--permit-port-sharing", "--leader-elect=false",
        ]  # fmt: skip

    def _write_kubeconfig(self, name: str, token: str) -> Path:
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "testbed", "cluster": {"server": self.api_url, "certificate-authority": str(self.ca_file)}}
            ],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": name}}],
            "current-context": "testbed",
        }
        path = self.folder / f"{name.replace(':', '-')}.kubeconfig"
        path.write_text(json.dumps(content))  # JSON is YAML too
        path.chmod(0o600)
        return path

    # -- waiting

    def _wait_for_apiserver(self) -> None:
        self._wait_for("kube-apiserver", f"{self.api_url}/readyz")
        headers = {"Authorization": f"Bearer {self.token()}"}
        for namespace in _FIRST_NAMESPACES:
            self._wait_for("kube-apiserver", f"{self.api_url}/api/v1/namespaces/{namespace}", headers)

    def _wait_for(self, name: str, url: str, headers: Mapping[str, str] | None = None) -> None:
        process = self._processes[name]
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        with httpx2.Client(verify=unchecked, timeout=5.0, trust_env=False) as client:
            answers = self._answers(client, url, headers)
            deadline = time.monotonic() + READY_LIMIT_S
            while not answers():
                if not process.is_running():
                    raise NotReady(f"{name} ended by itself\n{process.last_words()}")
                if time.monotonic() > deadline:
                    raise NotReady(f"{name} did not answer {url} within {READY_LIMIT_S} s\n{process.last_words()}")
                time.sleep(0.05)

    @staticmethod
    def _answers(client: httpx2.Client, url: str, headers: Mapping[str, str] | None) -> Callable[[], bool]:
        def ask() -> bool:
            try:
                return bool(client.get(url, headers=headers).status_code == httpx2.codes.OK)
            except httpx2.TransportError:
                return False

        return ask
