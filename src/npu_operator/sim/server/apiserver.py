"""The API server: reads and writes of objects, one after the other, in memory.

Everything here is synchronous: a request is over before the next one begins, as with etcd's transactions. What takes
time (the wire, faults, watches) is in `client` and `watching`; what happens by itself in `sim.controllers`.
"""

import random
from collections.abc import Callable

from npu_operator.kube import api
from npu_operator.kube.api import Clock, Object, Resource
from npu_operator.kube.clock import stamp
from npu_operator.sim.server import definitions, fields, incoming, merging, ownership, refusals, selectors, versions
from npu_operator.sim.server.access import Access
from npu_operator.sim.server.admission import Admission
from npu_operator.sim.server.deletion import Deletion
from npu_operator.sim.server.kinds import BUILT_IN, Kind
from npu_operator.sim.server.objects import Stored, Tree
from npu_operator.sim.server.ownership import APPLY, UPDATE, Conflicts, Owned, Owners, Who
from npu_operator.sim.server.refusals import Refused
from npu_operator.sim.server.store import Event, Store, Table
from npu_operator.sim.server.workloads import TEMPLATE_GENERATION

KEEP_FIRST_STATUS = (api.NODES, api.PODS, api.NAMESPACES, api.CUSTOM_RESOURCE_DEFINITIONS)
"""Kinds whose status a creator sets, or whose first status follows from the object."""

FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
NAME_TRIES = 8
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # of generated names; no vowels, so that no words come out


class ApiServer:
    """All kinds, all objects, all verbs. Each verb raises Refused."""

    def __init__(self, clock: Clock, rng: random.Random, *, service_account_admission: bool = True) -> None:
        self.clock = clock
        self.store = Store()
        self.access = Access(self.store)
        self.admission = Admission(self.store, checks_accounts=service_account_admission)
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
        tree = self._named(kind, incoming.new_body(kind, body), namespace)
        meta = tree["metadata"]
        old = self.table(resource).objects.get((meta.get("namespace", ""), meta["name"]))
        tree = incoming.without_system_fields(kind, incoming.read(kind, tree, None))
        change = versions.written(kind, tree, kind.blank, None)
        who = self._who(UPDATE, manager, resource, None)
        owners = ownership.after_create(change, who, stamp(self.clock.now()))
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
        patch, meta = incoming.patch_body(live, body)
        tree = incoming.read(kind, merging.merge_patch(live.tree, patch), live)
        change = versions.written(kind, tree, live.tree, subresource)
        who = self._who(UPDATE, manager, resource, subresource)
        owners = ownership.after_update(live.owners, change, who, stamp(self.clock.now()))
        if subresource is not None and not incoming.fits(kind, tree, live.tree):
            owners = {}  # the server cannot tell who owns what, forgets all owners, and goes on
        incoming.check_identity(live, meta)
        return self._replace(kind, live, tree, owners, subresource)

    def apply(self, resource: Resource, body: Object, *, manager: str, force: bool, subresource: str | None) -> Stored:
        """Server-side apply."""
        kind = self.kind(resource)
        self._check_subresource(kind, subresource)
        config, meta = incoming.applied(kind, body, manager)
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
                ignored=versions.reset(kind, subresource),
                blank=kind.blank,
            )
        except Conflicts as conflicts:
            raise refusals.apply_conflict(str(conflicts), conflicts.found) from conflicts
        if live is None:
            tree = incoming.without_system_fields(kind, incoming.read(kind, merged, None, is_applied=True))
            return self._add(kind, self._named(kind, tree, namespace), owners)
        incoming.check_guard(live, meta)
        incoming.check_identity(live, meta)
        if merged is live.tree and owners is live.owners:
            return live
        return self._replace(kind, live, incoming.read(kind, merged, live, is_applied=True), owners, subresource)

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

    def create_alike(self, model: Stored, spec: Tree) -> Stored:
        """Make another object as `model` was when it was made (by a generated name), with a `spec` of the same fields.

        What was checked and counted for the model holds for the next one too; a DaemonSet makes thousands.
        """
        namespace, stem = model.namespace, model.meta["generateName"]
        if model.resource == api.PODS:
            self.admission.check_pod(model.tree)
        name = self._generated_name(model.resource, stem, namespace)
        self.admission.check_namespace(model.resource, name, namespace)
        now = stamp(self.clock.now())
        meta = {**model.meta, "name": name, "uid": self._uid(), "creationTimestamp": now}
        owners = {who: owned if owned.time == now else Owned(owned.fields, now) for who, owned in model.owners.items()}
        return self._store_new(model.resource, {**model.tree, "metadata": meta, "spec": spec}, owners)

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
            meta["name"] = self._generated_name(resource, str(meta["generateName"]), meta.get("namespace", ""))
        if resource.namespaced:
            self.admission.check_namespace(resource, meta.get("name"), meta["namespace"])
        return {**tree, "metadata": {"name": "", **meta}}

    def _generated_name(self, resource: Resource, stem: str, namespace: str) -> str:
        """A free name that begins with `stem`; after some tries a taken one, which is then refused."""
        taken = self.table(resource).objects
        for _ in range(NAME_TRIES):
            name = stem[:58] + "".join(self._rng.choices(NAME_LETTERS, k=5))
            if (namespace, name) not in taken:
                break
        return name

    def _add(self, kind: Kind, tree: Tree, owners: Owners) -> Stored:
        """Store a new object."""
        resource = kind.resource
        if kind.has_status and resource not in KEEP_FIRST_STATUS:
            tree = {key: value for key, value in tree.items() if key != "status"}
            tree |= {"status": kind.blank["status"]} if "status" in kind.blank else {}
        if resource == api.PODS:
            tree = {**tree, "status": {"phase": "Pending", "qosClass": tree["status"]["qosClass"]}}
            self.admission.check_pod(tree)
        tree = kind.admit(tree)
        meta = dict(tree["metadata"])
        meta["uid"] = self._uid()
        meta["creationTimestamp"] = stamp(self.clock.now())
        if kind.has_generation:
            meta["generation"] = 1
        if resource == api.DAEMON_SETS:
            meta["annotations"] = {**meta.get("annotations", {}), TEMPLATE_GENERATION: "1"}
        tree = {**tree, "metadata": meta}
        versions.check(kind, tree, None)
        return self._store_new(resource, tree, owners)

    def _store_new(self, resource: Resource, tree: Tree, owners: Owners) -> Stored:
        meta = tree["metadata"]
        found = self.store.table(resource).objects.get((meta.get("namespace", ""), meta["name"]))
        if found is not None:
            raise refusals.already_exists(resource, meta["name"], is_leaving=found.is_leaving)
        new = Stored(resource, tree, owners, self.store.next_version())
        self.store.table(resource).record(Event("ADDED", new, None))
        return new

    def _replace(self, kind: Kind, live: Stored, tree: Tree, owners: Owners, subresource: str | None) -> Stored:
        """Store a new version, unless nothing changed."""
        tree = versions.settled(kind, live.tree, tree, subresource)
        if tree == live.tree and ownership.is_same_but_for_times(owners, live.owners):
            return live
        versions.check(kind, tree, live.tree)
        return self.put(kind, live, tree, owners)

    def _check_subresource(self, kind: Kind, subresource: str | None) -> None:
        if subresource is not None and not (subresource == "status" and kind.has_status):
            raise refusals.no_such_resource()

    def _who(self, operation: str, manager: str, resource: Resource, subresource: str | None) -> Who:
        return Who(operation, manager or "unknown", resource.api_version, subresource or "")

    def _uid(self) -> str:
        digits = f"{self._rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
