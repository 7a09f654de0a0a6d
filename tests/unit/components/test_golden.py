"""Every component as it is deployed, in YAML beside this file, so that a review shows each change.

`UPDATE_GOLDEN=1 pytest tests/unit/components/test_golden.py` writes them anew.
"""

import os
from pathlib import Path

import pytest
import yaml

from npu_operator.cli.manifests import to_yaml
from tests.unit.components.inputs import CASES, components

GOLDEN = Path(__file__).parent / "golden"
FILES = [
    (case, name)
    for case, (spec, facts) in CASES.items()
    for name, component in components(spec, facts).items()
    if component.objects
]


@pytest.mark.parametrize(("case", "name"), FILES)
def test_a_component_is_deployed_as_its_golden_file_says(case, name):
    made = to_yaml(components(*CASES[case])[name].objects)
    golden = GOLDEN / case / f"{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(made)
    assert golden.read_text() == made, "if this change is meant, run again with UPDATE_GOLDEN=1"


def test_there_is_no_golden_file_without_a_component():
    assert {(path.parent.name, path.stem) for path in GOLDEN.glob("*/*.yaml")} == set(FILES)


@pytest.mark.parametrize(("case", "name"), FILES)
def test_yaml_says_the_same_as_the_objects(case, name):
    made = components(*CASES[case])[name].objects
    assert list(yaml.safe_load_all(to_yaml(made))) == list(made)
