"""What the operator costs on a real kube-apiserver, with nodes of realistic size and a stand-in for their agents.

    python -m bench.operator --nodes 1000 --idle 60 --json

The API server stands alone (no controllers, so no pods): everything counted below is the operator's own. It runs as a
process of its own, with its own account and the rights that it ships. The audit log counts its requests. Node labels
name no device, so the chip comes from the agent: two patches per node. Last results: bench/operator.md.
"""

import argparse
import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from npu_operator.kube.clock import seconds_of
from npu_operator.model import names
from testbed.agents import NPU_NODES, Chips, HollowAgents
from testbed.audit import Event
from testbed.client import ApiError, Client, Object
from testbed.control_plane import ControlPlane
from testbed.hollow import Background, in_background
from testbed.nodes import NFD, HollowNode

ROOT = Path(__file__).parents[1]
ACCOUNT = f"system:serviceaccount:{names.NAMESPACE}:{names.OPERATOR_NAME}"
CTL = f"/apis/{names.API_VERSION}/namespaces/{names.NAMESPACE}/{names.CTL_PLURAL}"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
READS = frozenset({"get", "list"})
LIMIT_S = 900.0
QUIET_S = 4.0  # nodes' plans are published 2 s after their last change
JOINING = 20
UNRELATED = 200
REFUSED = 400
TICKS = os.sysconf("SC_CLK_TCK")


class OperatorProcess:
    """The operator under test."""

    def __init__(self, cluster: ControlPlane, log: Path) -> None:
        self._cluster = cluster
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> float:
        """Start, and wait until it leads; returns the seconds that took."""
        kubeconfig = self._cluster.service_account_kubeconfig(names.NAMESPACE, names.OPERATOR_NAME, valid_s=7200)
        self.port = _free_port()
        command = [sys.executable, "-m", "npu_operator.cli.entry", "run", "--kubeconfig", str(kubeconfig)]
        command += ["--namespace", names.NAMESPACE, "--listen", f"127.0.0.1:{self.port}", "--log", "json"]
        begun = time.monotonic()
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log)
        _until("the operator leads", self._leads, every_s=0.02)
        return time.monotonic() - begun

    def stop(self) -> None:
        """A clean stop."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            self.process = None

    def memory_mib(self, what: str) -> float:
        """`VmRSS` now or `VmHWM` at its highest."""
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{what}:"):
                return round(int(line.split()[1]) / 1024, 1)
        raise AssertionError(f"no {what} in the status of a process")

    def cpu_s(self) -> float:
        """Seconds of CPU used so far."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def _leads(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise SystemExit(f"the operator ended with {self.process.returncode}: {self._log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                return bool(answer.read().startswith(b"leading"))
        except OSError:
            return False


class Bench:
    """One run; each method is a chapter of it and fills in its part of the result."""

    def __init__(
        self, cluster: ControlPlane, hollow: Background, agents: HollowAgents, operator: OperatorProcess
    ) -> None:
        self.cluster = cluster
        self.hollow = hollow
        self.agents = agents
        self.operator = operator
        self.result: dict[str, Any] = {}

    def run(self, nodes: int, idle_s: float) -> dict[str, Any]:
        """All chapters in order."""
        self.result = {"nodes": nodes}
        self.hollow.call(self._make_nodes(nodes), timeout_s=LIMIT_S)
        self.operator.start()
        self._settle(nodes)
        self._idle(idle_s)
        self._unrelated()
        self._join()
        self._restart()
        return self.result

    def _settle(self, nodes: int) -> None:
        agents = self.hollow.call(self._start_agents())
        asked = time.monotonic()
        self.hollow.call(self.hollow.nodes.client.create(CTL, _ctl()))
        created, begun = time.time(), time.monotonic()
        self.result["create_s"] = round(begun - asked, 2)
        _until("the plan is in the status", lambda: self._counted() >= nodes, every_s=0.02)
        self.result["plan_s"] = round(time.monotonic() - begun, 2)
        _until("the nodes are labelled", lambda: self._pooled() >= nodes, every_s=0.5)
        calls = self._until_quiet()
        agents.cancel()
        writes = [call for call in calls if call.verb in WRITES]
        pools = names.DRIVER_PREFIX
        sets = [call for call in writes if call.resource == "daemonsets" and not call.name.startswith(pools)]
        labels = [call for call in writes if call.resource == "nodes" and call.code < REFUSED]
        first = {call.name: call for call in reversed(labels)}
        self.result |= {
            "rss_mib": self.operator.memory_mib("VmRSS"),
            "peak_rss_mib": self.operator.memory_mib("VmHWM"),
            "daemonsets_s": _after(created, sets),
            "labelled_s": _after(created, list(first.values())),
            "pooled_s": _after(created, labels),
            "settle_s": _after(created, writes),
            "requests": dict(sorted(Counter(call.verb for call in calls).items())),
            "refused": sum(call.code >= REFUSED for call in writes),
            "writes": len(writes),
            "writes_by_resource": dict(Counter(call.resource for call in writes).most_common()),
        }

    def _idle(self, idle_s: float) -> None:
        before, cpu = self._count(), self.operator.cpu_s()
        time.sleep(idle_s)
        calls = self._since(before)
        self.result |= {
            "idle_s": idle_s,
            "idle_writes": sum(call.verb in WRITES for call in calls),
            "idle_reads": sum(call.verb in READS for call in calls),
            "idle_cpu_s": round(self.operator.cpu_s() - cpu, 2),
        }

    def _unrelated(self) -> None:
        before, cpu = self._count(), self.operator.cpu_s()

        async def touch(client: Client, node: HollowNode) -> None:
            patch = {"metadata": {"labels": {"example.com/touched": str(before)}}}
            await client.merge(f"/api/v1/nodes/{node.name}", patch)

        chosen = sorted(self.hollow.nodes.nodes)[:UNRELATED]
        self.hollow.call(self.hollow.nodes.each(touch, *chosen), timeout_s=LIMIT_S)
        time.sleep(QUIET_S)
        self.result["unrelated_200"] = {
            "requests": len(self._since(before)),
            "cpu_s": round(self.operator.cpu_s() - cpu, 2),
        }

    def _join(self) -> None:
        """New nodes whose label names the device, as NFD can be set up: the operator alone, without agents."""
        before = self._count()
        device = {f"{NFD}/pci-1200_19e5_d802.present": "true"}
        new = [HollowNode(name=f"new-{number:02}", labels=device, realistic=True) for number in range(JOINING)]
        added = time.time()
        self.hollow.call(self.hollow.nodes.add(*new), timeout_s=LIMIT_S)
        _until("the new nodes are labelled", lambda: len(self._patched(before)) >= JOINING, every_s=0.1)
        self._until_quiet()
        calls = [call for call in self._since(before) if call.verb in WRITES]
        self.result["join_20"] = {
            "writes": len(calls),
            "writes_by_resource": dict(Counter(call.resource for call in calls).most_common()),
            "label_s": _after(added, [call for call in calls if call.resource == "nodes"]),
        }

    def _restart(self) -> None:
        self.operator.stop()
        before = self._count()
        ready_s = self.operator.start()
        self._until_quiet()
        self.result |= {
            "restart_writes": sum(call.verb in WRITES for call in self._since(before)),
            "restart_ready_s": round(ready_s, 2),
            "restart_peak_rss_mib": self.operator.memory_mib("VmHWM"),
        }

    async def _make_nodes(self, count: int) -> None:
        labels = {f"{NFD}/pci-1200_19e5.present": "true"}
        fleet = [HollowNode(name=f"n{number:05}", labels=labels, realistic=True) for number in range(count)]
        self.agents.chips |= {node.name: Chips() for node in fleet}
        await self.hollow.nodes.add(*fleet)

    async def _start_agents(self) -> "asyncio.Task[None]":
        return asyncio.create_task(self._agents())

    async def _agents(self) -> None:
        """Fill in each `NPUNode` as soon as the operator has made it."""
        client = self.hollow.nodes.client
        slots = asyncio.Semaphore(8)

        async def settle(name: str) -> None:
            async with slots:
                await self.agents.settle(client, name)

        seen: set[str] = set()
        async with asyncio.TaskGroup() as group:
            found, version = await client.list(NPU_NODES)
            assert not found, "the cluster is new"
            while True:
                try:
                    async for _, npu_node in client.watch(NPU_NODES, version):
                        version = npu_node["metadata"]["resourceVersion"]
                        name = npu_node["metadata"].get("name", "")
                        if name in self.agents.chips and name not in seen:
                            seen.add(name)
                            group.create_task(settle(name))
                except ApiError:
                    await asyncio.sleep(0.1)

    def _counted(self) -> int:
        answer: Object = self.hollow.call(self.hollow.nodes.client.get(f"{CTL}/{names.CTL_SAMPLE}"))
        return int(answer.get("status", {}).get("nodes", {}).get("total", 0))

    def _pooled(self) -> int:
        answer: Object = self.hollow.call(self.hollow.nodes.client.get(f"{CTL}/{names.CTL_SAMPLE}"))
        return sum(pool["nodes"] for pool in answer.get("status", {}).get("pools", []))

    def _patched(self, before: int) -> set[str]:
        return {call.name for call in self._since(before) if call.resource == "nodes" and call.verb == "patch"}

    def _count(self) -> int:
        return sum(1 for _ in self.cluster.audit(ACCOUNT))

    def _since(self, before: int) -> list[Event]:
        calls = list(self.cluster.audit(ACCOUNT))[before:]
        return [call for call in calls if call.resource != "leases"]

    def _until_quiet(self) -> list[Event]:
        """Wait until nothing has been written for a while; all calls so far."""
        seen, since = -1, time.monotonic()
        while True:
            calls = [call for call in self.cluster.audit(ACCOUNT) if call.resource != "leases"]
            writes = sum(call.verb in WRITES for call in calls)
            if writes != seen:
                seen, since = writes, time.monotonic()
            elif time.monotonic() - since > QUIET_S:
                return calls
            time.sleep(0.5)


def _ctl() -> Object:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.CTL_KIND,
        "metadata": {"name": names.CTL_SAMPLE, "namespace": names.NAMESPACE},
        "spec": {},
    }


def _after(begun: float, calls: list[Event]) -> float | None:
    """Seconds from `begun` to the end of the last of the calls; None without any."""
    return round(max(seconds_of(call.at) for call in calls) - begun, 2) if calls else None


def _until(what: str, check: Callable[[], bool], *, every_s: float) -> None:
    end = time.monotonic() + LIMIT_S
    while not check():
        if time.monotonic() > end:
            raise SystemExit(f"gave up after {LIMIT_S:.0f} s: {what}")
        time.sleep(every_s)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def prepared(folder: Path) -> Iterator[Bench]:
    """A control plane with the operator's manifests, and everything that a run needs."""
    with ControlPlane(controllers=False, scheduler=False) as cluster:
        cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "crds"))
        cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "manifests" / "install.yaml"))
        agents = HollowAgents({})
        operator = OperatorProcess(cluster, folder / "operator.log")
        with in_background(cluster.client) as hollow:
            try:
                yield Bench(cluster, hollow, agents, operator)
            finally:
                operator.stop()


def table(result: dict[str, Any]) -> str:
    """The result for people."""
    width = max(len(key) for key in result)
    return "\n".join(f"{key.ljust(width)}  {value}" for key, value in result.items())


def main() -> None:
    """Run; the last line is one JSON object with `--json`."""
    parser = argparse.ArgumentParser(prog="python -m bench.operator", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--idle", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    if options.nodes < 1 or not math.isfinite(options.idle) or options.idle < 0:
        parser.error("--nodes must be at least 1, --idle not negative")
    with tempfile.TemporaryDirectory(prefix="npu-bench-") as folder, prepared(Path(folder)) as bench:
        result = bench.run(options.nodes, options.idle)
    print(table(result))
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
