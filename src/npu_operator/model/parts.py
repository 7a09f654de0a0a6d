"""The pieces of pod specs that every component takes, in Kubernetes' own words."""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, field

from .fields import IntOrText, Keyed, LabelKey, LabelValue, Name, Part, Pattern, Rule, Section

Quantity = Annotated[
    int | str,
    Meta(max_length=64),
    IntOrText(
        0,
        r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?",
        "must be a quantity, for example 500m, 2 or 128Mi",
        spoken=False,
    ),
]
Tag = Annotated[
    str,
    Meta(max_length=128),
    Pattern(
        "([A-Za-z0-9_][A-Za-z0-9_.-]*)?",
        "must be an image tag of letters, digits, dots, underscores and dashes, for example v7.3.0",
    ),
]
Repository = Annotated[
    str,
    Meta(max_length=255),
    Pattern(
        "([a-zA-Z0-9][a-zA-Z0-9._:-]*(/[a-z0-9][a-z0-9._-]*)*)?",
        "must be the name of an image repository without tag and scheme, for example mlops/ascend-driver",
    ),
]
EnvName = Annotated[
    str,
    Meta(min_length=1, max_length=256),
    Pattern("[-._a-zA-Z][-._a-zA-Z0-9]*", "must be the name of an environment variable, for example HTTPS_PROXY"),
]


class PullPolicy(StrEnum):
    """When the kubelet pulls an image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class TolerationOperator(StrEnum):
    """How a toleration compares."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it; empty in a toleration: any."""

    ANY = ""
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Image(Part, frozen=True, kw_only=True):
    """Where an image comes from. What is empty is the image that this release of the operator was tested with."""

    repository: Annotated[
        Repository, "Repository with or without a registry host; without one, `registry` of the spec comes first."
    ] = ""
    tag: Annotated[Tag, "Tag of the image."] = ""
    digest: Annotated[
        str,
        Meta(max_length=71),
        Pattern("(sha256:[0-9a-f]{64})?", "must be a digest of the form sha256:<64 hex digits>"),
        "Digest of the image; when set, it decides and the tag is only for people.",
    ] = ""
    pull_policy: Annotated[PullPolicy, "When the kubelet pulls the image."] = PullPolicy.IF_NOT_PRESENT


class Resources(Part, frozen=True, kw_only=True):
    """Requests and limits of the component's main container, as in a pod."""

    limits: Annotated[dict[Name, Quantity], Meta(max_length=16), "Limits by resource name."] = field(
        default_factory=dict
    )
    requests: Annotated[dict[Name, Quantity], Meta(max_length=16), "Requests by resource name."] = field(
        default_factory=dict
    )


class Toleration(Part, frozen=True, kw_only=True):
    """A taint that the pods tolerate, as in a pod."""

    rules = (
        Rule(
            "!has(self.key) || self.key != '' || (has(self.operator) && self.operator == 'Exists')",
            "a toleration without key needs operator Exists",
        ),
        Rule(
            "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
            "a toleration with operator Exists takes no value",
        ),
        Rule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "tolerationSeconds needs effect NoExecute",
        ),
    )

    key: Annotated[str, Meta(max_length=317), "Key of the taint; empty, with operator Exists: every taint."] = ""
    operator: Annotated[TolerationOperator, "Equal compares key and value, Exists the key alone."] = (
        TolerationOperator.EQUAL
    )
    value: Annotated[LabelValue, "Value of the taint."] = ""
    effect: Annotated[TaintEffect, "Effect of the taint; empty: every effect."] = TaintEffect.ANY
    toleration_seconds: Annotated[int | None, "Seconds the pod stays under a NoExecute taint; not set: for ever."] = (
        None
    )


class Affinity(Part, frozen=True, kw_only=True):
    """Scheduling affinity, as in a pod; what is inside is checked when the pods are made."""

    node_affinity: Annotated[dict[str, Any], "As in a pod."] = field(default_factory=dict)
    pod_affinity: Annotated[dict[str, Any], "As in a pod."] = field(default_factory=dict)
    pod_anti_affinity: Annotated[dict[str, Any], "As in a pod."] = field(default_factory=dict)


class EnvVar(Part, frozen=True, kw_only=True):
    """An environment variable, as in a pod. A name that the component sets itself is replaced, never doubled."""

    rules = (Rule("!(has(self.value) && self.value != '' && has(self.valueFrom))", "set value or valueFrom, not both"),)

    name: Annotated[EnvName, "Name of the variable."]
    value: Annotated[str, Meta(max_length=32768), "Value of the variable."] = ""
    value_from: Annotated[dict[str, Any], "Source of the value, as in a pod."] = field(default_factory=dict)


class PullSecret(Part, frozen=True, kw_only=True):
    """The name of a Secret in the operator's namespace."""

    name: Annotated[
        str,
        Meta(min_length=1, max_length=253),
        Pattern("[a-z0-9]([-a-z0-9.]*[a-z0-9])?", "must be the name of a Secret, for example registry-login"),
        "Name of the Secret.",
    ]


NodeSelector = Annotated[dict[LabelKey, LabelValue], Meta(max_length=32)]
Tolerations = Annotated[tuple[Toleration, ...], Meta(max_length=64)]


class Placed(Section, frozen=True, kw_only=True):
    """What every component takes besides its image. Lists and maps add to those of `placement`."""

    resources: Annotated[Resources, "Requests and limits of the main container."] = Resources()
    node_selector: Annotated[NodeSelector, "Further labels a node must have to run the component."] = field(
        default_factory=dict
    )
    tolerations: Annotated[Tolerations, "Further taints the component tolerates."] = ()
    affinity: Annotated[Affinity, "Scheduling affinity of the component."] = Affinity()
    priority_class_name: Annotated[
        str, Meta(max_length=253), "PriorityClass of the component; empty: that of `placement`."
    ] = ""
    env: Annotated[
        tuple[EnvVar, ...], Meta(max_length=128), Keyed("name"), "Further environment variables, merged by name."
    ] = ()


class Component(Placed, frozen=True, kw_only=True):
    """A part that the operator deploys."""

    image: Annotated[Image, "Image of the component."] = Image()


class Switched(Component, frozen=True, kw_only=True):
    """A part that is off unless it is switched on."""

    enabled: Annotated[bool, "Whether the part is deployed."] = False
