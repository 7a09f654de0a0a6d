"""Services: defaults and rules, as far as a plain ClusterIP service has them."""

import zlib
from collections.abc import Iterator

from npu_operator.sim.server import refusals
from npu_operator.sim.server.objects import Tree
from npu_operator.sim.server.refusals import Cause


def fill(service: Tree) -> Tree:
    """The defaults and an address; addresses are drawn from the name, so that runs repeat."""
    spec = service.get("spec", {})
    ports = [{"protocol": "TCP", "targetPort": port.get("port"), **port} for port in spec.get("ports", [])]
    address = spec.get("clusterIP") or _address(service["metadata"])
    return {
        **service,
        "spec": {
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            **spec,
            "clusterIP": address,
            "clusterIPs": spec.get("clusterIPs", [address]),
            **({"ports": ports} if ports else {}),
        },
    }


def _address(meta: Tree) -> str:
    number = zlib.crc32(f"{meta.get('namespace')}/{meta.get('name')}".encode()) % 65_000 + 10
    return f"10.96.{number // 256}.{number % 256}"


def check(new: Tree, old: Tree | None) -> Iterator[Cause]:
    """Names and numbers of the ports; the address stays."""
    spec = new.get("spec", {})
    ports = spec.get("ports", [])
    seen = set()
    if not ports and spec.get("clusterIP") != "None":
        yield refusals.required("spec.ports")
    for index, port in enumerate(ports):
        where = f"spec.ports[{index}]"
        if len(ports) > 1 and not port.get("name"):
            yield refusals.required(f"{where}.name")
        if not 0 < port.get("port", 0) < 65536:
            yield refusals.wrong(f"{where}.port", port.get("port", 0), "must be between 1 and 65535, inclusive")
        if (port.get("port"), port.get("protocol")) in seen:
            yield refusals.duplicate(where, port)
        seen.add((port.get("port"), port.get("protocol")))
    if old is not None and spec.get("clusterIP") != old.get("spec", {}).get("clusterIP"):
        yield refusals.wrong("spec.clusterIPs[0]", [spec.get("clusterIP")], "may not change once set")
