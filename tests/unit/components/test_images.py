import pytest

from npu_operator.components import images
from npu_operator.model.parts import Image

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("mlops/ascend-driver", ("mlops/ascend-driver", "", "")),
        ("npu-operator:0.1.0", ("npu-operator", "0.1.0", "")),
        ("localhost:5000/npu-operator", ("localhost:5000/npu-operator", "", "")),
        ("localhost:5000/npu-operator:1", ("localhost:5000/npu-operator", "1", "")),
        (f"host/a/b:1@{DIGEST}", ("host/a/b", "1", DIGEST)),
        (f"host:5000/a@{DIGEST}", ("host:5000/a", "", DIGEST)),
    ],
)
def test_a_reference_is_taken_apart_and_put_together_again(text, parts):
    reference = images.parse(text)
    assert (reference.repository, reference.tag, reference.digest) == parts
    assert str(reference) == text


@pytest.mark.parametrize(
    ("repository", "placed"),
    [
        ("mlops/ascend-driver", "mirror.local/hub/mlops/ascend-driver"),
        ("npu-operator", "mirror.local/hub/npu-operator"),
        ("registry.example.com/npu-operator", "registry.example.com/npu-operator"),
        ("registry:5000/npu-operator", "registry:5000/npu-operator"),
        ("localhost/npu-operator", "localhost/npu-operator"),
    ],
)
def test_the_registry_goes_before_images_without_a_host_only(repository, placed):
    assert images.with_registry(repository, "mirror.local/hub") == placed
    assert images.with_registry(repository, "") == repository


@pytest.mark.parametrize(
    ("image", "found"),
    [
        (Image(), f"host.io/op:1@{DIGEST}"),
        (Image(tag="2"), "host.io/op:2"),
        (Image(repository="other/agent"), f"mirror/other/agent:1@{DIGEST}"),
        (Image(repository="other/agent", tag="2"), "mirror/other/agent:2"),
        (Image(digest="sha256:" + "00" * 32), "host.io/op:1@sha256:" + "00" * 32),
    ],
)
def test_what_the_spec_leaves_empty_is_the_releases_own(image, found):
    assert images.overridden(f"host.io/op:1@{DIGEST}", image, "mirror") == found


def test_names_of_images_of_ours_stand_in_one_place(request):
    sources = (request.config.rootpath / "src" / "npu_operator" / "components").glob("*.py")
    literal = f'"{images.OPERATOR_REPOSITORY}:'
    assert [path.name for path in sources if literal in path.read_text() or "mlops/" in path.read_text()] == []
