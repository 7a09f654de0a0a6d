"""Random requests to both servers: the same answers, objects and owners.

Each seed is a sequence of creates, patches and applies by several managers to one object, good and bad ones mixed. A
failure prints the first step at which the two part.
"""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from npu_operator.kube import answers, api
from npu_operator.kube.api import ApiError, Object, Resource
from tests.contract.backends import Backend, Line, Real, Simulated
from tests.contract.bodies import a_daemon_set, widgets_of

STEPS = 60
SYSTEM = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "namespace", "deletionTimestamp")


class Step(msgspec.Struct, frozen=True):
    """One request."""

    verb: str
    manager: str
    body: Object
    subresource: str | None = None
    force: bool = True


Outcome = dict[str, Any]


def some(rng: random.Random, choices: dict[str, Callable[[], Any]], share: float) -> Object:
    return {key: make() for key, make in choices.items() if rng.random() < share}


def a_spec(rng: random.Random) -> Object:
    """Fields of a widget, mostly good ones."""
    word = rng.choice
    return some(
        rng,
        {
            "size": lambda: word([1, 2, 3, 3, 77, "3"]),
            "mode": lambda: word(["Quiet", "Loud", "Loud", "Mute"]),
            "name": lambda: word(["abc", "abd", "x"]),
            "items": lambda: [
                {"key": key, **({"value": word(["1", "2"])} if rng.random() < 0.6 else {})}
                for key in rng.sample("abc", rng.randint(0, 3))
            ],
            "tags": lambda: rng.sample(["x", "y", "z"], rng.randint(0, 3)),
            "plain": lambda: rng.choices([1, 2, 3], k=rng.randint(0, 2)),
            "free": lambda: {
                "a": {"b": word([1, None, "2"])},
                "l": [word([1, 2])],
                **({"c": {}} if word([0, 1]) else {}),
            },
            "named": lambda: {word("pqr"): word(["1", "2"])},
            "whole": lambda: {word("pq"): "1"},
            "inner": lambda: word([{}, {"a": 1}, {"a": 2, "b": "y"}]),
            "maybe": lambda: word(["x", "y"]),
            "unknown": lambda: 1,
        },
        0.35,
    )


def a_meta(rng: random.Random) -> Object:
    return some(
        rng,
        {
            "labels": lambda: {rng.choice("lmn"): rng.choice(["1", "2", "bad value"])},
            "annotations": lambda: {rng.choice("ab"): rng.choice(["1", "any text"])},
            "finalizers": lambda: rng.sample(["example.com/x", "example.com/y"], rng.randint(1, 2)),
        },
        0.25,
    )


def removals(rng: random.Random, body: Object) -> Object:
    """Now and then a merge patch removes instead of setting."""
    return {key: None if rng.random() < 0.25 else value for key, value in body.items()}


def widget_steps(rng: random.Random) -> list[Step]:
    steps = [Step("create", "first", {"metadata": {"name": "one"}, "spec": {"size": 1}})]
    for _ in range(STEPS):
        manager = rng.choice(["first", "second", "third"])
        status = {"count": rng.randint(1, 3), "conditions": [{"type": rng.choice("RS"), "status": rng.choice("TF")}]}
        subresource = rng.choice([None, None, None, "status"])
        spec = a_spec(rng)
        if rng.random() < 0.5:
            body = {"metadata": {"name": "one", **a_meta(rng)}, "spec": spec, "status": status}
            steps.append(Step("apply", manager, body, subresource, force=rng.random() < 0.6))
        else:
            body = {"metadata": removals(rng, a_meta(rng)), "spec": removals(rng, spec), "status": status}
            steps.append(Step("patch", manager, body, subresource))
    return steps


def a_container(rng: random.Random, name: str) -> Object:
    word = rng.choice
    return {
        "name": name,
        **some(
            rng,
            {
                "image": lambda: word(["main:1", "main:2", "main"]),
                "env": lambda: [{"name": each, "value": word(["1", "2", ""])} for each in rng.sample("ABC", 2)],
                "args": lambda: rng.choices(["a", "b"], k=rng.randint(0, 2)),
                "ports": lambda: [{"containerPort": word([80, 81]), "name": word(["http", "web"])}],
                "resources": lambda: {"limits": {"cpu": word(["0.5", "500m", "1"]), "memory": word(["1Gi", "1024Mi"])}},
                "volumeMounts": lambda: [
                    {"name": word("vw"), "mountPath": word(["/v", "/w"]), "readOnly": word([True, False])}
                ],
                "securityContext": lambda: {"privileged": word([True, False])},
                "livenessProbe": lambda: {"httpGet": {"port": 80}, "periodSeconds": word([0, 5])},
                "imagePullPolicy": lambda: word(["Always", "Never", "Wrong"]),
            },
            0.4,
        ),
    }


def a_pod_spec(rng: random.Random) -> Object:
    word = rng.choice
    volumes = [
        {"name": "v", "hostPath": {"path": "/v"}},
        {"name": "w", "emptyDir": {}},
        {"name": "c", "configMap": {"name": "x"}},
    ]
    return {
        "nodeSelector": {"contract.example.com/nowhere": "true"},
        "containers": [
            {"image": "main:1", **a_container(rng, name)} for name in rng.sample(["main", "side"], word([1, 1, 2]))
        ],
        **some(
            rng,
            {
                "volumes": lambda: rng.sample(volumes, word([2, 2, 3])),
                "tolerations": lambda: [{"key": word("ab"), "operator": "Exists"}],
                "hostNetwork": lambda: word([True, False]),
                "hostPID": lambda: word([True, False]),
                "serviceAccountName": lambda: word(["agent", "other"]),
                "terminationGracePeriodSeconds": lambda: word([0, 30, 60]),
                "priorityClassName": lambda: "system-node-critical",
                "imagePullSecrets": lambda: [{"name": word("st")}],
                "affinity": dict,
            },
            0.4,
        ),
    }


def daemon_set_steps(rng: random.Random) -> list[Step]:
    steps = [Step("apply", "first", a_daemon_set("one"))]
    for _ in range(STEPS):
        manager = rng.choice(["first", "second"])
        body = a_daemon_set("one")
        body["spec"]["template"]["spec"] = a_pod_spec(rng)
        if rng.random() < 0.3:
            body["spec"]["updateStrategy"] = rng.choice([{"type": "OnDelete"}, {"type": "RollingUpdate"}])
        if rng.random() < 0.7:
            steps.append(Step("apply", manager, body, force=rng.random() < 0.7))
        else:
            steps.append(Step("patch", manager, {"spec": {"template": {"spec": removals(rng, a_pod_spec(rng))}}}))
    return steps


async def play(c: Line, resource: Resource, steps: list[Step]) -> list[Outcome]:
    """What each step led to. An object that has gone is made anew by the first step."""
    outcomes = []
    version = ""
    for step in steps:
        try:
            found = await _ask(c, resource, step)
        except ApiError as error:
            outcomes.append({"status": error.status, "reason": error.reason, "causes": _causes(error)})
            continue
        now = found["metadata"]["resourceVersion"]
        outcomes.append({"object": _comparable(resource, found), "is_new": now != version})
        version = now
    return outcomes


async def _ask(c: Line, resource: Resource, step: Step) -> Object:
    match step.verb:
        case "create":
            return await c.create(resource, step.body, manager=step.manager)
        case "patch":
            return await c.patch(resource, "one", step.body, manager=step.manager, subresource=step.subresource)
    return await c.apply(resource, step.body, manager=step.manager, force=step.force, subresource=step.subresource)


def _causes(error: ApiError) -> set[tuple[str, str]]:
    return {(cause.reason, cause.field) for cause in answers.causes_of(error)}


def _comparable(resource: Resource, found: Object) -> Object:
    """The object without what differs by nature; of owners, whether a time is given but not which."""
    meta = {key: value for key, value in found["metadata"].items() if key not in SYSTEM}
    owners = sorted(
        (
            entry["operation"],
            entry["manager"],
            entry.get("subresource", ""),
            "time" in entry,
            msgspec.json.encode(entry["fieldsV1"], order="sorted"),
        )
        for entry in found["metadata"].get("managedFields", [])
        if entry["manager"] != "kube-controller-manager"
    )
    body = {key: value for key, value in found.items() if key != "metadata"}
    if resource == api.DAEMON_SETS:
        body.pop("status", None)  # the controller writes it when it likes
    return {"metadata": meta, "owners": owners, **body}


def outcomes_on(backend: Backend, rng: random.Random, *, daemon_sets: bool) -> tuple[list[Step], list[Outcome]]:
    steps = daemon_set_steps(rng) if daemon_sets else widget_steps(rng)
    found: list[Outcome] = []

    async def scenario(c: Line) -> None:
        resource = api.DAEMON_SETS if daemon_sets else await widgets_of(c)
        for outcome in await play(c, resource, steps):
            outcome.get("object", {}).pop("apiVersion", None)
            outcome.get("object", {}).pop("kind", None)
            found.append(outcome)

    backend.run(scenario)
    return steps, found


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where the two part, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            line
            for key in sorted(ours.keys() | theirs.keys(), key=str)
            for line in differences(ours.get(key, "(nothing)"), theirs.get(key, "(nothing)"), f"{path}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [line for index, pair in pairs for line in differences(*pair, f"{path}[{index}]")]
    return [] if ours == theirs else [f"{path}: simulated {ours!r}, real {theirs!r}"]


@pytest.mark.cluster
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("daemon_sets", [False, True], ids=["widgets", "daemon sets"])
def test_both_servers_give_the_same_answers(control_plane: Any, seed: int, daemon_sets: bool) -> None:
    steps, simulated = outcomes_on(Simulated(), random.Random(seed), daemon_sets=daemon_sets)
    _, real = outcomes_on(Real(control_plane), random.Random(seed), daemon_sets=daemon_sets)
    for number, (step, ours, theirs) in enumerate(zip(steps, simulated, real, strict=True)):
        if daemon_sets:
            ours.pop("is_new", None)
            theirs.pop("is_new", None)
        assert ours == theirs, "\n".join([f"step {number}: {step}", *differences(ours, theirs)])
