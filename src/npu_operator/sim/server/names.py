"""Which names, labels and annotations an API server takes.

Source: apimachinery `pkg/util/validation` and `pkg/api/validation` (1.34); regular expressions and words as there.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from npu_operator.sim.server.refusals import Cause, not_allowed, required, wrong

NAME_LIMIT: Final = 253
LABEL_LIMIT: Final = 63
ANNOTATIONS_LIMIT_BYTES: Final = 256 * 1024

STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_CONFIG_KEY = r"[-._a-zA-Z0-9]+"

Complaints = Iterator[str]
NameRule = Callable[[str], Complaints]


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def _at_most(limit: int) -> str:
    return f"must be no more than {limit} characters"


def subdomain(name: str) -> Complaints:
    """The rule for most names."""
    if len(name) > NAME_LIMIT:
        yield _at_most(NAME_LIMIT)
    if not _matches(_SUBDOMAIN, name):
        yield (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character "
            f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
        )


def label(name: str) -> Complaints:
    """The rule for container names, handlers and namespaces."""
    if len(name) > LABEL_LIMIT:
        yield _at_most(LABEL_LIMIT)
    if not _matches(_LABEL, name):
        if _matches(_SUBDOMAIN, name):
            yield "must not contain dots"
        else:
            yield (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
                "and end with an alphanumeric character "
                f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
            )


def dns_1035(name: str) -> Complaints:
    """The rule for Services."""
    if len(name) > LABEL_LIMIT:
        yield _at_most(LABEL_LIMIT)
    if not _matches(_DNS_1035, name):
        yield (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character "
            f"(e.g. 'my-name',  or 'abc-123', regex used for validation is '{_DNS_1035}')"
        )


def path_segment(name: str) -> Complaints:
    """The rule for RBAC objects, which may have colons."""
    if name in (".", ".."):
        yield f"may not be '{name}'"
    yield from (f"may not contain '{sign}'" for sign in ("/", "%") if sign in name)


def qualified(name: str) -> Complaints:
    """The rule for keys of labels and annotations: `[prefix/]name`."""
    prefix, slash, part = name.rpartition("/")
    if "/" in prefix:
        yield (f"{_name_words()} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {complaint}" for complaint in subdomain(prefix))
    if not part:
        yield "name part must be non-empty"
    elif len(part) > LABEL_LIMIT:
        yield f"name part {_at_most(LABEL_LIMIT)}"
    if not _matches(_QUALIFIED, part):
        yield f"name part {_name_words()}"


def _name_words() -> str:
    return (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
        f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
    )


def label_value(value: str) -> Complaints:
    """The rule for values of labels."""
    if len(value) > LABEL_LIMIT:
        yield _at_most(LABEL_LIMIT)
    if not _matches(_VALUE, value):
        yield (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character "
            f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
        )


def config_key(key: str) -> Complaints:
    """The rule for keys of ConfigMaps and Secrets."""
    if not _matches(_CONFIG_KEY, key):
        yield (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
            f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_CONFIG_KEY}')"
        )


def labels(values: Mapping[str, str], field: str) -> Iterator[Cause]:
    """What is wrong with a map of labels."""
    for key, value in values.items():
        yield from (wrong(field, key, why) for why in qualified(key))
        yield from (wrong(field, value, why) for why in label_value(value))


def metadata(
    new: Mapping[str, Any], old: Mapping[str, Any] | None, rule: NameRule, *, is_core: bool
) -> Iterator[Cause]:
    """What is wrong with an object's metadata; parts that did not change are not looked at again.

    The core group (`is_core`) is stricter about finalizers.
    """
    before: Mapping[str, Any] = old or {}
    name = new.get("name", "")
    if old is None:
        if not name:
            yield required("metadata.name", "name or generateName is required")
        yield from (wrong("metadata.name", name, why) for why in rule(name))
    if new.get("labels") is not before.get("labels"):
        yield from labels(new.get("labels", {}), "metadata.labels")
    if new.get("annotations") is not before.get("annotations"):
        yield from _annotations(new.get("annotations", {}))
    if new.get("ownerReferences") is not before.get("ownerReferences"):
        yield from _owners(new.get("ownerReferences", []))
    if new.get("finalizers") is not before.get("finalizers"):
        for index, finalizer in enumerate(new.get("finalizers", [])):
            yield from (wrong("metadata.finalizers", finalizer, why) for why in qualified(finalizer))
            if is_core and "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
                why = "name is neither a standard finalizer name nor is it fully qualified"
                yield wrong(f"metadata.finalizers[{index}]", finalizer, why)
        yield from _late_finalizers(new.get("finalizers", []), before)


def _annotations(values: Mapping[str, str]) -> Iterator[Cause]:
    for key in values:
        yield from (wrong("metadata.annotations", key, why) for why in qualified(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in values.items()) > ANNOTATIONS_LIMIT_BYTES:
        yield Cause(
            "FieldValueTooLong",
            f"Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes",
            "metadata.annotations",
        )


def _owners(references: list[dict[str, Any]]) -> Iterator[Cause]:
    for reference in references:
        for key in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(key):
                yield wrong(
                    f"metadata.ownerReferences.{key}", reference.get(key, ""), f"{_short(key)} must not be empty"
                )
    controllers = [reference for reference in references if reference.get("controller")]
    if len(controllers) > 1:
        listed = " and ".join(f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers[:2])
        yield wrong(
            "metadata.ownerReferences",
            references,
            f"Only one reference can have Controller set to true. Found {listed}",
        )


def _short(key: str) -> str:
    return {"apiVersion": "version"}.get(key, key)


def _late_finalizers(finalizers: list[str], before: Mapping[str, Any]) -> Iterator[Cause]:
    if "deletionTimestamp" not in before:
        return
    added = sorted(set(finalizers) - set(before.get("finalizers", [])))
    if added:
        listed = ", ".join(f'"{name}"' for name in added)
        yield not_allowed(
            "metadata.finalizers",
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}",
        )
