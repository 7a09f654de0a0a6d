"""RBAC: what an account may do, and in which words it is refused."""

from typing import Any

from npu_operator.kube import api
from npu_operator.kube.api import Cluster, Forbidden, Object, Resource
from tests.contract.backends import Line, in_both, refusal, refused

GROUP = "rbac.authorization.k8s.io"


def rule(groups: list[str], resources: list[str], verbs: list[str], names: list[str] | None = None) -> Object:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs, **({"resourceNames": names} if names else {})}


async def allow(c: Line, account: str, *rules: Object, everywhere: bool = False) -> str:
    """Give an account of the test's namespace rights there, or everywhere; returns the role's name."""
    name = c.name("role")
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": c.namespace}]
    roles, bindings = (api.CLUSTER_ROLES, api.CLUSTER_ROLE_BINDINGS) if everywhere else (api.ROLES, api.ROLE_BINDINGS)
    await c.create(roles, {"metadata": {"name": name}, "rules": list(rules)})
    reference = {"apiGroup": GROUP, "kind": roles.kind, "name": name}
    await c.create(bindings, {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects})
    return name


async def may(c: Line, call: Any) -> None:
    """Wait until a right has arrived; a real authorizer reads its rules with a delay."""

    async def is_allowed() -> bool:
        return await refusal(call(), allow_success=True) != 403

    await c.eventually(is_allowed)


def a_map(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def listed(cluster: Cluster, resource: Resource, namespace: str | None, **options: Any) -> list[Any]:
    return [item async for page in cluster.list_pages(resource, namespace, **options) for item in page.items]


@in_both
async def test_without_rights_nothing_is_allowed_and_the_message_says_what_is_missing(c: Line) -> None:
    cluster = await c.as_account("plain")
    who = f'User "system:serviceaccount:{c.namespace}:plain"'
    for call, words in (
        (
            cluster.get(api.DAEMON_SETS, "x", c.namespace),
            (
                f'daemonsets.apps "x" is forbidden: {who} cannot get resource "daemonsets" in API group "apps" '
                f'in the namespace "{c.namespace}"'
            ),
        ),
        (
            cluster.patch(api.NODES, "a1", {"status": {}}, manager="m", subresource="status"),
            f'nodes "a1" is forbidden: {who} cannot patch resource "nodes/status" in API group "" at the cluster scope',
        ),
        (
            cluster.create(api.CONFIG_MAPS, a_map("one"), c.namespace, manager="m"),
            (
                f'configmaps is forbidden: {who} cannot create resource "configmaps" in API group "" '
                f'in the namespace "{c.namespace}"'
            ),
        ),
        (
            listed(cluster, api.NODES, None),
            f'nodes is forbidden: {who} cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (
            cluster.evict("p", c.namespace),
            (
                f'pods "p" is forbidden: {who} cannot create resource "pods/eviction" in API group "" '
                f'in the namespace "{c.namespace}"'
            ),
        ),
        (
            cluster.delete(api.PODS, "p", c.namespace),
            (
                f'pods "p" is forbidden: {who} cannot delete resource "pods" in API group "" '
                f'in the namespace "{c.namespace}"'
            ),
        ),
    ):
        error = await refused(call)
        assert isinstance(error, Forbidden)
        assert error.reason == "Forbidden"
        assert words in str(error)


@in_both
async def test_a_role_counts_in_its_namespace_only(c: Line) -> None:
    cluster = await c.as_account("reader")
    await allow(c, "reader", rule([""], ["configmaps"], ["list"]))
    await may(c, lambda: listed(cluster, api.CONFIG_MAPS, c.namespace))
    await refused(listed(cluster, api.CONFIG_MAPS, None))
    await refused(listed(cluster, api.CONFIG_MAPS, "default"))


@in_both
async def test_a_cluster_role_counts_everywhere(c: Line) -> None:
    cluster = await c.as_account("reader")
    await allow(c, "reader", rule(["*"], ["*"], ["list"]), everywhere=True)
    await may(c, lambda: listed(cluster, api.CONFIG_MAPS, None))
    await listed(cluster, api.NODES, None)
    await listed(cluster, api.DAEMON_SETS, "default")


@in_both
async def test_a_sub_resource_is_a_right_of_its_own(c: Line) -> None:
    cluster = await c.as_account("agent")
    name = c.name("node")
    await c.create(api.NODES, {"metadata": {"name": name}})
    await allow(c, "agent", rule([""], ["nodes/status"], ["patch"]), everywhere=True)

    def tell() -> Any:
        return cluster.patch(api.NODES, name, {"status": {}}, manager="m", subresource="status")

    await may(c, tell)
    assert isinstance(await refused(cluster.patch(api.NODES, name, {"spec": {}}, manager="m")), Forbidden)
    await c.delete(api.NODES, name)


@in_both
async def test_a_right_can_be_for_one_name(c: Line) -> None:
    cluster = await c.as_account("agent")
    await allow(c, "agent", rule([""], ["configmaps"], ["get", "list", "patch"], ["mine"]))
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "mine"}})
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "other"}})
    await may(c, lambda: cluster.get(api.CONFIG_MAPS, "mine", c.namespace))
    assert isinstance(await refused(cluster.get(api.CONFIG_MAPS, "other", c.namespace)), Forbidden)
    assert isinstance(await refused(listed(cluster, api.CONFIG_MAPS, c.namespace)), Forbidden)
    assert len(await listed(cluster, api.CONFIG_MAPS, c.namespace, fields="metadata.name=mine")) == 1


@in_both
async def test_apply_needs_patch_and_for_a_new_object_create(c: Line) -> None:
    cluster = await c.as_account("applier")
    await allow(c, "applier", rule([""], ["configmaps"], ["patch"]))
    await c.create(api.CONFIG_MAPS, {"metadata": {"name": "there"}})

    def apply(name: str) -> Any:
        body = {**a_map(name), "metadata": {"name": name, "namespace": c.namespace}}
        return cluster.apply(api.CONFIG_MAPS, body, manager="m")

    await may(c, lambda: apply("there"))
    error = await refused(apply("new"))
    assert isinstance(error, Forbidden)
    assert 'cannot create resource "configmaps"' in str(error)


@in_both
async def test_nobody_hands_out_rights_he_does_not_have(c: Line) -> None:
    cluster = await c.as_account("manager")
    await allow(
        c,
        "manager",
        rule([GROUP], ["roles", "rolebindings"], ["create", "patch", "get"]),
        rule([""], ["configmaps"], ["get", "list"]),
    )

    def role(name: str, *verbs: str) -> Object:
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": {"name": name}}
        return {**body, "rules": [rule([""], ["configmaps"], list(verbs))]}

    await may(c, lambda: cluster.create(api.ROLES, role(c.name("less"), "get"), c.namespace, manager="m"))
    error = await refused(cluster.create(api.ROLES, role("more", "get", "delete"), c.namespace, manager="m"))
    assert isinstance(error, Forbidden)
    assert "is attempting to grant RBAC permissions not currently held:" in str(error)
    assert '{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}' in str(error)
    await c.create(api.ROLES, role("more", "delete"))
    binding = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "more"},
        "subjects": [{"kind": "ServiceAccount", "name": "manager", "namespace": c.namespace}],
    }
    error = await refused(cluster.create(api.ROLE_BINDINGS, binding, c.namespace, manager="m"))
    assert isinstance(error, Forbidden)
    assert "is attempting to grant RBAC permissions not currently held:" in str(error)
