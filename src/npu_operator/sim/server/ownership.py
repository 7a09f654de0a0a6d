"""Who owns which field: the `managedFields` of an object, and how each kind of write changes them.

An update (create, merge patch) takes what it changes from everybody; an apply claims what it names, may be refused
because of others, and gives up what it names no more. Source: KEP-555; wording as kube-apiserver 1.34 says it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from npu_operator.sim.server import fields, merging
from npu_operator.sim.server.fields import LEAF, SELF, Change, Fields
from npu_operator.sim.server.shapes import Shape

APPLY: Final = "Apply"
UPDATE: Final = "Update"

NEVER_OWNED: Final[Fields] = {
    "f:apiVersion": LEAF,
    "f:kind": LEAF,
    "f:metadata": {
        SELF: None,
        **{
            f"f:{name}": LEAF
            for name in (
                "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields",
                "resourceVersion",
            )
        },
    },
}  # fmt: skip
"""Fields that identify an object have no owner."""


class Who(NamedTuple):
    """A field manager, as told apart by the server."""

    operation: str
    manager: str
    api_version: str
    subresource: str

    def __str__(self) -> str:
        """As in the message of a conflict."""
        text = msgspec.json.encode(self.manager).decode()
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class Owned:
    """What one manager owns since when. Never changed; the sent form is made once."""

    __slots__ = ("_sent", "fields", "time")

    def __init__(self, owned: Fields, time: str | None) -> None:
        self.fields = owned
        self.time = time
        """As sent; None when the manager came without changing anything."""
        self._sent: msgspec.Raw | None = None

    def sent(self, who: Who) -> msgspec.Raw:
        """The entry of `managedFields`."""
        if self._sent is None:
            entry: dict[str, Any] = {
                "manager": who.manager,
                "operation": who.operation,
                "apiVersion": who.api_version,
                **({"time": self.time} if self.time is not None else {}),
                "fieldsType": "FieldsV1",
                "fieldsV1": fields.to_wire(self.fields),
            }
            if who.subresource:
                entry["subresource"] = who.subresource
            self._sent = msgspec.Raw(msgspec.json.encode(entry))
        return self._sent


Owners: TypeAlias = Mapping[Who, Owned]


class Conflicts(Exception):
    """An apply without force names fields that others own."""

    def __init__(self, found: Mapping[Who, Fields]) -> None:
        self.found = sorted((str(who), list(fields.paths(owned))) for who, owned in found.items())
        """For each owner (in words) the paths."""
        count = sum(len(names) for _, names in self.found)
        super().__init__(f"Apply failed with {count} conflict{'s' if count > 1 else ''}: {self._text(count)}")

    def _text(self, count: int) -> str:
        if count == 1:
            who, (path,) = self.found[0]
            return f"conflict with {who}: {path}"
        return "\n".join(line for who, names in self.found for line in (f"conflicts with {who}:", *_dashed(names)))


def _dashed(names: Iterable[str]) -> list[str]:
    return [f"- {name}" for name in names]


def sent(owners: Owners) -> list[msgspec.Raw]:
    """`managedFields` in the server's order."""
    in_order = sorted(owners, key=lambda who: (who.operation, owners[who].time or "", *who[1:]))
    return [owners[who].sent(who) for who in in_order]


BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Who owns what was there before anybody applied, in objects that had no owners."""


def after_create(change: Change, who: Who, time: str) -> Owners:
    """The owners of a new object."""
    return _after_write({}, change, who, time)


def after_update(owners: Owners, change: Change, who: Who, time: str) -> Owners:
    """The owners after `who` wrote `change`; the same mapping when nothing that can be owned changed.

    An object without owners (it was empty when it was made) gets none before it is applied for the first time.
    """
    return _after_write(owners, change, who, time) if owners else owners


def _after_write(owners: Owners, change: Change, who: Who, time: str) -> Owners:
    taken = fields.difference(fields.union(change.modified, change.added), NEVER_OWNED)
    if not taken and not change.removed:
        return owners
    out = dict(_take(owners, fields.union(taken, change.removed)))
    if taken:
        previous = out.get(who)
        out[who] = Owned(fields.union(taken, previous.fields) if previous else taken, time)
    return out


def after_apply(
    owners: Owners,
    live: Any,
    config: Any,
    shape: Shape,
    who: Who,
    *,
    time: str,
    force: bool,
    ignored: tuple[str, ...],
    blank: Any,
) -> tuple[Any, Owners]:
    """The merged object and its owners after `who` applied `config` to `live`.

    `ignored` are top-level fields that this endpoint does not write, `blank` stands for an object that is not there
    yet. Raises Conflicts unless `force`.
    """
    if not owners and live is not blank:
        before = Change(*(fields.without_all(part, ignored) for part in fields.compare(blank, live, shape)))
        owners = after_create(before, who._replace(operation=UPDATE, manager=BEFORE_FIRST_APPLY), time)
    claimed = fields.without_all(fields.of(config, shape), ignored)
    last = owners[who].fields if who in owners else {}
    others = {other: owned for other, owned in owners.items() if other != who}
    merged = merging.merge(live, config, shape)
    everyone: Fields = {}
    for owned in others.values():
        everyone = fields.union(everyone, owned.fields)
    merged = merging.prune(merged, last, claimed, everyone, shape)
    change = Change(*(fields.without_all(part, ignored) for part in fields.compare(live, merged, shape)))
    touched = fields.union(change.modified, change.added)
    conflicts = {
        other: common for other, owned in others.items() if (common := fields.intersection(owned.fields, touched))
    }
    if conflicts and not force:
        raise Conflicts(conflicts)
    out = dict(_take(others, fields.union(touched, change.removed)))
    claimed = fields.difference(claimed, NEVER_OWNED)
    if claimed:
        out[who] = _claim(owners.get(who), claimed, time if merged != live else None)
    same = merged == live and out.keys() == owners.keys() and all(out[key] is owners[key] for key in out)
    return (live, owners) if same else (merged, out)


def is_same_but_for_times(one: Owners, other: Owners) -> bool:
    """Whether the same managers own the same; a write that would only move times is none."""
    return one is other or (
        one.keys() == other.keys() and all(owned.fields == other[who].fields for who, owned in one.items())
    )


def _claim(previous: Owned | None, claimed: Fields, time: str | None) -> Owned:
    """An apply that changes nothing keeps its time."""
    if previous is None:
        return Owned(claimed, time)
    if time is None and previous.fields == claimed:
        return previous
    return Owned(claimed, time or previous.time)


def _take(owners: Owners, taken: Fields) -> Owners:
    """The owners without the fields in `taken`; who owns nothing is no owner."""
    out = {}
    for who, owned in owners.items():
        left = fields.difference(owned.fields, taken)
        if left is owned.fields:
            out[who] = owned
        elif left:
            out[who] = Owned(left, owned.time)
    return out
