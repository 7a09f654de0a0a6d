"""An object as it is stored: a tree that nobody changes, its owners, and the bytes that are sent, made once."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from npu_operator.kube.api import Resource
from npu_operator.sim.server import ownership
from npu_operator.sim.server.ownership import Owners

Tree: TypeAlias = dict[str, Any]
"""An object's data without `apiVersion`, `kind` and `managedFields`. Never changed in place: versions share parts."""

Key: TypeAlias = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


class Stored:
    """One version of an object."""

    __slots__ = ("_item", "_whole", "key", "owners", "resource", "tree", "version")

    def __init__(self, resource: Resource, tree: Tree, owners: Owners, version: int) -> None:
        self.resource = resource
        self.tree = tree
        self.owners = owners
        self.version = version
        meta = tree["metadata"]
        self.key: Key = (meta.get("namespace", ""), meta["name"])
        self._item: msgspec.Raw | None = None
        self._whole: msgspec.Raw | None = None

    @property
    def meta(self) -> Tree:
        """`metadata`."""
        return self.tree["metadata"]  # type: ignore[no-any-return]

    @property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`, empty when there are none."""
        return self.meta.get("labels", {})  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.key[1]

    @property
    def namespace(self) -> str:
        """`metadata.namespace`; empty for cluster-scoped objects."""
        return self.key[0]

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        return self.meta["uid"]  # type: ignore[no-any-return]

    @property
    def is_leaving(self) -> bool:
        """Deletion was asked for."""
        return "deletionTimestamp" in self.meta

    def whole(self) -> msgspec.Raw:
        """The object as an answer or in a watch."""
        if self._whole is None:
            head = f'{{"kind":"{self.resource.kind}","apiVersion":"{self.resource.api_version}",'.encode()
            self._whole = msgspec.Raw(head + self._encoded()[1:])
        return self._whole

    def item(self, *, is_custom: bool) -> msgspec.Raw:
        """The object in a list; built-in kinds leave `kind` and `apiVersion` to the list."""
        if is_custom:
            return self.whole()
        if self._item is None:
            self._item = msgspec.Raw(self._encoded())
        return self._item

    def _encoded(self) -> bytes:
        meta = {**self.meta, "resourceVersion": str(self.version)}
        if self.owners:
            meta["managedFields"] = ownership.sent(self.owners)
        return msgspec.json.encode({**self.tree, "metadata": meta})


def with_meta(tree: Tree, **changes: Any) -> Tree:
    """`tree` with some fields of `metadata` changed; None removes one."""
    meta = {**tree["metadata"], **changes}
    return {**tree, "metadata": {key: value for key, value in meta.items() if value is not None}}


def at(tree: Any, *path: str) -> Any:
    """What lies at a path of keys; None when something on the way is missing."""
    for key in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(key)
    return tree


def condition(conditions: Iterable[Mapping[str, Any]], type_: str) -> Mapping[str, Any] | None:
    """The condition of that type."""
    return next((each for each in conditions if each.get("type") == type_), None)
