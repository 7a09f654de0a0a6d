"""The resource definitions on a real API server: taken without a warning, and refusing with words people understand."""

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from npu_operator.cli import crds
from npu_operator.model import names
from npu_operator.model.ctl import Spec
from npu_operator.model.npunode import Chip, DriverFound, Found, NodePlan
from npu_operator.model.reading import parse_ctl
from npu_operator.model.reasons import Reason
from npu_operator.model.status import Condition, CtlStatus, NodeCounts, Truth, UpgradeStatus
from testbed import Unavailable
from testbed.control_plane import CommandFailed, ControlPlane
from tests.unit.model.test_ctl import WRITTEN
from tests.unit.model.test_round_trip import values
from tests.unit.model.wrong_specs import OPERATOR_ONLY, UNKNOWN, WRONG, upgrade

pytestmark = pytest.mark.cluster

SAMPLE = Path(__file__).parents[2] / "deploy" / "samples" / "npuoperatorctl-sample.yaml"
CTLS = f"/apis/{names.API_VERSION}/namespaces/{names.NAMESPACE}/{names.CTL_PLURAL}"
NODES = f"/apis/{names.API_VERSION}/{names.NODE_PLURAL}"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
COMMON = {
    "image": {"repository": "mirror/it", "pullPolicy": "Always"},
    "resources": {"limits": {"cpu": 1, "memory": "64Mi"}, "requests": {"cpu": "5m"}},
    "nodeSelector": {"zone": "a"},
    "tolerations": [
        {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        {"operator": "Exists"},
    ],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "high",
    "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """An API server with the definitions and the operator's namespace."""
    try:
        plane = ControlPlane(controllers=False, scheduler=False, audit_log=False)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with plane:
        for text in crds.files().values():
            plane.kubectl("apply", "-f", "-", input=text)
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
        plane.kubectl("create", "namespace", names.NAMESPACE)
        yield plane


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Iterator[httpx2.Client]:
    """The admin's connection; HTTP, because each kubectl costs a fifth of a second."""
    trust = ssl.create_default_context(cafile=str(plane.ca_file))
    headers = {"Authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.api_url, verify=trust, headers=headers, timeout=30, trust_env=False) as client:
        yield client


def an_object(spec: Any, name: str = "one") -> dict[str, Any]:
    return {"apiVersion": names.API_VERSION, "kind": names.CTL_KIND, "metadata": {"name": name}, "spec": spec}


def a_node(name: str, spec: Any = None) -> dict[str, Any]:
    return {"apiVersion": names.API_VERSION, "kind": names.NODE_KIND, "metadata": {"name": name}, "spec": spec or {}}


def attempt(api: httpx2.Client, spec: Any) -> httpx2.Response:
    """What the API server would say to an object with this spec."""
    return api.post(CTLS, params={"dryRun": "All"}, json=an_object(spec))


def test_the_definitions_are_taken_without_a_warning(api: httpx2.Client) -> None:
    for text in crds.files().values():
        crd = yaml.safe_load(text)
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"
        answer = api.patch(
            path, params={"fieldManager": "test", "force": "true"}, headers=APPLY, content=json.dumps(crd)
        )
        assert answer.status_code == httpx2.codes.OK, answer.text
        assert "warning" not in answer.headers
        conditions = {one["type"]: one["status"] for one in api.get(path).json()["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}  # no NonStructuralSchema among them


@pytest.mark.parametrize("case", WRONG.items(), ids=lambda case: case[0])
def test_a_wrong_value_is_refused_with_its_place(api: httpx2.Client, case: Any) -> None:
    _, (spec, path, _) = case
    answer = attempt(api, spec)
    assert answer.status_code == httpx2.codes.UNPROCESSABLE_CONTENT, answer.text
    assert path.partition("[0]")[0] in answer.json()["message"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"driver": {"version": "25 5"}},
            (
                'spec.driver.version: Invalid value: "string": is "25 5", but must be a version of letters, digits, '
                "dots, underscores and dashes without spaces, for example 25.5.0"
            ),
        ),
        (
            upgrade(maxUnavailable="300%"),
            'must be a number of nodes from 1 or a percentage from "1%" to "100%"',
        ),
        (
            upgrade(drain={"enable": True}, drainSpec={"force": True}),
            "drainSpec and drain are two spellings of one field: set only one of them",
        ),
        ({"mode": "Go"}, 'spec.mode: Unsupported value: "Go": supported values: "Apply", "Plan", "Paused"'),
        (
            {"driver": {"perChip": {"910B": {"version": "25.5.0"}}}},
            "spec.driver.perChip: Invalid value: \"object\": the keys are chips: 310, 310b, 310p, 910, 910b, a3, 950",
        ),
        (
            {"driver": {"reboot": {"method": "command"}}},
            "method command needs the words of the command in reboot.command",
        ),
    ],
)  # fmt: skip
def test_a_refusal_is_a_sentence_for_people(api: httpx2.Client, spec: Any, words: str) -> None:
    assert words in attempt(api, spec).json()["message"]


@pytest.mark.parametrize("case", UNKNOWN.items(), ids=lambda case: case[0])
def test_an_unknown_field_is_kept_for_the_operator_to_report(api: httpx2.Client, case: Any) -> None:
    _, (spec, path, words) = case
    answer = attempt(api, spec)
    assert answer.status_code == httpx2.codes.CREATED, answer.text
    [problem] = parse_ctl(answer.content).errors
    assert problem.path == path
    assert words in str(problem)
    assert problem.reason is Reason.UnknownField


@pytest.mark.parametrize("case", OPERATOR_ONLY.items(), ids=lambda case: case[0])
def test_what_no_rule_can_say_gets_to_the_operator_unchanged(api: httpx2.Client, case: Any) -> None:
    _, (spec, path, _) = case
    answer = attempt(api, spec)
    assert answer.status_code == httpx2.codes.CREATED, answer.text
    [problem] = parse_ctl(answer.content).errors
    assert problem.path == path


def test_the_whole_documented_spec_is_taken_and_read_without_a_complaint(api: httpx2.Client) -> None:
    everything = {name: {**COMMON, **value} if isinstance(value, dict) else value for name, value in WRITTEN.items()}
    everything["placement"] = WRITTEN["placement"]
    everything["driver"]["image"] = WRITTEN["driver"]["image"]
    answer = attempt(api, everything)
    assert answer.status_code == httpx2.codes.CREATED, answer.text
    found = parse_ctl(answer.content)
    assert found.problems == ()
    assert found.spec == parse_ctl({"spec": everything}).spec


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values(Spec))
def test_what_each_field_alone_allows_the_server_allows_too(api: httpx2.Client, spec: Spec) -> None:
    """Fields are drawn one by one, so what two of them may not say together can still be refused, and only that."""
    answer = attempt(api, msgspec.to_builtins(spec))
    if answer.status_code != httpx2.codes.CREATED:
        complaints = [cause["message"] for cause in answer.json()["details"]["causes"]]
        together = ("a toleration ", "tolerationSeconds ", "set value or valueFrom", "start and end of a window")
        together += ("method command ", "Duplicate value")
        assert [text for text in complaints if not any(words in text for words in together)] == []


def test_the_usual_spelling_alone_is_taken_as_it_is(api: httpx2.Client) -> None:
    answer = attempt(api, upgrade(drain={"timeoutSeconds": 7}))
    assert answer.status_code == httpx2.codes.CREATED, answer.text
    policy = answer.json()["spec"]["driver"]["upgradePolicy"]
    assert policy == {"drain": {"timeoutSeconds": 7}}  # and no default that could be taken for the other spelling
    assert parse_ctl(answer.content).spec.driver.upgrade_policy.drain_spec.timeout_second == 7


def test_an_empty_object_gets_a_version_that_a_later_operator_does_not_change(api: httpx2.Client) -> None:
    answer = api.post(CTLS, params={"dryRun": "All"}, json={**an_object({}), "spec": None})
    assert answer.status_code == httpx2.codes.CREATED, answer.text
    assert answer.json()["spec"]["driver"]["version"] == names.DRIVER_DEFAULT_VERSION


def test_a_name_that_is_no_label_value_is_refused(api: httpx2.Client) -> None:
    answer = api.post(CTLS, params={"dryRun": "All"}, json=an_object({}, "a" * 64))
    assert "the name must have at most 63 characters" in answer.json()["message"]


def test_the_sample_is_taken_and_its_state_shown_in_a_table(plane: ControlPlane, api: httpx2.Client) -> None:
    plane.kubectl("apply", "-f", str(SAMPLE))
    status = CtlStatus(
        observed_generation=1,
        conditions=(
            Condition(
                type="Ready",
                status=Truth.FALSE,
                reason=Reason.ChipLost,
                message="node a7: Ascend910-3 does not answer",
                last_transition_time="2026-01-01T00:00:00Z",
            ),
        ),
        nodes=NodeCounts(total=12, ready=11, npus=96, allocatable=95, summary="11/12", npu_summary="95/96"),
        upgrade=UpgradeStatus(target="25.5.0", total=12, done=7, summary="7/12"),
    )
    body = {"status": msgspec.to_builtins(status)}
    path = f"{CTLS}/{names.CTL_SAMPLE}/status"
    answer = api.patch(path, headers={"Content-Type": "application/merge-patch+json"}, content=json.dumps(body))
    assert answer.status_code == httpx2.codes.OK, answer.text
    assert parse_ctl(answer.content).status == status

    head, row = plane.kubectl("get", names.CTL_SHORT, "-n", names.NAMESPACE).splitlines()
    assert head.split() == ["NAME", "READY", "DRIVER", "NODES", "NPUS", "UPGRADE", "AGE"]
    assert row.split()[:6] == [names.CTL_SAMPLE, "False", "25.5.0", "11/12", "95/96", "7/12"]
    assert "a7: Ascend910-3" in plane.kubectl("get", names.CTL_SHORT, "-n", names.NAMESPACE, "-o", "wide")


def test_a_status_that_says_nothing_yet_can_be_written(api: httpx2.Client) -> None:
    assert api.post(CTLS, json=an_object({}, "quiet")).status_code == httpx2.codes.CREATED
    body = {**an_object({}, "quiet"), "status": msgspec.to_builtins(CtlStatus())}
    del body["spec"]
    path, query = f"{CTLS}/quiet/status", {"fieldManager": "test", "force": "true"}
    first = api.patch(path, params=query, headers=APPLY, content=json.dumps(body))
    assert first.status_code == httpx2.codes.OK, first.text
    again = api.patch(path, params=query, headers=APPLY, content=json.dumps(body))
    assert again.json()["metadata"]["resourceVersion"] == first.json()["metadata"]["resourceVersion"]


def test_agent_and_operator_each_write_their_half_of_a_node(plane: ControlPlane, api: httpx2.Client) -> None:
    assert api.post(NODES, json=a_node("a7")).status_code == httpx2.codes.CREATED
    chips = tuple(Chip(id=f"Ascend910-{number}", model="910B3", physical=number) for number in range(8))
    found = Found(boot_id="b1", summary="8x910B3", healthy="8/8", chips=chips, driver=DriverFound(version="25.5.0"))
    plan = NodePlan(state="drain-required", since="2026-01-01T00:00:00Z", reason=Reason.Waiting, next="reboot")

    def write(manager: str, **half: Any) -> httpx2.Response:
        body = {**a_node("a7"), "status": msgspec.to_builtins(half)}
        del body["spec"]
        query = {"fieldManager": manager, "force": "false"}
        return api.patch(f"{NODES}/a7/status", params=query, headers=APPLY, content=json.dumps(body))

    for answer in (write("agent", found=found), write("operator", plan=plan), write("agent", found=found)):
        assert answer.status_code == httpx2.codes.OK, answer.text
    stored = api.get(f"{NODES}/a7").json()["status"]
    assert msgspec.convert(stored["found"], Found) == found
    assert msgspec.convert(stored["plan"], NodePlan) == plan
    assert write("operator", plan=plan, found=found).status_code == httpx2.codes.OK  # the same words are no conflict
    assert write("operator", found=Found(boot_id="b2")).status_code == httpx2.codes.CONFLICT

    head, row = plane.kubectl("get", names.NODE_PLURAL).splitlines()
    assert head.split() == ["NAME", "CHIPS", "HEALTHY", "DRIVER", "STATE", "SINCE", "REASON"]
    columns = row.split()
    assert columns[:5] == ["a7", "8x910B3", "8/8", "25.5.0", "drain-required"]
    assert columns[5].endswith("d")
    assert columns[6] == "Waiting"


def test_a_node_about_which_nothing_is_known_has_empty_columns(plane: ControlPlane, api: httpx2.Client) -> None:
    body = {**a_node("new"), "status": msgspec.to_builtins({"found": Found(), "plan": NodePlan()})}
    assert api.post(NODES, json=body).status_code == httpx2.codes.CREATED
    del body["spec"]
    answer = api.patch(f"{NODES}/new/status", params={"fieldManager": "x"}, headers=APPLY, content=json.dumps(body))
    assert answer.status_code == httpx2.codes.OK, answer.text
    assert plane.kubectl("get", names.NODE_SINGULAR, "new", "--no-headers").split() in (["new"], ["new", "<none>"])


@pytest.mark.parametrize(
    ("chips", "words"),
    [
        (["davinci3"], 'is "davinci3", but must be a device id, for example Ascend910-3'),
        (["npu-1", "npu-1"], "Duplicate value"),
    ],
)
def test_a_chip_that_cannot_be_isolated_is_told(api: httpx2.Client, chips: list[str], words: str) -> None:
    answer = api.post(NODES, params={"dryRun": "All"}, json=a_node("a8", {"isolatedChips": chips}))
    assert answer.status_code == httpx2.codes.UNPROCESSABLE_CONTENT
    assert words in answer.json()["message"]


def test_kubectl_explains_a_field_with_its_default(plane: ControlPlane) -> None:
    told = plane.kubectl("explain", "npuctl.spec.driver.upgradePolicy.maxUnavailable")
    assert "rounded up, at least 1. Default: 25%." in " ".join(told.split())


def test_both_kinds_are_listed_together(plane: ControlPlane) -> None:
    assert "npuoperatorctl" in plane.kubectl("get", "npu", "-A", "-o", "name")


def test_kubectl_says_in_one_line_what_is_wrong(plane: ControlPlane) -> None:
    with pytest.raises(CommandFailed, match=r"spec\.driver\.version: .* without spaces, for example 25\.5\.0"):
        plane.kubectl(
            "apply", "-n", names.NAMESPACE, "-f", "-", input=json.dumps(an_object({"driver": {"version": "2 5"}}))
        )
