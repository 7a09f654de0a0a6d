"""The operator's own installation."""

from pathlib import Path

import pytest
import yaml

import npu_operator
from npu_operator.cli import manifests
from npu_operator.components import operator_manifests
from npu_operator.components.labels import MANAGED
from npu_operator.components.operator_manifests import Install
from npu_operator.model import names
from npu_operator.operator import settings
from tests.unit.components.inputs import leaves

COMMITTED = Path("deploy/manifests/install.yaml")


def made(**differs):
    return {one["kind"]: one for one in operator_manifests.build(Install(**{"version": "0.1.0", **differs}))}


def container_of(objects):
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    return container


def test_the_committed_file_is_what_the_command_writes(request):
    committed = (request.config.rootpath / COMMITTED).read_text()
    assert committed == manifests.install_yaml(Install(version=npu_operator.__version__)), (
        f"run: npu-operator manifests --out {COMMITTED.parent}"
    )


def test_the_command_writes_into_the_folder_it_is_told_or_prints(tmp_path, capsys):
    assert manifests.render(tmp_path / "new") == 0
    assert manifests.render() == 0
    assert (tmp_path / "new" / "install.yaml").read_text() == capsys.readouterr().out
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["install.yaml"]


def test_a_folder_that_cannot_be_written_to_is_named_with_a_way_out(tmp_path, capsys):
    (tmp_path / "file").write_text("not a folder")
    assert manifests.render(tmp_path / "file") == 1
    said = capsys.readouterr().err
    assert f"cannot write install.yaml to {tmp_path / 'file'}" in said
    assert "hint: " in said


def test_definitions_come_before_what_needs_them_and_the_namespace_first():
    kinds = [one["kind"] for one in yaml.safe_load_all(manifests.install_yaml(Install(version="1")))]
    assert kinds[:3] == ["Namespace", "CustomResourceDefinition", "CustomResourceDefinition"]
    assert kinds[-1] == "Deployment"


def test_the_operator_never_takes_its_own_parts_for_what_it_deployed():
    for one in operator_manifests.build(Install(version="1")):
        assert not one["metadata"]["labels"].items() >= MANAGED.items()


def test_the_service_and_the_probes_reach_the_port_that_the_operator_listens_on():
    objects = made()
    container = container_of(objects)
    assert settings.Settings(identity="a").listen_port == container["ports"][0]["containerPort"]
    assert objects["Service"]["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    pod_labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert pod_labels.items() >= objects["Service"]["spec"]["selector"].items()


def test_the_operator_is_told_where_it_lives_and_which_image_its_agents_run_from():
    given = {one["name"]: one.get("value", "given by the pod") for one in container_of(made(image="i:2"))["env"]}
    understood = settings.from_environment(given)
    assert understood.image == container_of(made(image="i:2"))["image"] == "i:2"
    assert understood.namespace == "given by the pod"
    assert understood.identity.startswith("given by the pod")


def test_pods_of_the_namespace_may_be_privileged():
    assert made()["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_a_disruption_budget_stands_only_where_there_is_more_than_one_replica():
    assert "PodDisruptionBudget" not in made()
    budget = made(replicas=3)["PodDisruptionBudget"]
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == made(replicas=3)["Deployment"]["spec"]["selector"]


@pytest.mark.parametrize("differs", [{}, {"replicas": 3, "namespace": "npus", "pull_secrets": ("login",)}])
def test_everything_lies_in_the_namespace_of_the_installation(differs):
    objects = made(**differs)
    namespace = differs.get("namespace", names.NAMESPACE)
    assert objects["Namespace"]["metadata"]["name"] == namespace
    for one in objects.values():
        assert one["metadata"].get("namespace", namespace) == namespace
        for subject in one.get("subjects", []):
            assert subject["namespace"] == namespace


def test_pull_secrets_are_used_where_they_are_given():
    pods = [made(pull_secrets=given)["Deployment"]["spec"]["template"]["spec"] for given in ((), ("login",))]
    assert [pod.get("imagePullSecrets") for pod in pods] == [None, [{"name": "login"}]]


def test_no_field_is_written_that_the_api_server_would_not_keep():
    for one in operator_manifests.build(Install(version="1", replicas=2)):
        for path, value in leaves(one):
            if not path.endswith(".apiGroups.0"):  # the core group has no name
                assert value not in ("", [], {}, None), f"{one['kind']}{path}"
