"""The syntax of label selectors."""

import pytest

from npu_operator.model.selectors import wrong_part


@pytest.mark.parametrize(
    "selector",
    [
        "", " ", "app", "!app", "app=web", "app==web", "app!=web", "app=", "a=b,c=d", "app in (a,b)", "a in ( b , c )",
        "tier notin (x)", "app.kubernetes.io/name in (a),!skip,b!=c", "a = b", "volcano.sh/job-name=x-1.2_3",
    ],
)  # fmt: skip
def test_what_kubectl_takes_is_fine(selector: str) -> None:
    assert wrong_part(selector) is None


@pytest.mark.parametrize(
    ("selector", "part"),
    [
        ("app in (a", "app in (a"),
        ("ok=1,app=a b", "app=a b"),
        ("=x", "=x"),
        ("-a=b", "-a=b"),
        ("a=b=c", "a=b=c"),
        ("app in a", "app in a"),
        ("a/b/c=d", "a/b/c=d"),
        ("a=" + "x" * 64, "a=" + "x" * 64),
    ],
)
def test_the_wrong_part_is_named(selector: str, part: str) -> None:
    assert wrong_part(selector) == part


def test_a_trailing_comma_is_wrong() -> None:
    assert wrong_part("a=b,") is not None
