import pytest

from npu_operator.components.quantity import canonical

# (as written, as kube-apiserver keeps it); tests/cluster/test_components.py asks a real server about the same pairs.
PAIRS = [
    ("500m", "500m"),
    ("0.5", "500m"),
    ("1000m", "1"),
    ("1500m", "1500m"),
    ("1.5", "1500m"),
    (2, "2"),
    ("1000", "1k"),
    ("+1", "1"),
    (".5", "500m"),
    ("1.", "1"),
    ("0.0001m", "1m"),
    ("1500u", "2m"),
    ("100n", "1m"),
    ("1024Mi", "1Gi"),
    ("1500Mi", "1500Mi"),
    ("1000Mi", "1000Mi"),
    ("0.5Gi", "512Mi"),
    ("1.5Gi", "1536Mi"),
    ("0.5Ki", "512"),
    ("1Ki", "1Ki"),
    ("0.1Gi", "107374182400m"),
    ("1024", "1024"),
    ("128974848", "128974848"),
    ("129e6", "129e6"),
    ("1e3", "1e3"),
    ("12E2", "1200"),
    ("100M", "100M"),
    ("1000M", "1G"),
    ("0", "0"),
    ("0Mi", "0"),
]


@pytest.mark.parametrize(("written", "kept"), PAIRS)
def test_a_quantity_is_written_as_the_api_server_keeps_it(written, kept):
    assert canonical(written) == kept


@pytest.mark.parametrize("kept", [kept for _, kept in PAIRS])
def test_a_canonical_quantity_stays_as_it_is(kept):
    assert canonical(kept) == kept


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "one", "1gb", "--1", "1K"])
def test_what_is_no_quantity_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="write for example 500m, 2 or 1Gi"):
        canonical(text)
