"""`npu-operator crds`, and the files under deploy/ that were made with it."""

import re
from pathlib import Path

import pytest
import yaml

from npu_operator.cli import crds
from npu_operator.model import names
from npu_operator.model.reading import parse_ctl

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_the_committed_definitions_are_those_of_the_structs() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in (DEPLOY / "crds").iterdir()}
    assert committed == crds.files(), "run: npu-operator crds --out deploy/crds"


def test_the_definitions_are_written_into_a_folder(tmp_path: Path) -> None:
    assert crds.render(tmp_path / "new") == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["npunodes.yaml", "npuoperatorctls.yaml"]


def test_the_definitions_are_printed_as_one_stream(capsys: pytest.CaptureFixture[str]) -> None:
    assert crds.render(None) == 0
    kinds = [one["spec"]["names"]["kind"] for one in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == ["NPUOperatorCtl", "NPUNode"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert crds.render(tmp_path / "file" / "below") == 1
    assert "error: cannot write resource definitions to" in capsys.readouterr().err


def test_the_sample_is_valid_and_has_the_promised_name() -> None:
    [sample] = yaml.safe_load_all((DEPLOY / "samples" / "npuoperatorctl-sample.yaml").read_text())
    found = parse_ctl(sample)
    assert found.problems == ()
    assert (found.metadata.name, found.metadata.namespace) == (names.CTL_SAMPLE, names.NAMESPACE)
    assert sample["apiVersion"] == names.API_VERSION


def test_the_fields_that_the_sample_only_mentions_are_valid_too() -> None:
    text = (DEPLOY / "samples" / "npuoperatorctl-sample.yaml").read_text()
    spec = text[text.index("\nspec:") :]
    found = parse_ctl(yaml.safe_load(re.sub(r"^(\s*)# ", r"\1", spec, flags=re.MULTILINE)))
    assert found.errors == ()
    assert found.spec.registry
