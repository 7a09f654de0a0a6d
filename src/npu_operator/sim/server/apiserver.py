"""The API server: reads and writes of objects, one after the other, in memory.

Everything here is synchronous: a request is over before the next one begins, as with etcd's transactions. What takes
time (the wire, faults, watches) is in `client` and `watching`; what happens by itself in `sim.controllers`.
"""

import random
from collections.abc import Callable
from typing import Any

import msgspec

from npu_operator.kube import api
from npu_operator.kube.api import Clock, Object, Resource
from npu_operator.kube.clock import stamp
from npu_operator.sim.server import definitions, fields, merging, names, ownership, refusals, schema, selectors, typed
from npu_operator.sim.server.access import Access
from npu_operator.sim.server.deletion import Deletion
from npu_operator.sim.server.fields import ABSENT, Change
from npu_operator.sim.server.kinds import BUILT_IN, Kind
from npu_operator.sim.server.objects import Stored, Tree
from npu_operator.sim.server.ownership import APPLY, UPDATE, Conflicts, Owners, Who
from npu_operator.sim.server.refusals import Refused
from npu_operator.sim.server.store import Event, Store, Table
from npu_operator.sim.server.workloads import TEMPLATE_GENERATION

SYSTEM_FIELDS = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"
)  # fmt: skip
"""Metadata that only the server writes."""

FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # of generated names; no vowels, so that no words come out


class ApiServer:
    """All kinds, all objects, all verbs. Each verb raises Refused."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self.clock = clock
        self.store = Store()
        self.access = Access(self.store)
        self._rng = rng
        self._kinds: dict[Resource, Kind] = {}
        self._deletion = Deletion(self)
        for kind in BUILT_IN:
            self._serve(kind)
        self.store.table(api.CUSTOM_RESOURCE_DEFINITIONS).listeners.append(self._definition_changed)
        for name in FIRST_NAMESPACES:
            self.create(api.NAMESPACES, {"metadata": {"name": name}}, None, manager="kube-apiserver")

    # --- kinds --------------------------------------------------------------------------------------------------------

    def kind(self, resource: Resource) -> Kind:
        """What is known of a served resource. Refused (404) when its definition is not there or not established."""
        found = self._kinds.get(resource)
        if found is None:
            raise refusals.no_such_resource()
        return found

    def table(self, resource: Resource) -> Table:
        """The objects of a served resource."""
        return self.store.table(self.kind(resource).resource)

    def served(self) -> tuple[Resource, ...]:
        """All resources that are served now."""
        return tuple(self._kinds)

    def _serve(self, kind: Kind) -> None:
        self._kinds[kind.resource] = kind
        table = self.store.table(kind.resource, kind.indexed)
        if kind.is_custom and not table.history:
            table.forgotten = max(table.forgotten, self.store.version)

    def _definition_changed(self, event: Event) -> None:
        """Serve what is established, and no longer what is gone."""
        for before, *_ in definitions.served(event.new.tree):
            self._kinds.pop(before, None)
        if event.type == "DELETED" or not definitions.is_established(event.new):
            return
        for resource, shape, has_status in definitions.served(event.new.tree):
            self._serve(Kind(resource, shape, has_status=has_status, has_generation=True, is_custom=True))

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Stored:
        """One object."""
        found = self.table(resource).objects.get((namespace or "" if resource.namespaced else "", name))
        if found is None:
            raise refusals.not_found(resource, name)
        return found

    def find(self, resource: Resource, name: str, namespace: str | None = None) -> Stored | None:
        """One object, or None; also for resources that nobody serves."""
        if resource not in self._kinds:
            return None
        return self.table(resource).objects.get((namespace or "", name))

    def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None
    ) -> "list[Stored]":
        """The selected objects in the order of their names."""
        return self.table(resource).in_order(self.selection(resource, namespace, labels, fields))

    def selection(
        self, resource: Resource, namespace: str | None, labels: str | None, fields: str | None
    ) -> selectors.Selection:
        """A list's or watch's query, read."""
        kind = self.kind(resource)
        own = kind.fields if kind.fields or kind.is_custom else None
        return selectors.selection(namespace, labels, fields, own)

    # --- writing ------------------------------------------------------------------------------------------------------

    def create(self, resource: Resource, body: Object, namespace: str | None, *, manager: str) -> Stored:
        """Make a new object."""
        kind = self.kind(resource)
        tree = self._named(kind, self._taken(kind, body), namespace)
        meta = tree["metadata"]
        old = self.table(resource).objects.get((meta.get("namespace", ""), meta["name"]))
        tree = self._without_system_fields(kind, self._read(kind, tree, None))
        owned = self._written(kind, tree, kind.blank, None)
        who = self._who(UPDATE, manager, resource, None)
        owners = ownership.after_update({}, owned, who, stamp(self.clock.now()))
        if old is not None:
            raise refusals.already_exists(resource, meta["name"], is_leaving=old.is_leaving)
        return self._add(kind, tree, owners)

    def patch(
        self,
        resource: Resource,
        name: str,
        body: Object,
        namespace: str | None = None,
        *,
        manager: str,
        subresource: str | None = None,
    ) -> Stored:
        """JSON merge patch."""
        kind = self.kind(resource)
        self._check_subresource(kind, subresource)
        live = self.get(resource, name, namespace)
        patch = _plain(body)
        meta = patch.get("metadata") or {}
        self._check_url(live, meta)
        self._check_guard(resource, live, meta)
        patched = merging.merge_patch(live.tree, self._patchable(patch))
        tree = self._read(kind, patched, live)
        change = self._written(kind, tree, live.tree, subresource)
        who = self._who(UPDATE, manager, resource, subresource)
        owners = ownership.after_update(live.owners, change, who, stamp(self.clock.now()))
        _check_identity(live, meta)
        return self._replace(kind, live, tree, owners, subresource)

    def apply(self, resource: Resource, body: Object, *, manager: str, force: bool, subresource: str | None) -> Stored:
        """Server-side apply."""
        kind = self.kind(resource)
        self._check_subresource(kind, subresource)
        config, meta = self._applied(kind, body, manager)
        namespace = meta.get("namespace") if resource.namespaced else None
        live = self.find(resource, meta["name"], namespace)
        if live is None and subresource is not None:
            raise refusals.not_found(resource, meta["name"])
        if live is None and "uid" in meta:
            why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
            raise refusals.conflict(resource, meta["name"], why)
        who = self._who(APPLY, manager, resource, subresource)
        try:
            merged, owners = ownership.after_apply(
                live.owners if live else {},
                live.tree if live else kind.blank,
                config,
                kind.shape,
                who,
                time=stamp(self.clock.now()),
                force=force,
                ignored=_reset(kind, subresource),
            )
        except Conflicts as conflicts:
            raise refusals.apply_conflict(str(conflicts), conflicts.found) from conflicts
        if live is None:
            tree = self._without_system_fields(kind, self._read(kind, merged, None))
            return self._add(kind, self._named(kind, tree, namespace), owners)
        self._check_guard(resource, live, meta)
        _check_identity(live, meta)
        if merged is live.tree and owners is live.owners:
            return live
        return self._replace(kind, live, self._read(kind, merged, live), owners, subresource)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        preconditions: api.Preconditions | None = None,
        propagation: str = "Background",
        grace_s: int | None = None,
    ) -> None:
        """Delete, at once or when grace and finalizers allow."""
        live = self.get(resource, name, namespace)
        self._deletion.delete(live, preconditions=preconditions, propagation=propagation, grace_s=grace_s)

    # --- for controllers ----------------------------------------------------------------------------------------------

    def edit(
        self, live: Stored, change: Callable[[Tree], Tree], *, manager: str, subresource: str | None = None
    ) -> Stored:
        """Change an object without its rules for users, as the server's own sub-resources (binding, finalize) do."""
        kind = self.kind(live.resource)
        tree = change(live.tree)
        if tree == live.tree:
            return live
        difference = fields.compare(live.tree, tree, kind.shape)
        who = self._who(UPDATE, manager, live.resource, subresource)
        owners = ownership.after_update(live.owners, difference, who, stamp(self.clock.now()))
        return self.put(kind, live, tree, owners)

    def put(self, kind: Kind, live: Stored, tree: Tree, owners: Owners) -> Stored:
        """Store a new version; the object goes when it was leaving and nothing holds it any more."""
        new = Stored(kind.resource, tree, owners, self.store.version + 1)
        if new.is_leaving and not self._deletion.is_held(new):
            self.remove(live, new)
            return new
        new.version = self.store.next_version()
        self.store.table(kind.resource).record(Event("MODIFIED", new, live))
        return new

    def remove(self, live: Stored, last: Stored | None = None) -> None:
        """Take an object out of the store."""
        gone = last or live
        gone = Stored(gone.resource, gone.tree, gone.owners, self.store.next_version())
        self.store.table(gone.resource).record(Event("DELETED", gone, live))

    # --- steps --------------------------------------------------------------------------------------------------------

    def _taken(self, kind: Kind, body: Object) -> Tree:
        """The body as plain data of our own, without type fields. Refused (400) when it is of another kind."""
        tree = _plain(body)
        resource = kind.resource
        found_version, found_kind = tree.pop("apiVersion", None), tree.pop("kind", None)
        if not found_kind and kind.is_custom:
            raise refusals.bad_request(
                f"the object provided is unrecognized (must be of type {resource.kind}): Object 'Kind' is missing"
            )
        if found_version and found_version != resource.api_version:
            raise refusals.bad_request(
                f"the API version in the data ({found_version}) does not match the expected API version "
                f"({resource.api_version})"
            )
        if found_kind and found_kind != resource.kind:
            if kind.is_custom:
                name = tree.get("metadata", {}).get("name", "")
                other = msgspec.structs.replace(resource, kind=found_kind)
                raise refusals.invalid(other, name, [refusals.wrong("kind", found_kind, f"must be {resource.kind}")])
            raise refusals.bad_request(
                f"{found_kind} in version {found_version} cannot be handled as a {resource.kind}"
            )
        return tree

    def _named(self, kind: Kind, tree: Tree, namespace: str | None) -> Tree:
        """The tree with name and namespace settled, in a namespace that takes new objects."""
        resource = kind.resource
        meta = {key: value for key, value in (tree.get("metadata") or {}).items() if value not in (None, "")}
        meta.pop("managedFields", None)
        if not resource.namespaced:
            meta.pop("namespace", None)
        elif namespace is None:
            raise Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        elif meta.setdefault("namespace", namespace) != namespace:
            raise refusals.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if "name" not in meta and meta.get("generateName"):
            meta["name"] = str(meta["generateName"])[:58] + "".join(self._rng.choices(NAME_LETTERS, k=5))
        if resource.namespaced:
            self._check_namespace(resource, meta.get("name"), meta["namespace"])
        return {**tree, "metadata": {"name": "", **meta}}

    def _check_namespace(self, resource: Resource, name: str | None, namespace: str) -> None:
        found = self.store.table(api.NAMESPACES).objects.get(("", namespace))
        if found is None:
            raise refusals.not_found(api.NAMESPACES, namespace)
        if found.is_leaving:
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = refusals.Cause(
                "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
            )
            raise refusals.forbidden(resource, name, message, [cause])

    def _without_system_fields(self, kind: Kind, tree: Tree) -> Tree:
        """A new object's body without what the server decides; a useless generation is kept, as on a real server."""
        if tree["metadata"].get("resourceVersion"):
            raise refusals.internal("resourceVersion should not be set on objects to be created")
        dropped = [key for key in SYSTEM_FIELDS if key != "generation" or kind.has_generation]
        return {**tree, "metadata": {key: value for key, value in tree["metadata"].items() if key not in dropped}}

    def _read(self, kind: Kind, tree: Tree, live: Stored | None) -> Tree:
        """The tree as its type keeps it, with defaults. Refused when it cannot be read."""
        old: Any = live.tree if live is not None else ABSENT
        try:
            if kind.is_custom:
                before = old["metadata"] if live is not None else ABSENT
                meta = typed.read(tree.get("metadata", {}), kind.shape.fields["metadata"], before, "metadata")
                pruned = schema.prune(tree, kind.shape, old)
                return pruned if pruned.get("metadata") is meta else {**pruned, "metadata": meta}
            new: Tree = typed.read(tree, kind.shape, old)
        except typed.Unreadable as error:
            resource = kind.resource
            if live is not None:
                shown = msgspec.json.encode(tree).decode()
                raise refusals.invalid_patch(refusals.wrong("patch", shown, str(error))) from error
            raise refusals.bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
            ) from error
        if live is not None and _changed(new, live.tree) <= {"metadata"}:
            return new
        return _reshared(kind.fill(new), live.tree if live is not None else {})

    def _written(self, kind: Kind, tree: Tree, live: Tree, subresource: str | None) -> Change:
        """What the request changed, as far as this path can own it."""
        change = fields.compare(live, tree, kind.shape)
        reset = _reset(kind, subresource)
        return Change(*(_without(part, reset) for part in change)) if reset else change

    def _add(self, kind: Kind, tree: Tree, owners: Owners) -> Stored:
        """Store a new object."""
        resource = kind.resource
        if kind.has_status and resource not in (api.NODES, api.PODS, api.NAMESPACES, api.CUSTOM_RESOURCE_DEFINITIONS):
            tree = {key: value for key, value in tree.items() if key != "status"}
        if not kind.is_custom:
            tree = typed.read(kind.admit(tree), kind.shape)
            if resource == api.PODS:
                tree = {**tree, "status": {"phase": "Pending", "qosClass": tree["status"]["qosClass"]}}
        meta = dict(tree["metadata"])
        meta["uid"] = self._uid()
        meta["creationTimestamp"] = stamp(self.clock.now())
        if kind.has_generation:
            meta["generation"] = 1
        if resource == api.DAEMON_SETS:
            meta["annotations"] = {**meta.get("annotations", {}), TEMPLATE_GENERATION: "1"}
        tree = {**tree, "metadata": meta}
        self._check(kind, tree, None)
        found = self.store.table(resource).objects.get((meta.get("namespace", ""), meta["name"]))
        if found is not None:
            raise refusals.already_exists(resource, meta["name"], is_leaving=found.is_leaving)
        new = Stored(resource, tree, owners, self.store.next_version())
        self.store.table(resource).record(Event("ADDED", new, None))
        return new

    def _replace(self, kind: Kind, live: Stored, tree: Tree, owners: Owners, subresource: str | None) -> Stored:
        """Store a new version, unless nothing changed."""
        tree = self._settled(kind, live.tree, tree, subresource)
        if tree == live.tree and owners is live.owners:
            return live
        self._check(kind, tree, live.tree)
        return self.put(kind, live, tree, owners)

    def _settled(self, kind: Kind, old: Tree, new: Tree, subresource: str | None) -> Tree:
        """The new tree with everything put back that this path must not write, and the generation counted."""
        meta = {**new["metadata"], **{key: old["metadata"][key] for key in SYSTEM_FIELDS if key in old["metadata"]}}
        for key in (*SYSTEM_FIELDS, "resourceVersion"):
            if key not in old["metadata"]:
                meta.pop(key, None)
        if subresource == "status":
            new = {**old, **({"status": new["status"]} if "status" in new else {})}
            meta = old["metadata"] if kind.is_custom else meta
            return {**new, "metadata": meta}
        if kind.has_status:
            new = {key: value for key, value in new.items() if key != "status"}
            new |= {"status": old["status"]} if "status" in old else {}
        if kind.has_generation and _is_new_generation(kind, old, new):
            meta["generation"] = old["metadata"].get("generation", 0) + 1
        if kind.resource == api.DAEMON_SETS and new["spec"]["template"] != old["spec"]["template"]:
            number = int(meta.get("annotations", {}).get(TEMPLATE_GENERATION, "0")) + 1
            meta["annotations"] = {**meta.get("annotations", {}), TEMPLATE_GENERATION: str(number)}
        return {**new, "metadata": meta if meta != old["metadata"] else old["metadata"]}

    def _check(self, kind: Kind, new: Tree, old: Tree | None) -> None:
        """Refused (422) when the object breaks a rule."""
        was = old["metadata"] if old is not None else None
        is_core = not kind.resource.group
        causes = list(names.metadata(new["metadata"], was, kind.name_rule, is_core=is_core))
        before: Any = old if old is not None else ABSENT
        if kind.is_custom:
            for key, value in new.items():
                if key != "metadata":
                    shape = kind.shape.field(key)
                    was = before.get(key, ABSENT) if old is not None else ABSENT
                    causes += schema.complaints(value, shape, was, key) if shape is not None else ()
            causes += (refusals.required(key) for key in kind.shape.required if key not in new)
        else:
            for key, value in new.items():
                if key not in ("metadata", "status"):
                    shape = kind.shape.field(key)
                    was = before.get(key, ABSENT) if old is not None else ABSENT
                    causes += typed.complaints(value, shape, was, key, kind.checks_itself) if shape is not None else ()
            causes += kind.check(new, old)
        if causes:
            raise refusals.invalid(kind.resource, new["metadata"].get("name", ""), list(dict.fromkeys(causes)))

    def _applied(self, kind: Kind, body: Object, manager: str) -> tuple[Tree, Tree]:
        """An applied configuration without its type fields, and its metadata. Refused when it does not fit."""
        resource = kind.resource
        config = _plain(body)
        found = (config.pop("apiVersion", ""), config.pop("kind", ""))
        if found != (resource.api_version, resource.kind):
            raise refusals.bad_request(f"invalid object type: {found[0] or '/'}, Kind={found[1]}")
        if not manager:
            cause = refusals.required("fieldManager", "is required for apply patch")
            raise refusals.invalid_options("PatchOptions", cause)
        meta = config.get("metadata") or {}
        if "managedFields" in meta:
            raise refusals.bad_request("metadata.managedFields must be nil")
        if not meta.get("name"):
            raise refusals.bad_request("name must be provided")
        try:
            config = typed.applied(config, kind.shape)
        except typed.Undeclared as error:
            about = f"{meta.get('namespace', '')}/{meta['name']}; {resource.api_version}, Kind={resource.kind}"
            raise refusals.internal(f"failed to create typed patch object ({about}): {error}") from error
        kept = {key: value for key, value in meta.items() if key not in ("uid", "resourceVersion", *SYSTEM_FIELDS)}
        return {**config, "metadata": kept}, meta

    def _patchable(self, patch: Tree) -> Tree:
        meta = patch.get("metadata")
        if not isinstance(meta, dict):
            return {key: value for key, value in patch.items() if key not in ("apiVersion", "kind", "metadata")}
        kept = {key: value for key, value in meta.items() if key not in ("resourceVersion", "managedFields", "uid")}
        return {**{key: value for key, value in patch.items() if key not in ("apiVersion", "kind")}, "metadata": kept}

    def _check_url(self, live: Stored, meta: Tree) -> None:
        if meta.get("name", live.name) != live.name:
            raise refusals.bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({live.name})"
            )
        if live.namespace and meta.get("namespace", live.namespace) != live.namespace:
            raise refusals.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )

    def _check_guard(self, resource: Resource, live: Stored, meta: Tree) -> None:
        guard = meta.get("resourceVersion")
        if guard and guard != str(live.version):
            raise refusals.modified(resource, live.name)

    def _check_subresource(self, kind: Kind, subresource: str | None) -> None:
        if subresource is not None and not (subresource == "status" and kind.has_status):
            raise refusals.no_such_resource()

    def _who(self, operation: str, manager: str, resource: Resource, subresource: str | None) -> Who:
        return Who(operation, manager or "unknown", resource.api_version, subresource or "")

    def _uid(self) -> str:
        digits = f"{self._rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def _check_identity(live: Stored, meta: Tree) -> None:
    """Refused (422) when a request wants to change what never changes; the server says it twice."""
    for key in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        wanted = meta.get(key)
        if wanted is not None and wanted != live.meta.get(key):
            raise refusals.invalid(live.resource, live.name, [refusals.immutable(f"metadata.{key}", wanted)] * 2)


def _plain(body: Object) -> Tree:
    """A copy that is JSON and nothing else, as it would be after the wire."""
    tree: Tree = msgspec.json.decode(msgspec.json.encode(body))
    return tree


def _changed(new: Tree, old: Tree) -> set[str]:
    return {key for key in new.keys() | old.keys() if new.get(key, ABSENT) is not old.get(key, ABSENT)}


def _reshared(new: Tree, old: Tree) -> Tree:
    """`new` with the parts of `old` that are equal, so that they are recognised as unchanged."""
    return {key: old[key] if key in old and old[key] == value else value for key, value in new.items()}


def _reset(kind: Kind, subresource: str | None) -> tuple[str, ...]:
    """The top-level fields that a path does not write and whose owners it leaves alone."""
    if subresource == "status":
        return ("spec",)
    return ("status",) if kind.has_status else ()


def _without(owned: fields.Fields, names: tuple[str, ...]) -> fields.Fields:
    for name in names:
        owned = fields.without(owned, f"f:{name}")
    return owned


def _is_new_generation(kind: Kind, old: Tree, new: Tree) -> bool:
    if not kind.is_custom:
        return bool(new.get("spec") != old.get("spec"))
    return any(new.get(key, ABSENT) != old.get(key, ABSENT) for key in _changed(new, old) - {"metadata"})
