"""Is what we want contained in what is there? The question behind "zero writes when nothing has changed".

The server fills in defaults, sorts nothing, and rewrites quantities; other people add fields of theirs. None of that is
a difference. A changed or removed value of ours is one, and so is an addition inside something that server-side apply
replaces as a whole. Which lists are merged by which key, and which maps are replaced, is read from the `x-kubernetes-*`
marks of the published schemas (1.34); a list that is not named here is taken as replaced as a whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from npu_operator.kube.quantity import is_same_quantity

MERGE_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "resourceClaims": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
}
PORT_LISTS = ("containers", "initContainers", "spec.ports")  # elsewhere (NetworkPolicy) ports are replaced as a whole
SETS = frozenset({"finalizers"})
EXACT = frozenset({"tolerations", "rules", "subjects", "nodeSelector", "selector"})
"""Replaced as a whole and given no defaults: an addition is a change, and mostly one of rights or placement."""
QUANTITIES = frozenset({"sizeLimit", "divisor", "storage"})
QUANTITY_MAPS = frozenset({"limits", "requests", "capacity", "hard"})
INT_OR_STRING = frozenset({"maxUnavailable", "maxSurge", "minAvailable"})
KEPT_WHEN_EMPTY = frozenset({"emptyDir", "podSelector", "namespaceSelector"})
KEPT_WHEN_FALSE = frozenset(
    {
        "allowPrivilegeEscalation",
        "automountServiceAccountToken",
        "enableServiceLinks",
        "hostUsers",
        "privileged",
        "readOnlyRootFilesystem",
        "runAsNonRoot",
    }
)
KEPT_WHEN_ZERO = frozenset(
    {"replicas", "terminationGracePeriodSeconds", "runAsUser", "runAsGroup", "fsGroup", *INT_OR_STRING}
)
"""Where the server tells 0, false or {} from absent, absence is a removal; elsewhere the server drops them itself."""


class Difference(msgspec.Struct, frozen=True):
    """A place at which what is there is not what we want."""

    path: str
    wanted: str
    """As JSON."""
    found: str | None
    """As JSON; None when there is nothing."""

    def __str__(self) -> str:
        if self.found is None:
            return f"{self.path} is missing, wanted {self.wanted}"
        return f"{self.path} is {self.found}, wanted {self.wanted}"


def differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Difference]:
    """All differences, in the order of `wanted`. `apiVersion` and `kind` are not looked at: lists leave them out."""
    for key, value in wanted.items():
        if key not in ("apiVersion", "kind"):
            yield from _differences(value, found.get(key), key, key, "")


def _differences(wanted: Any, found: Any, path: str, key: str, parent: str) -> Iterator[Difference]:
    if found is None and _goes_without_saying(wanted, key):
        return
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        yield from _in_map(wanted, found, path, key)
    elif _is_list(wanted) and _is_list(found):
        yield from _in_list(wanted, found, path, key)
    elif not _is_same_value(wanted, found, key, parent):
        yield Difference(path, _json(wanted), None if found is None else _json(found))


def _in_map(wanted: Mapping[str, Any], found: Mapping[str, Any], path: str, key: str) -> Iterator[Difference]:
    if key in EXACT and not _is_exact(wanted, found, path, key):
        yield Difference(path, _json(wanted), _json(found))
        return
    for name, value in wanted.items():
        yield from _differences(value, found.get(name), f"{path}.{_in_path(name)}", name, key)


def _in_list(wanted: Sequence[Any], found: Sequence[Any], path: str, key: str) -> Iterator[Difference]:
    if key in SETS:
        missing = [item for item in wanted if item not in found]
        if missing:
            yield Difference(path, _json(wanted), _json(found))
        return
    name_of = _merge_name(path, key)
    if name_of is None:
        if len(wanted) != len(found) or (key in EXACT and not _is_exact(wanted, found, path, key)):
            yield Difference(path, _json(wanted), _json(found))
            return
        for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _differences(one, other, f"{path}[{number}]", "", key)
        return
    by_name = {name_of(item): item for item in found if isinstance(item, Mapping)}
    for item in wanted:
        name = name_of(item)
        if name in by_name:
            yield from _in_map(item, by_name[name], f"{path}[{name}]", "")
        else:
            yield Difference(f"{path}[{name}]", _json(item), None)


def _is_exact(wanted: Any, found: Any, path: str, key: str) -> bool:
    """Contained both ways. The key is not handed on, or it would ask the same question again."""
    inner = f"{key}*"
    both = (_differences(wanted, found, path, inner, ""), _differences(found, wanted, path, inner, ""))
    return not any(next(way, None) for way in both)


def _merge_name(path: str, key: str) -> Callable[[Mapping[str, Any]], str] | None:
    """How the items of a list are told apart; None when the list is replaced as a whole."""
    if key in MERGE_KEYS:
        names = MERGE_KEYS[key]
        return lambda item: "/".join(str(item.get(name, "")) for name in names)
    if key == "ports" and (path == "spec.ports" or any(f".{part}[" in path for part in PORT_LISTS)):
        return lambda item: f"{item.get('containerPort', item.get('port'))}/{item.get('protocol', 'TCP')}"
    return None


def _goes_without_saying(wanted: Any, key: str) -> bool:
    """Is `wanted` what the server means by nothing at all?"""
    if wanted is None or wanted == "":
        return True
    if isinstance(wanted, bool):
        return not wanted and key not in KEPT_WHEN_FALSE
    if isinstance(wanted, Mapping) or _is_list(wanted):
        return not wanted and key not in KEPT_WHEN_EMPTY
    return bool(wanted == 0) and key not in KEPT_WHEN_ZERO


def _is_same_value(wanted: Any, found: Any, key: str, parent: str) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if wanted == found:
        return True
    if key in QUANTITIES or parent in QUANTITY_MAPS:
        return is_same_quantity(wanted, found)
    return key in INT_OR_STRING and str(wanted) == str(found)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _in_path(name: str) -> str:
    return f"[{name}]" if "." in name or "/" in name else name


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
