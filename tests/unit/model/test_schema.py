"""What every schema of ours must have, whatever fields come later."""

from collections.abc import Iterator
from typing import Any

import pytest

from npu_operator.model import crd
from npu_operator.model.crd import npunode, npuoperatorctl

CRDS = {one["spec"]["names"]["kind"]: one for one in crd.all_crds()}


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each place in a schema with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from walk(inner, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from walk(schema[word], f"{path}[]")


def root(kind: str) -> dict[str, Any]:
    [version] = CRDS[kind]["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def places(kind: str, below: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for path, schema in walk(root(kind)):
        if path.startswith(below) and not path.startswith(".metadata"):
            yield path, schema


def at(kind: str, path: str) -> dict[str, Any]:
    return dict(walk(root(kind)))[path]


POLICIES = (".spec.driver.upgradePolicy", ".spec.driver.recoveryPolicy")


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_says_what_it_is(kind: str) -> None:
    silent = [path for path, schema in places(kind) if not path.endswith("[]") and not schema.get("description")]
    assert silent == []


@pytest.mark.parametrize("kind", CRDS)
def test_every_description_ends_as_a_sentence(kind: str) -> None:
    said = {path: schema["description"] for path, schema in places(kind) if "description" in schema}
    assert [path for path, text in said.items() if not text.endswith(".")] == []


@pytest.mark.parametrize("kind", CRDS)
def test_every_list_map_and_text_is_bounded(kind: str) -> None:
    bounds = {"array": "maxItems", "string": "maxLength"}
    unbounded = [
        path
        for path, schema in places(kind, ".s")
        if (schema.get("type") in bounds and bounds[schema["type"]] not in schema and "enum" not in schema)
        or ("additionalProperties" in schema and "maxProperties" not in schema)
    ]
    assert unbounded == []


@pytest.mark.parametrize("kind", CRDS)
def test_schemas_are_structural(kind: str) -> None:
    for path, schema in places(kind):
        assert not {"$ref", "anyOf", "oneOf", "allOf", "not", "title"} & set(schema), path
        typed = "type" in schema or "x-kubernetes-int-or-string" in schema
        assert typed or schema.get("x-kubernetes-preserve-unknown-fields"), path
        assert not ("properties" in schema and "additionalProperties" in schema), path


@pytest.mark.parametrize("kind", CRDS)
def test_unknown_fields_stay_at_every_level_of_a_spec(kind: str) -> None:
    objects = [(path, schema) for path, schema in places(kind, ".spec") if schema.get("type") == "object"]
    assert objects
    for path, schema in objects:
        keeps = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
        assert keeps, path


def test_nothing_below_the_policies_has_a_server_side_default() -> None:
    for policy in POLICIES:
        assert [path for path, schema in places("NPUOperatorCtl", policy) if "default" in schema] == []


def test_the_policies_tell_their_defaults_in_words() -> None:
    unavailable = at("NPUOperatorCtl", f"{POLICIES[0]}.maxUnavailable")
    assert unavailable["description"].endswith("Default: 25%.")
    assert at("NPUOperatorCtl", f"{POLICIES[1]}.probeSecond")["description"].endswith("Default: 60.")
    assert at("NPUOperatorCtl", f"{POLICIES[0]}.autoUpgrade")["description"].endswith("Default: false.")


@pytest.mark.parametrize(
    ("path", "default"),
    [
        (".spec", {}),
        (".spec.mode", "Apply"),
        (".spec.driver", {}),
        (".spec.driver.version", "25.5.0"),
        (".spec.driver.enabled", True),
        (".spec.volcano.enabled", False),
        (".spec.exporter.serviceMonitor.interval", "30s"),
    ],
)
def test_outside_the_policies_the_server_fills_defaults_in(path: str, default: object) -> None:
    assert at("NPUOperatorCtl", path)["default"] == default


def test_the_parts_that_every_component_takes_do_not_blow_up_each_object() -> None:
    for component in ("exporter", "validator", "nodeD"):
        for part in ("image", "resources", "affinity", "tolerations", "env"):
            below = f".spec.{component}.{part}"
            assert [path for path, schema in places("NPUOperatorCtl", below) if "default" in schema] == []


def test_each_second_spelling_has_the_same_schema_and_a_rule_against_both() -> None:
    policy = at("NPUOperatorCtl", POLICIES[0])
    drain, drain_spec = policy["properties"]["drain"], policy["properties"]["drainSpec"]
    assert drain["properties"] == drain_spec["properties"]
    assert drain["description"] == "Another spelling of drainSpec; set only one of them."
    rules = [rule["rule"] for rule in policy["x-kubernetes-validations"]]
    assert "!(has(self.drainSpec) && has(self.drain))" in rules


@pytest.mark.parametrize("kind", CRDS)
def test_a_status_may_be_empty_in_all_that_is_not_required(kind: str) -> None:
    for path, schema in places(kind, ".status"):
        for name, inner in schema.get("properties", {}).items():
            if name not in schema.get("required", ()):
                assert not inner.get("minLength"), f"{path}.{name}"


def test_a_word_of_a_list_that_may_be_null_has_no_enum() -> None:
    chip = at("NPUNode", ".status.found.chip")
    assert chip["nullable"]
    assert "enum" not in chip  # an API server refuses null for an enum
    assert chip["x-kubernetes-validations"][0]["rule"].startswith("self in [r'310', ")


def test_a_client_side_apply_can_still_remember_the_definition() -> None:
    limit = 262_144  # bytes of all annotations together; kubectl apply stores the whole object in one
    for one in CRDS.values():
        assert len(str(one)) < limit / 2


def test_columns_are_as_promised() -> None:
    def names_of(one: dict[str, Any], priority: int = 0) -> list[str]:
        columns = one["spec"]["versions"][0]["additionalPrinterColumns"]
        return [column["name"] for column in columns if column.get("priority", 0) == priority]

    assert names_of(npuoperatorctl()) == ["Ready", "Driver", "Nodes", "NPUs", "Upgrade", "Age"]
    assert names_of(npuoperatorctl(), priority=1) == ["Message"]
    assert names_of(npunode()) == ["Chips", "Healthy", "Driver", "State", "Since", "Reason"]


@pytest.mark.parametrize("kind", CRDS)
def test_every_column_shows_a_field_that_exists(kind: str) -> None:
    known = {path for path, _ in places(kind)} | {".metadata.creationTimestamp"}
    for column in CRDS[kind]["spec"]["versions"][0]["additionalPrinterColumns"]:
        path, _, field = column["jsonPath"].partition("[?(@.type==")
        assert path in known, column
        if field:
            assert f"{path}[].{field.rpartition('.')[2]}" in known, column


def test_the_digest_changes_with_the_definition() -> None:
    one, other = npuoperatorctl()["spec"], npuoperatorctl()["spec"]
    other["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Something else."
    assert crd.digest(one) == npuoperatorctl()["metadata"]["annotations"][crd.DIGEST]
    assert crd.digest(one) != crd.digest(other)
