"""The cache: the newer picture stays, whoever brings it, and only real changes are told."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_operator.kube import objects
from npu_operator.kube.objects import Meta, Slim
from npu_operator.kube.store import Store


class Thing(Slim, frozen=True):
    color: str = "red"


def a_thing(name: str = "a", version: int | str = 1, color: str = "red", **metadata) -> Thing:
    return Thing(Meta(name=name, resource_version=str(version), **metadata), color)


class Told:
    """A store and what its listeners heard."""

    def __init__(self) -> None:
        self.store: Store[Thing] = Store({"color": lambda thing: (thing.color,)})
        self.heard: list[tuple[str | None, str | None]] = []
        self.store.on_change(lambda old, new: self.heard.append((old and old.color, new and new.color)))


def test_an_object_is_found_by_namespace_and_name():
    store: Store[Thing] = Store()
    store.put(a_thing("a", namespace="x"))
    store.put(a_thing("b"))
    assert sorted(store.view) == ["b", "x/a"]
    assert store.get("x/a").metadata.name == "a"
    assert store.get("a") is None


def test_a_stale_event_does_not_undo_our_own_write():
    told = Told()
    told.store.put(a_thing(version=5))
    told.store.put(a_thing(version=8, color="blue"))  # the answer to our write
    assert told.store.put(a_thing(version=6, color="green")) is False  # the watch lags behind
    assert told.store.put(a_thing(version=8, color="blue")) is False
    assert told.store.get("a").color == "blue"
    assert told.heard == [(None, "red"), ("red", "blue")]


def test_versions_are_compared_as_numbers():
    store: Store[Thing] = Store()
    store.put(a_thing(version=9))
    store.put(a_thing(version=10, color="blue"))
    assert store.get("a").color == "blue"


def test_a_late_answer_does_not_bring_a_deleted_object_back():
    told = Told()
    told.store.put(a_thing(version=5))
    assert told.store.remove("a", "9")
    assert told.store.put(a_thing(version=8, color="blue")) is False
    assert len(told.store) == 0
    assert told.heard == [(None, "red"), ("red", None)]


def test_an_object_made_anew_after_its_deletion_is_there():
    store: Store[Thing] = Store()
    store.put(a_thing(version=5))
    store.remove("a", "9")
    assert store.put(a_thing(version=12, color="blue"))
    assert store.remove("a", "9") is False  # the same deletion, told again
    assert store.get("a").color == "blue"


def test_a_deletion_that_was_told_before_the_answer_to_our_write_wins():
    store: Store[Thing] = Store()
    store.remove("a", "9")  # never seen, but deleted
    assert store.put(a_thing(version=9)) is False


def test_a_new_version_without_news_is_no_change_but_is_remembered():
    told = Told()
    told.store.put(a_thing(version=5))
    assert told.store.put(a_thing(version=6))
    assert told.heard == [(None, "red")]
    assert told.store.get("a").metadata.resource_version == "6"


def test_the_same_version_read_more_closely_is_a_change():
    told = Told()
    told.store.put(a_thing(version=5))
    assert told.store.put(a_thing(version=5, color="blue"))
    assert told.heard[-1] == ("red", "blue")


def test_a_list_removes_what_it_does_not_show_but_not_what_we_made_since():
    told = Told()
    told.store.put(a_thing("old", version=3))
    told.store.put(a_thing("kept", version=4))
    told.store.put(a_thing("ours", version=12))
    assert told.store.remove_others({"kept"}, "10") == 1
    assert sorted(told.store.view) == ["kept", "ours"]


def test_after_a_restored_cluster_lower_versions_are_believed():
    told = Told()
    told.store.put(a_thing("a", version=1000))
    told.store.put(a_thing("b", version=1001))
    told.store.remove("c", "1002")
    told.store.forget_versions()
    assert told.store.put(a_thing("a", version=50, color="blue"))
    assert told.store.put(a_thing("c", version=51))
    assert told.store.put(a_thing("a", version=49)) is False
    assert told.store.remove_others({"a", "c"}, "60") == 1
    assert told.store.get("a").color == "blue"
    assert told.heard == [(None, "red"), (None, "red"), ("red", "blue"), (None, "red"), ("red", None)]


def test_versions_that_are_no_numbers_are_taken_in_order():
    store: Store[Thing] = Store()
    store.put(a_thing(version="b"))
    assert store.put(a_thing(version="a", color="blue"))
    assert store.remove("a", "x")
    assert store.put(a_thing(version="a"))


def test_an_index_follows_each_change():
    store = Told().store
    store.put(a_thing("b", version=1))
    store.put(a_thing("a", version=2))
    assert [thing.metadata.name for thing in store.by("color", "red")] == ["a", "b"]
    store.put(a_thing("a", version=3, color="blue"))
    assert [thing.metadata.name for thing in store.by("color", "red")] == ["b"]
    store.remove("b", "4")
    assert store.by("color", "red") == []
    with pytest.raises(KeyError):
        store.by("shape", "round")


def test_a_snapshot_keeps_still_and_is_shared_while_nothing_changes():
    store: Store[Thing] = Store()
    store.put(a_thing(version=1))
    before = store.snapshot()
    assert store.snapshot() is before
    store.put(a_thing(version=2, color="blue"))
    assert before["a"].color == "red"
    assert store.snapshot()["a"].color == "blue"
    with pytest.raises(TypeError):
        store.view["a"] = a_thing()


@given(st.permutations(range(1, 9)), st.integers(1, 8), st.integers(0, 8))
def test_whatever_the_order_the_newest_picture_wins(order, deleted_at, repeats):
    """Events and answers of the same eight writes, the one at `deleted_at` a deletion, in any order."""
    store: Store[Thing] = Store()
    for version in (*order, *order[:repeats]):
        if version == deleted_at:
            store.remove("a", str(version))
        else:
            store.put(a_thing(version=version))
    expected = None if deleted_at == 8 else "8"
    found = store.get("a")
    assert (found and found.metadata.resource_version) == expected


def test_a_whole_object_is_the_same_when_only_its_version_differs():
    first = objects.decode_whole(
        b'{"metadata":{"name":"a","resourceVersion":"1","managedFields":[1]},"data":{"x":"y"}}'
    )
    second = objects.decode_whole(b'{"metadata":{"name":"a","resourceVersion":"2"},"data":{"x":"y"}}')
    third = objects.decode_whole(b'{"metadata":{"name":"a","resourceVersion":"2"},"data":{"x":"z"}}')
    assert "managedFields" not in first.body["metadata"]
    assert objects.is_same_but_for_version(first, second)
    assert not objects.is_same_but_for_version(second, third)


def test_only_wanted_labels_are_kept_and_equal_strings_are_shared():
    decode = objects.decoder(Thing, objects.Keep(labels=("npu.",), annotations=()))
    raw = (
        b'{"metadata":{"name":"a","labels":{"npu.x":"some-value","other":"1"},"annotations":{"a":"b"}},'
        b'"color":"blue","ignored":[1,2]}'
    )
    one, other = decode(raw), decode(msgspec.Raw(raw))
    assert one.metadata.labels == {"npu.x": "some-value"}
    assert one.metadata.annotations == {}
    assert one.color == "blue"
    assert one.metadata.labels["npu.x"] is other.metadata.labels["npu.x"]
