"""Specs that nobody should get away with, and where the complaint must point.

The unit tests hold the operator's own reading to this list, the cluster tests the real API server, so that both say no
to the same things.
"""

from typing import Any

Spec = dict[str, Any]


def upgrade(**policy: Any) -> Spec:
    return {"driver": {"upgradePolicy": policy}}


def recovery(**policy: Any) -> Spec:
    return {"driver": {"recoveryPolicy": policy}}


UPGRADE = "spec.driver.upgradePolicy"

WRONG: dict[str, tuple[Spec, str, str]] = {
    # what is wrong: (spec, path in the complaint, words in the operator's complaint)
    "a mode that does not exist": ({"mode": "Plans"}, "spec.mode", "did you mean Plan?"),
    "a version with a space": ({"driver": {"version": "25 5"}}, "spec.driver.version", "without spaces"),
    "an empty version": ({"driver": {"version": ""}}, "spec.driver.version", "for example 25.5.0"),
    "a version that is a number": ({"driver": {"version": 25}}, "spec.driver.version", "is 25"),
    "a percentage of 0": (upgrade(maxUnavailable="0%"), f"{UPGRADE}.maxUnavailable", '"1%" to "100%"'),
    "a percentage of 300": (upgrade(maxUnavailable="300%"), f"{UPGRADE}.maxUnavailable", '"1%" to "100%"'),
    "no node at all": (upgrade(maxUnavailable=0), f"{UPGRADE}.maxUnavailable", "from 1"),
    "half a percentage": (upgrade(maxUnavailable="25"), f"{UPGRADE}.maxUnavailable", "percentage"),
    "a fleet that may be sick to 0 %": (
        recovery(maxUnhealthy="0%"),
        "spec.driver.recoveryPolicy.maxUnhealthy",
        "percentage",
    ),
    "a negative number": (upgrade(maxParallelUpgrades=-1), f"{UPGRADE}.maxParallelUpgrades", "from 0"),
    "a word for a switch": (upgrade(autoUpgrade="yes"), f"{UPGRADE}.autoUpgrade", "true or false"),
    "a time-out of a year": (
        upgrade(podDeletion={"timeoutSecond": 31_536_000}),
        f"{UPGRADE}.podDeletion.timeoutSecond",
        "to 2592000",
    ),
    "a deadline of nothing": (upgrade(deadlines={"stageSecond": 0}), f"{UPGRADE}.deadlines.stageSecond", "from 1"),
    "a probe that never fails": (recovery(failures=0), "spec.driver.recoveryPolicy.failures", "from 1"),
    "both spellings of a section": (upgrade(drain={}, drainSpec={}), UPGRADE, "drainSpec and drain"),
    "both spellings of a number": (
        upgrade(waitForCompletion={"timeoutSecond": 1, "timeoutSeconds": 2}),
        f"{UPGRADE}.waitForCompletion",
        "timeoutSecond and timeoutSeconds",
    ),
    "both spellings in recovery": (
        recovery(windowSecond=1, windowSeconds=1),
        "spec.driver.recoveryPolicy",
        "windowSecond and windowSeconds",
    ),
    "a time of day after midnight": (upgrade(window=[{"start": "24:01"}]), f"{UPGRADE}.window[0].start", "22:30"),
    "a window without length": (upgrade(window=[{"start": "01:00", "end": "01:00"}]), f"{UPGRADE}.window[0]", "01:00"),
    "a day that does not exist": (upgrade(window=[{"days": ["Mo"]}]), f"{UPGRADE}.window[0].days[0]", "Mon"),
    "a time zone with a space": (upgrade(window=[{"timeZone": "New York"}]), f"{UPGRADE}.window[0].timeZone", "UTC"),
    "an order by something that is no label": (upgrade(order=["a b"]), f"{UPGRADE}.order[0]", "key of a label"),
    "a chip that does not exist": (
        {"driver": {"perChip": {"911": {"version": "1"}}}},
        "spec.driver.perChip",
        'the key "911"',
    ),
    "a chip without its version": ({"driver": {"perChip": {"950": {}}}}, "spec.driver.perChip.950.version", "missing"),
    "a tag with a slash": (
        {"driver": {"image": {"tags": {"6.6.0": {"910b": "a/b"}}}}},
        "spec.driver.image.tags",
        "image tag",
    ),
    "a repository with a tag": (
        {"driver": {"image": {"repository": "https://x/y:1"}}},
        "spec.driver.image.repository",
        "without tag",
    ),
    "a registry with a scheme": ({"registry": "https://registry.example.com"}, "spec.registry", "without scheme"),
    "a reboot command without words": (
        {"driver": {"reboot": {"method": "command"}}},
        "spec.driver.reboot",
        "method is command",
    ),
    "a resource without a domain": (
        {"devicePlugin": {"resourceNames": {"910b": "Ascend910B"}}},
        "spec.devicePlugin.resourceNames",
        "huawei.com/Ascend910B",
    ),
    "a quantity that is none": (
        {"exporter": {"resources": {"limits": {"memory": "12 apples"}}}},
        "spec.exporter.resources.limits.memory",
        "128Mi",
    ),
    "the same variable twice": (
        {"exporter": {"env": [{"name": "A"}, {"name": "A"}]}},
        "spec.exporter.env",
        "A more than once",
    ),
    "a pull secret that is only a word": ({"imagePullSecrets": ["login"]}, "spec.imagePullSecrets[0]", "an object"),
    "an interval in words": (
        {"exporter": {"serviceMonitor": {"interval": "often"}}},
        "spec.exporter.serviceMonitor.interval",
        "30s",
    ),
    "a list instead of an object": ({"driver": []}, "spec.driver", "is a list"),
}

OPERATOR_ONLY: dict[str, tuple[Spec, str, str]] = {
    # what no schema and no CEL rule says
    "a selector with an open bracket": (
        upgrade(waitForCompletion={"podSelector": "app in (a"}),
        f"{UPGRADE}.waitForCompletion.podSelector",
        'at "app in (a"',
    ),
    "a selector of blanks": (
        upgrade(drainSpec={"podSelector": "app=a b"}),
        f"{UPGRADE}.drainSpec.podSelector",
        "label selector",
    ),
    "a label key with a space": (
        {"placement": {"nodeSelector": {"my key": "x"}}},
        "spec.placement.nodeSelector",
        'the key "my key"',
    ),
}

UNKNOWN: dict[str, tuple[Spec, str, str]] = {
    "a slip of the pen": (upgrade(autoUpgrad=True), f"{UPGRADE}.autoUpgrad", "did you mean autoUpgrade?"),
    "another case": ({"devicePlugin": {"Enabled": False}}, "spec.devicePlugin.Enabled", "did you mean enabled?"),
    "a field in the wrong place": ({"version": "25.5.0"}, "spec.version", "did you mean spec.driver.version?"),
    "a slip in an alias": (
        upgrade(drainspec={"enable": False}),
        f"{UPGRADE}.drainspec",
        "did you mean drainSpec?",
    ),
    "deep in a list": (
        upgrade(window=[{"begin": "01:00"}]),
        f"{UPGRADE}.window[0].begin",
        "known here: days, end, start, timeZone",
    ),
    "inside a map": (
        {"driver": {"perChip": {"950": {"version": "25.7.RC1", "tag": "x"}}}},
        "spec.driver.perChip.950.tag",
        "is not a known field",
    ),
    "nothing like it": ({"llamas": 3}, "spec.llamas", "known here: ascendOperator, clusterD"),
}
