"""The spec of `NPUOperatorCtl`: its documented form, its defaults, and the questions asked of it."""

import msgspec
import pytest
import yaml

from npu_operator.model.chips import ChipFamily
from npu_operator.model.ctl import (
    COMPONENTS,
    PluginFlavor,
    Spec,
    driver_version_for,
    plugin_flavor,
    resource_name_for,
    share,
)
from npu_operator.model.fields import fields_of
from npu_operator.model.parts import Placed
from npu_operator.model.reading import parse_ctl

DOCUMENTED = """
mode: Apply
discovery: Auto
placement:
  nodeSelector: {}
  tolerations: []
  priorityClassName: system-node-critical
  taint: {key: npu.huawei.com/npu, mode: "Off"}
imagePullSecrets: []
registry: ""
driver:
  enabled: true
  version: "25.5.0"
  perChip: {}
  image: {repository: mlops/ascend-driver, pullPolicy: IfNotPresent, tags: {}}
  moduleOptions: {}
  reboot: {method: sysrq, command: []}
  firmware: {policy: Report}
  upgradePolicy:
    autoUpgrade: false
    maxParallelUpgrades: 1
    maxUnavailable: "25%"
    order: []
    canary: {nodes: 0, soakSeconds: 0}
    maxFailures: 1
    rollback: true
    window: []
    ignoreCordoned: true
    waitForCompletion: {podSelector: "", timeoutSecond: 3600}
    podDeletion: {force: false, timeoutSecond: 300, gracePeriodSecond: null, deleteEmptyDir: false}
    drainSpec: {enable: true, force: false, deleteEmptyDir: false, timeoutSecond: 300, podSelector: ""}
    deadlines:
      {stageSecond: 1800, rebootDownSecond: 600, rebootUpSecond: 3600, podRestartSecond: 1800, validationSecond: 600}
  recoveryPolicy:
    autoRecover: false
    healer: operator
    probeSecond: 60
    failures: 3
    minUptimeSecond: 600
    maxAttempts: 2
    windowSecond: 86400
    maxUnhealthy: "20%"
    drain: {force: false, timeoutSecond: 3600}
containerRuntime: {enabled: true, libraryPath: None}
devicePlugin: {enabled: true, flavor: auto, injection: CDI, resourceNames: {}}
exporter: {enabled: true, flavor: native, serviceMonitor: {enabled: true, interval: 30s, labels: {}}}
validator: {}
ascendOperator: {enabled: false}
nodeD: {enabled: false}
clusterD: {enabled: false}
volcano: {enabled: false, mode: Deploy}
resilienceController: {enabled: false}
mindIOTFT: {enabled: false}
mindIOACP: {enabled: false}
"""


WRITTEN = yaml.safe_load(DOCUMENTED)


def test_the_documented_defaults_are_the_defaults() -> None:
    found = parse_ctl({"spec": WRITTEN})
    assert found.problems == ()
    assert found.spec == Spec() == parse_ctl({"spec": {}}).spec


def test_every_documented_field_exists_and_no_other() -> None:
    assert set(WRITTEN) == {field.name for field in fields_of(Spec)}
    driver = next(field.default for field in fields_of(Spec) if field.name == "driver")
    policy = driver.upgrade_policy
    of_components = {field.name for field in fields_of(Placed)}
    assert set(WRITTEN["driver"]) == {field.name for field in fields_of(type(driver))} - of_components
    assert set(WRITTEN["driver"]["upgradePolicy"]) == {field.name for field in fields_of(type(policy))}
    assert set(WRITTEN["driver"]["recoveryPolicy"]) == {field.name for field in fields_of(type(driver.recovery_policy))}


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_takes_what_pods_take(component: str) -> None:
    common = {
        "image": {"repository": "mirror/it", "pullPolicy": "Always"},
        "resources": {"limits": {"cpu": 1, "memory": "64Mi"}, "requests": {"cpu": "5m"}},
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "priorityClassName": "high",
        "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    }
    found = parse_ctl({"spec": {component: common}})
    assert found.problems == ()
    assert msgspec.json.decode(msgspec.json.encode(found.spec))[component] == common


def test_a_chip_has_its_own_driver_version_only_where_the_spec_says_so() -> None:
    spec = parse_ctl({"spec": {"driver": {"version": "25.3.RC1", "perChip": {"950": {"version": "25.7.RC1"}}}}}).spec
    assert driver_version_for(spec, ChipFamily.ASCEND_950) == "25.7.RC1"
    assert driver_version_for(spec, ChipFamily.ASCEND_910B) == "25.3.RC1"


@pytest.mark.parametrize(
    ("chip", "resource"),
    [
        ("310", "huawei.com/Ascend310"),
        ("310b", "huawei.com/Ascend310"),
        ("310p", "huawei.com/Ascend310P"),
        ("910", "huawei.com/Ascend910"),
        ("910b", "huawei.com/Ascend910"),
        ("a3", "huawei.com/Ascend910"),
        ("950", "huawei.com/npu"),
    ],
)
def test_a_chip_is_offered_under_its_usual_name(chip: str, resource: str) -> None:
    assert resource_name_for(Spec(), ChipFamily(chip)) == resource


def test_a_resource_is_renamed_for_one_chip_alone() -> None:
    spec = parse_ctl({"spec": {"devicePlugin": {"resourceNames": {"910b": "huawei.com/Ascend910B"}}}}).spec
    assert resource_name_for(spec, ChipFamily.ASCEND_910B) == "huawei.com/Ascend910B"
    assert resource_name_for(spec, ChipFamily.ASCEND_A3) == "huawei.com/Ascend910"


@pytest.mark.parametrize("part", ["ascendOperator", "clusterD", "volcano"])
def test_the_device_plugin_is_mindclusters_where_its_other_parts_are(part: str) -> None:
    assert plugin_flavor(parse_ctl({"spec": {part: {"enabled": True}}}).spec) is PluginFlavor.MINDCLUSTER


def test_the_device_plugin_is_ours_by_default_or_by_choice() -> None:
    chosen = parse_ctl({"spec": {"volcano": {"enabled": True}, "devicePlugin": {"flavor": "native"}}}).spec
    assert plugin_flavor(Spec()) is plugin_flavor(chosen) is PluginFlavor.NATIVE


@pytest.mark.parametrize(
    ("limit", "nodes", "allowed"),
    [
        ("25%", 4, 1),
        ("25%", 5, 2),
        ("25%", 1, 1),
        ("1%", 1000, 10),
        ("100%", 7, 7),
        ("25%", 0, 1),
        (3, 2, 3),
        (1, 9, 1),
    ],
)
def test_a_share_is_rounded_up_and_never_nothing(limit: int | str, nodes: int, allowed: int) -> None:
    assert share(limit, of=nodes) == allowed
