"""Pod specs: the defaults the server fills in and the mistakes it finds, in pods and in pod templates alike.

Source: kubernetes `pkg/apis/core/v1/defaults.go` and `pkg/apis/core/validation` (1.34), as far as our components and
workloads use the fields; the contract tests compare whole objects.
"""

from collections.abc import Iterator
from typing import Any, Final

from npu_operator.sim.server import names, refusals
from npu_operator.sim.server.refusals import Cause

Tree = dict[str, Any]

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
FILE_MODE: Final = 0o644
PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
HANDLERS: Final = ("exec", "grpc", "httpGet", "tcpSocket")


def filled(spec: Tree) -> Tree:
    """`spec` with the defaults of a pod spec."""
    out = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **spec,
    }
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")  # the old name still counts when left alone
    if account:
        out |= {"serviceAccountName": account, "serviceAccount": account}
    for key in ("containers", "initContainers"):
        if key in spec:
            out[key] = [_container(each) for each in spec[key]]
    if "volumes" in spec:
        out["volumes"] = [_volume(each) for each in spec["volumes"]]
    return out


def _container(container: Tree) -> Tree:
    image = container.get("image", "")
    out = {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if _tag(image) in ("", "latest") else "IfNotPresent",
        "resources": {},
        **container,
    }
    if "env" in container:
        out["env"] = [_variable(each) for each in container["env"]]
    for key in PROBES:
        if key in container:
            out[key] = _probe(container[key])
    return out


def _tag(image: str) -> str:
    """The tag of an image reference; a digest counts as one."""
    last = image.rsplit("/", 1)[-1]
    return last.partition("@" if "@" in last else ":")[2]


def _variable(variable: Tree) -> Tree:
    source = variable.get("valueFrom", {})
    if "fieldRef" not in source:
        return variable
    return {**variable, "valueFrom": {**source, "fieldRef": {"apiVersion": "v1", **source["fieldRef"]}}}


def _probe(probe: Tree) -> Tree:
    out = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3, **probe}
    if "httpGet" in probe:
        out["httpGet"] = {"path": "/", "scheme": "HTTP", **probe["httpGet"]}
    if "grpc" in probe:
        out["grpc"] = {"service": "", **probe["grpc"]}
    return out


def _volume(volume: Tree) -> Tree:
    out = dict(volume)
    if "hostPath" in volume:
        out["hostPath"] = {"type": "", **volume["hostPath"]}
    for key in ("configMap", "secret", "projected", "downwardAPI"):
        if key in volume:
            out[key] = {"defaultMode": FILE_MODE, **volume[key]}
    if "projected" in volume and "sources" in volume["projected"]:
        out["projected"] = {**out["projected"], "sources": [_source(each) for each in volume["projected"]["sources"]]}
    if len(volume) == 1:
        out["emptyDir"] = {}
    return out


def _source(source: Tree) -> Tree:
    if "serviceAccountToken" not in source:
        return source
    return {**source, "serviceAccountToken": {"expirationSeconds": 3600, **source["serviceAccountToken"]}}


def complaints(spec: Tree, path: str) -> Iterator[Cause]:
    """What is wrong with a pod spec, beyond what its types say."""
    volumes = [volume.get("name", "") for volume in spec.get("volumes", [])]
    for index, name in enumerate(volumes):
        yield from _unique_label(name, volumes[:index], f"{path}.volumes[{index}].name")
    if not spec.get("containers"):
        yield refusals.required(f"{path}.containers")
    taken: list[str] = []
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key, [])):
            where = f"{path}.{key}[{index}]"
            yield from _unique_label(container.get("name", ""), taken, f"{where}.name")
            taken.append(container.get("name", ""))
            yield from _in_container(container, volumes, where)
    for key in ("nodeSelector",):
        yield from names.labels(spec.get(key, {}), f"{path}.{key}")
    for index, toleration in enumerate(spec.get("tolerations", [])):
        yield from _in_toleration(toleration, f"{path}.tolerations[{index}]")


def _unique_label(name: str, taken: list[str], where: str) -> Iterator[Cause]:
    if not name:
        yield refusals.required(where)
    elif name in taken:
        yield refusals.duplicate(where, name)
    else:
        yield from (refusals.wrong(where, name, why) for why in names.label(name))


def _in_container(container: Tree, volumes: list[str], where: str) -> Iterator[Cause]:
    if not container.get("image"):
        yield refusals.required(f"{where}.image")
    yield from _in_ports(container.get("ports", []), f"{where}.ports")
    for index, variable in enumerate(container.get("env", [])):
        if not variable.get("name"):
            yield refusals.required(f"{where}.env[{index}].name")
        if variable.get("value") and variable.get("valueFrom"):
            yield refusals.wrong(
                f"{where}.env[{index}].valueFrom", "", "may not be specified when `value` is not empty"
            )
    mounted: list[str] = []
    for index, mount in enumerate(container.get("volumeMounts", [])):
        if mount.get("name") not in volumes:
            yield refusals.unknown_name(f"{where}.volumeMounts[{index}].name", mount.get("name", ""))
        if mount.get("mountPath") in mounted:
            yield refusals.wrong(f"{where}.volumeMounts[{index}].mountPath", mount.get("mountPath"), "must be unique")
        mounted.append(mount.get("mountPath", ""))
    for key in PROBES:
        if key in container and not any(handler in container[key] for handler in HANDLERS):
            yield refusals.required(f"{where}.{key}", "must specify a handler type")
    if container.get("imagePullPolicy") not in PULL_POLICIES:
        yield refusals.unsupported(f"{where}.imagePullPolicy", container.get("imagePullPolicy"), PULL_POLICIES)
    yield from _in_resources(container.get("resources", {}), f"{where}.resources")


def _in_ports(ports: list[Tree], where: str) -> Iterator[Cause]:
    taken: list[str] = []
    for index, port in enumerate(ports):
        yield from _in_port(port, f"{where}[{index}]")
        if port.get("name") and port["name"] in taken:
            yield refusals.duplicate(f"{where}[{index}].name", port["name"])
        taken.append(port.get("name", ""))


def _in_port(port: Tree, where: str) -> Iterator[Cause]:
    for key in ("containerPort", "hostPort"):
        number = port.get(key, 0)
        if key == "containerPort" and not number:
            yield refusals.required(f"{where}.{key}")
        elif number and not 0 < number < 65536:
            yield refusals.wrong(f"{where}.{key}", number, "must be between 1 and 65535, inclusive")
    name = port.get("name", "")
    if len(name) > 15:
        yield refusals.wrong(f"{where}.name", name, "must be no more than 15 characters")
    if name and any(sign not in "abcdefghijklmnopqrstuvwxyz0123456789-" for sign in name):
        why = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        yield refusals.wrong(f"{where}.name", name, why)
    if name and not any("a" <= sign <= "z" for sign in name):
        yield refusals.wrong(f"{where}.name", name, "must contain at least one letter (a-z)")


def _in_resources(resources: Tree, where: str) -> Iterator[Cause]:
    """Extended resources (`huawei.com/Ascend910`) are whole numbers, and requests equal limits."""
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if is_extended(name) and not amount.removesuffix("k").isdecimal():
                yield refusals.wrong(f"{where}.{kind}[{name}]", amount, "must be an integer")
    for name, amount in requests.items():
        if is_extended(name) and limits.get(name) != amount:
            why = f"must be equal to {name} limit of {limits.get(name, '0')}"
            yield refusals.wrong(f"{where}.requests", amount, why)


def is_extended(name: str) -> bool:
    """A resource that some device plugin hands out."""
    return "/" in name and not name.startswith(("kubernetes.io/", "requests."))


def _in_toleration(toleration: Tree, where: str) -> Iterator[Cause]:
    if toleration.get("operator") == "Exists" and toleration.get("value"):
        why = "value must be empty when `operator` is 'Exists'"
        yield refusals.wrong(f"{where}.operator", "", why)
    if not toleration.get("key") and toleration.get("operator") != "Exists":
        yield refusals.wrong(
            f"{where}.operator",
            toleration.get("operator", ""),
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield refusals.wrong(f"{where}.effect", toleration.get("effect", ""), why)
