"""Bodies of objects that contract tests write; each names only what a test is about."""

from typing import Any

from npu_operator.kube import api
from npu_operator.kube.api import Object, Resource


def a_daemon_set(name: str, **template: Any) -> Object:
    """A DaemonSet that no node matches; `template` goes into its pod spec."""
    pod = {
        "nodeSelector": {"contract.example.com/nowhere": "true"},
        "containers": [{"name": "main", "image": "registry.example.com/main:1"}],
        **template,
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def a_pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod on a node that does not exist, so that nobody runs it."""
    containers = [{"name": "main", "image": "registry.example.com/main:1"}]
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"nodeName": "contract-nowhere", "containers": containers, **spec},
    }


def running(*, ready: bool = True) -> Object:
    """A status patch of a running pod."""
    return {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}}


WIDGET_SCHEMA: Object = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10},
                "mode": {"type": "string", "enum": ["Quiet", "Loud"], "default": "Quiet"},
                "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
                "share": {
                    "x-kubernetes-int-or-string": True,
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                    "pattern": "^[0-9]+%$",
                },
                "items": {
                    "type": "array",
                    "maxItems": 3,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["key"],
                    "items": {
                        "type": "object",
                        "required": ["key"],
                        "properties": {"key": {"type": "string"}, "value": {"type": "string"}},
                    },
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "plain": {"type": "array", "minItems": 1, "items": {"type": "integer"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "named": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}},
                "flag": {"type": "boolean"},
                "maybe": {"type": "string", "nullable": True},
                "step": {"type": "number", "multipleOf": 0.5},
                "since": {"type": "string", "format": "date-time"},
                "inner": {
                    "type": "object",
                    "default": {"a": 1},
                    "properties": {"a": {"type": "integer"}, "b": {"type": "string", "default": "x"}},
                },
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"type": "string"},
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "count": {"type": "integer"},
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                },
            },
        },
    },
}


def a_definition(widgets: Resource, *, schema: Object = WIDGET_SCHEMA, has_status: bool = True) -> Object:
    """The definition of a kind of widget."""
    version: Object = {"name": widgets.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if has_status:
        version["subresources"] = {"status": {}}
    return {
        "metadata": {"name": f"{widgets.plural}.{widgets.group}"},
        "spec": {
            "group": widgets.group,
            "scope": "Namespaced" if widgets.namespaced else "Cluster",
            "names": {"plural": widgets.plural, "kind": widgets.kind},
            "versions": [version],
        },
    }


async def widgets_of(c: Any, *, namespaced: bool = True, **options: Any) -> Resource:
    """A custom kind that only this test uses, served."""
    number = c.name("w").replace("-", "")
    widgets = Resource("contract.example.com", "v1", number, number.capitalize(), namespaced=namespaced)
    await c.create(api.CUSTOM_RESOURCE_DEFINITIONS, a_definition(widgets, **options))
    await c.served(widgets)
    return widgets
