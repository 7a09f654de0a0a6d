"""The fence around our agents: each may write the NPUNode of its own node, and there only what is its business.

A ValidatingAdmissionPolicy compares the object's name with the node that the token was made for. The claim is put into
tokens of pods by the API server and cannot be chosen by the pod (KEP-4193, on by default since Kubernetes 1.30), so a
stolen token is worth one node's report. Everybody else's requests pass by unread. Source: product.md §2.
"""

from collections.abc import Iterable

import msgspec

from npu_operator.components.facts import ClusterFacts
from npu_operator.components.labels import Object
from npu_operator.components.placement import metadata
from npu_operator.model import names

COMPONENT = "Rbac"
GROUP = "admissionregistration.k8s.io"
NAME = "npu-operator-agents"
NODE_CLAIM = "authentication.kubernetes.io/node-name"

VARIABLES = {
    "node": f"request.userInfo.?extra['{NODE_CLAIM}'][?0].orValue('')",
    "name": "object == null ? request.name : object.metadata.name",
}


class Rule(msgspec.Struct, frozen=True):
    """A CEL expression that must hold, and another one that says what is wrong when it does not."""

    must: str
    message: str


RULES = (
    Rule(
        "variables.node != '' && variables.node == variables.name",
        f"'an agent may write only the {names.NODE_KIND} of its own node; this token belongs to ' + "
        "(variables.node == '' ? 'no node' : 'node ' + variables.node) + ', the object is ' + variables.name",
    ),
    Rule(
        "request.operation == 'CREATE' || "
        "(request.operation == 'UPDATE' && request.?subResource.orValue('') == 'status')",
        f"'an agent may create the {names.NODE_KIND} of its node and write its status, nothing else'",
    ),
    Rule(
        "request.operation != 'CREATE' || "
        "(size(object.?spec.isolatedChips.orValue([])) == 0 && !has(object.status) && "
        "!has(object.metadata.ownerReferences) && !has(object.metadata.finalizers))",
        f"'an agent creates an empty {names.NODE_KIND}: no isolated chips, status, owner or finalizer'",
    ),
    Rule(
        "request.operation != 'UPDATE' || (object.?spec == oldObject.?spec && "
        "object.?status.plan == oldObject.?status.plan)",
        "'an agent writes status.found; spec belongs to people and status.plan to the operator'",
    ),
)


def build(facts: ClusterFacts, accounts: Iterable[str]) -> tuple[Object, ...]:
    """The policy for these ServiceAccounts, and the binding that puts it in force."""
    users = ", ".join(f"'system:serviceaccount:{facts.namespace}:{account}'" for account in accounts)
    policy: Object = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(NAME, COMPONENT, facts, namespaced=False),
        "spec": {
            "failurePolicy": "Fail",
            "matchConditions": [{"expression": f"request.userInfo.username in [{users}]", "name": "is-our-agent"}],
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [names.GROUP],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": [names.NODE_PLURAL, f"{names.NODE_PLURAL}/status"],
                        "scope": "*",
                    }
                ]
            },
            "validations": [
                {"expression": rule.must, "messageExpression": rule.message, "reason": "Forbidden"} for rule in RULES
            ],
            "variables": [{"expression": expression, "name": name} for name, expression in VARIABLES.items()],
        },
    }
    binding: Object = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata(NAME, COMPONENT, facts, namespaced=False),
        "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    }
    return (policy, binding)
