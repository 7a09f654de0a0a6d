"""Observe: stores and reflectors of everything the operator looks at, and the frozen `Snapshot` made of them.

A change marks the key of what it is about dirty: `node/a7` for a Node or its NPUNode, `fleet` for everything else. An
event that changes nothing we read ends in the store.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import structlog

from npu_operator.kube import api
from npu_operator.kube.api import ApiError, Clock, Cluster, Forbidden, NotFound, Resource, Unauthorized
from npu_operator.kube.objects import Slim, Whole, decode_whole, decoder
from npu_operator.kube.reflector import Reflector
from npu_operator.kube.store import Store
from npu_operator.model import crd, names, npunode
from npu_operator.model.node import Node, NodeDecoder
from npu_operator.model.npunode import NPUNode
from npu_operator.model.reading import ParsedCtl, parse_ctl
from npu_operator.operator import resources
from npu_operator.operator.settings import Settings
from npu_operator.plan.snapshot import ObjectKey, Snapshot

LOG = structlog.get_logger()

LASTING = (Forbidden, NotFound, Unauthorized)
"""Refusals that somebody has to do something about; a broken connection mends itself and is no news for a status."""
HOW_TO_INSTALL = "apply deploy/crds, or what `npu-operator crds` prints"
FLEET = "fleet"
NODE = "node/"
Decode = Callable[[Any], Any]
OURS = {names.LABEL_MANAGED_BY: names.OPERATOR_NAME}


def whole_of(resource: Resource) -> Callable[[Any], Whole]:
    """Decode an object in full. An item of a list does not say what it is; a single answer and a watch event do."""

    def decode(raw: Any) -> Whole:
        whole = decode_whole(raw)
        whole.body.setdefault("apiVersion", resource.api_version)
        whole.body.setdefault("kind", resource.kind)
        return whole

    return decode


class Picture:
    """What the operator knows of the cluster. `dirty` is called with the key of each thing that changed."""

    def __init__(
        self, cluster: Cluster, clock: Clock, settings: Settings, rng: random.Random, dirty: Callable[[str], None]
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._dirty = dirty
        self.problems: dict[str, ApiError] = {}
        """What the API server refuses us, by resource."""
        self.ctls: Store[ParsedCtl] = Store()
        self.nodes: Store[Node] = Store()
        self.npu_nodes: Store[NPUNode] = Store()
        self.crds: dict[str, Store[Slim]] = {
            name: Store() for name in (*resources.OWN_CRDS, resources.SERVICE_MONITOR_CRD)
        }
        """One store per definition: a watch can name one, and all definitions of a cluster are megabytes."""
        self.objects: dict[Resource, Store[Whole]] = {
            resource: Store() for resource in (*resources.OWNED, *resources.OPTIONAL)
        }
        self.nodes.on_change(self._node_changed)
        self.npu_nodes.on_change(self._node_changed)
        fleet: tuple[Store[Any], ...] = (self.ctls, *self.crds.values(), *self.objects.values())
        for store in fleet:
            store.on_change(lambda *_: dirty(FLEET))
        self._definitions = {
            made["metadata"]["name"]: made["metadata"]["annotations"][crd.DIGEST] for made in crd.all_crds()
        }
        self.decode_node = NodeDecoder()
        self._unsigned_since: dict[str, float] = {}
        self._without_ctl_since: float | None = None

        def reflect(
            resource: Resource, store: Store[Any], decode: Callable[[Any], Any], **which: Any
        ) -> Reflector[Any]:
            return Reflector(
                cluster,
                resource,
                store,
                decode,
                clock=clock,
                rng=rng,
                on_trouble=lambda error: self._troubled(resource, error),
                on_unreadable=lambda key, error: LOG.warning(
                    "object cannot be read and keeps its last readable form",
                    resource=resource.name,
                    key=key,
                    error=str(error),
                ),
                **which,
            )

        selector = api.selector(OURS)
        self._node_reflector: Reflector[Node] = reflect(api.NODES, self.nodes, self.decode_node)
        self.reflectors: tuple[Reflector[Any], ...] = (
            reflect(resources.CTLS, self.ctls, parse_ctl),
            self._node_reflector,
            reflect(resources.NPU_NODES, self.npu_nodes, npunode.decode),
            *(
                reflect(api.CUSTOM_RESOURCE_DEFINITIONS, store, decoder(Slim), fields=f"metadata.name={name}")
                for name, store in self.crds.items()
            ),
            *(
                reflect(
                    resource,
                    self.objects[resource],
                    whole_of(resource),
                    namespace=settings.namespace if resource.namespaced else None,
                    labels=selector,
                )
                for resource in resources.OWNED
            ),
        )
        self.optional: tuple[Reflector[Any], ...] = tuple(
            reflect(resource, self.objects[resource], whole_of(resource), namespace=settings.namespace, labels=selector)
            for resource in resources.OPTIONAL
        )
        for name in resources.OWN_CRDS:
            self.crds[name].on_change(lambda *_: self._wake())

    @property
    def is_complete(self) -> bool:
        """Whether everything that has to be known before a first decision has been listed."""
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    @property
    def trouble(self) -> tuple[str, ...]:
        """What has not been listed yet or cannot be seen at the moment, one sentence each."""
        unlisted = (reflector.resource.name for reflector in self.reflectors if not reflector.synced.is_set())
        return tuple(self._problem(name) for name in dict.fromkeys((*unlisted, *self.problems)))

    async def complete(self) -> None:
        """Wait until everything has been listed."""
        for reflector in self.reflectors:
            await reflector.synced.wait()

    def keep_resources(self, resources_: Iterable[str]) -> None:
        """From now on read these resources of Nodes as well, for the spec renames chips to them."""
        wanted = frozenset(resources_)
        if not wanted <= self.decode_node.resources:
            self.decode_node = NodeDecoder(resources=wanted | self.decode_node.resources)
            self._node_reflector.list_again(self.decode_node)

    def live(self, key: ObjectKey) -> Whole | None:
        """An object of ours as it is; None when it does not exist or does not carry our label."""
        store = self.objects[resources.resource_of(key.api_version, key.kind)]
        return store.get(f"{key.namespace}/{key.name}" if key.namespace else key.name)

    def note_unsigned(self, names_: tuple[str, ...], looked_at: Mapping[str, Any]) -> None:
        """Begin to count for nodes that lost their last sign, and stop for those looked at that have one again."""
        for name in looked_at:
            if name not in names_:
                self._unsigned_since.pop(name, None)
        for name in names_:
            self._unsigned_since.setdefault(name, self._clock.monotonic())

    def snapshot(self, *, refused: Mapping[ObjectKey, str], now: str) -> Snapshot:
        """Freeze. Mappings are views of the stores; the loop does not await while it uses them."""
        ctls = self.ctls.view
        monotonic = self._clock.monotonic()
        in_charge = any(
            ctl.metadata.namespace == self._settings.namespace and ctl.metadata.deletion_timestamp is None
            for ctl in ctls.values()
        )
        if in_charge:
            self._without_ctl_since = None
        elif self._without_ctl_since is None:
            self._without_ctl_since = monotonic
        return Snapshot(
            namespace=self._settings.namespace,
            operator_image=self._settings.image,
            operator_version=self._settings.version,
            now=now,
            ctls=ctls,
            nodes=self.nodes.view,
            npu_nodes=self.npu_nodes.view,
            objects={
                ObjectKey.of(whole.body): whole.body for store in self.objects.values() for whole in store.view.values()
            },
            has_service_monitor_crd=len(self.crds[resources.SERVICE_MONITOR_CRD]) > 0,
            seconds_without_sign={name: monotonic - since for name, since in self._unsigned_since.items()},
            seconds_without_ctl=0.0 if self._without_ctl_since is None else monotonic - self._without_ctl_since,
            api_problems=tuple(
                self._problem(name) for name, error in sorted(self.problems.items()) if isinstance(error, LASTING)
            ),
            stale_definitions=tuple(self._stale_definitions()),
            refused_objects=refused,
        )

    def _problem(self, name: str) -> str:
        """What keeps us from seeing a resource, in one sentence with what to do about it where we know."""
        problem = self.problems.get(name)
        if problem is None:
            return f"{name} not listed yet"
        if isinstance(problem, NotFound) and name in resources.OWN_CRDS:
            return f"{name}: the CustomResourceDefinition is not installed; {HOW_TO_INSTALL}"
        return str(problem)

    def _stale_definitions(self) -> Iterator[str]:
        for name, wanted in self._definitions.items():
            there = self.crds[name].get(name)
            digest = there.metadata.annotations.get(crd.DIGEST, "none") if there is not None else wanted
            if digest != wanted:
                yield (
                    f"{name}: the installed CustomResourceDefinition (digest {digest}) is not the one of operator "
                    f"{self._settings.version} (digest {wanted}); {HOW_TO_INSTALL}"
                )

    def _wake(self) -> None:
        """A definition has come or changed: look now, not when the back-off ends."""
        for reflector in self.reflectors:
            reflector.wake()

    def _node_changed(self, old: Node | NPUNode | None, new: Node | NPUNode | None) -> None:
        thing = new if new is not None else old
        assert thing is not None, "a change has a before or an after"
        self._dirty(NODE + thing.metadata.name)

    def _troubled(self, resource: Resource, error: ApiError | None) -> None:
        if error is None:
            if self.problems.pop(resource.name, None) is not None:
                LOG.info("resource can be seen again", resource=resource.name)
        else:
            if str(self.problems.get(resource.name)) != str(error):
                LOG.warning("resource cannot be seen", resource=resource.name, error=str(error))
            self.problems[resource.name] = error
        self._dirty(FLEET)
