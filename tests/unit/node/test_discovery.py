import asyncio

import pytest

from npu_operator.kube.api import Conflict, Forbidden
from npu_operator.model import names
from npu_operator.node import discovery


def a_function(root, address, vendor, device, pci_class="0x120000"):
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    texts = {"vendor": vendor, "device": device, "class": pci_class, "subsystem_vendor": "0x0200"}
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")
    return folder


@pytest.mark.parametrize(
    ("vendor", "device", "found"),
    [
        ("0x19e5", "0xd802", True),
        ("0x19e5", "0xd500", True),
        ("0x20c6", "0xd802", True),
        ("0x10de", "0x20b5", False),
        ("0x19e5", "0x0222", False),
    ],
    ids=["A2", "310P", "A2 of a partner", "a GPU", "a network card of the same vendor"],
)
def test_only_a_known_npu_on_the_bus_counts(tmp_path, vendor, device, found):
    a_function(tmp_path, "0000:00:01.0", "0x8086", "0x1234", "0x060000")
    a_function(tmp_path, "0000:c1:00.0", vendor, device, "0x120000" if found else "0x020000")
    assert discovery.has_npu(tmp_path) is found


def test_a_machine_without_a_bus_and_a_function_that_cannot_be_read_are_no_npu(tmp_path):
    assert not discovery.has_npu(tmp_path)
    broken = a_function(tmp_path, "0000:c1:00.0", "0x19e5", "0xd802")
    (broken / "device").write_bytes(b"\xff\xfe not a number")
    (broken / "vendor").unlink()
    assert not discovery.has_npu(tmp_path)


class Creating:
    """A cluster that only creates, and says what it is told to say."""

    def __init__(self, error=None):
        self.created = []
        self.error = error

    async def create(self, resource, body, namespace=None, *, manager):
        if self.error is not None:
            raise self.error
        self.created.append((resource.plural, body["metadata"]["name"], body.get("status")))
        return b"{}"


def test_it_creates_the_npunode_of_its_own_node_and_nothing_in_it():
    cluster = Creating()
    assert asyncio.run(discovery.tell(cluster, "a1")) == ""
    assert cluster.created == [(names.NODE_PLURAL, "a1", None)]


def test_an_npunode_that_exists_is_as_good():
    assert asyncio.run(discovery.tell(Creating(Conflict("exists", status=409)), "a1")) == ""


def test_a_refusal_is_told_in_the_servers_words():
    refused = Forbidden("create npunodes a1: forbidden", status=403)
    assert asyncio.run(discovery.tell(Creating(refused), "a1")) == "create npunodes a1: forbidden"


def test_without_a_node_name_it_does_not_start():
    with pytest.raises(KeyError):
        discovery.from_environment({})
