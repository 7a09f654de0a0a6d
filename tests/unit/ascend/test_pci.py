"""Chips on the PCI bus and in labels."""

import pytest

from npu_operator.ascend import labels, lspci, pci
from npu_operator.ascend.pci import Function


def a_function(device: int = 0xD802, **changes: object) -> Function:
    fields: dict[str, object] = {"address": "0000:c1:00.0", "vendor": pci.VENDOR, "device": device, "pci_class": 0x1200}
    return Function(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("device", "family"),
    [
        (0xD100, "310"),
        (0xD105, "310b"),
        (0xD107, "310b"),
        (0xD500, "310p"),
        (0xD501, "310p"),
        (0xD801, "910"),
        (0xD802, "910b"),
        (0xD803, "a3"),
        (0xD804, "910b"),
        (0xD806, "950"),
        (0xD807, "950"),
        (0xD808, None),
        (0xA222, None),
    ],
)
def test_the_device_id_tells_the_chip_family(device: int, family: str | None):
    assert pci.chip_family(pci.VENDOR, device) == family


@pytest.mark.parametrize("vendor", [0x20C6, 0x203F, 0x20E9])
def test_a_partner_sells_the_same_chips_under_another_vendor_id(vendor: int):
    assert a_function(vendor=vendor).family == "910b"


@pytest.mark.parametrize(
    ("vendor", "device", "is_ours"), [(0xFFFF, 0xD500, True), (0xFFFF, 0xD802, False), (0x10DE, 0xD802, False)]
)
def test_a_foreign_vendor_is_not_ours(vendor: int, device: int, is_ours: bool):
    assert pci.is_npu(vendor, device) is is_ours


def test_a_network_port_of_the_same_vendor_is_no_npu():
    assert a_function(0xA222, pci_class=0x0200).npus == 0
    assert a_function(0xD802, pci_class=0x0200).npus == 0


@pytest.mark.parametrize(
    ("device", "subdevice", "npus"),
    [
        (0xD500, 0x0100, 1),
        (0xD500, 0x0110, 2),
        (0xD500, 0x011F, 2),
        (0xD501, 0x0111, 2),
        (0xD500, None, 1),
        (0xD802, 0x0110, 1),
    ],
)
def test_a_duo_card_has_two_chips_behind_one_function(device: int, subdevice: int | None, npus: int):
    assert a_function(device, subdevice=subdevice).npus == npus


def test_the_count_of_npus_leaves_out_virtual_and_passed_through_functions():
    functions = [
        a_function(0xD500, subdevice=0x0110),
        a_function(),
        a_function(is_virtual_function=True),
        a_function(0xD805),
        a_function(driver="vfio-pci"),
        a_function(0xA222),
    ]
    assert pci.count_npus(functions) == 3
    assert pci.families(functions) == ("310p", "910b")


def test_the_finest_name_is_told():
    assert a_function(0xD500, subvendor=0x0200, subdevice=0x0110).product == "Atlas 300I Duo"
    assert a_function(0xD802, subvendor=0x19E5, subdevice=0x4000).product == "Atlas 300I A2"
    assert a_function(0xD802).product == "Ascend 910B (A2)"


def test_sysfs_texts_make_a_function():
    found = pci.from_sysfs(
        "0000:C1:00.0",
        {
            "vendor": "0x19e5\n",
            "device": "0xd500\n",
            "subsystem_vendor": "0x0200\n",
            "subsystem_device": "0x0110\n",
            "class": "0x120000\n",
            "numa_node": "3\n",
            "davinci_dev_num": "2\n",
            "driver": "devdrv_device_driver",
        },
    )
    assert found is not None
    assert (found.address, found.pci_class, found.numa_node, found.davinci_dev_num) == ("0000:c1:00.0", 0x1200, 3, 2)
    assert (found.npus, found.is_passthrough) == (2, False)


def test_sysfs_without_ids_or_with_strange_numbers_is_no_trouble():
    assert pci.from_sysfs("0000:01:00.0", {"vendor": "rubbish"}) is None
    found = pci.from_sysfs(
        "odd", {"vendor": "0x19e5", "device": "0xd802", "numa_node": "-1", "davinci_dev_num": "-22", "physfn": ""}
    )
    assert found is not None
    assert (found.address, found.numa_node, found.davinci_dev_num, found.npus) == ("odd", None, -22, 0)


@pytest.mark.parametrize("text", ["0000:C1:00.0", "c1:00.0", "0000:c1:00.0 "])
def test_an_address_has_one_form(text: str):
    assert pci.normal_address(text) == "0000:c1:00.0"


def test_a_masked_address_is_none():
    assert pci.normal_address("0000:xx:00.0") is None


LSPCI = """\
00:1f.0 ISA bridge: Intel Corporation Device a300
0000:81:00.0 Processing accelerators [1200]: Huawei Technologies Co., Ltd. Device [19e5:d500] (rev 23)
\tSubsystem: Huawei Technologies Co., Ltd. Device [0200:0110]
\tKernel driver in use: devdrv_device_driver
7d:00.0 Ethernet controller [0200]: Huawei Technologies Co., Ltd. HNS GE/10GE/25GE RDMA [19e5:a222] (rev 21)
\tKernel driver in use: hns3
c1:00.0 Processing accelerators: Huawei Technologies Co., Ltd. Device d802 (rev 20)
\tKernel driver in use: vfio-pci
c2:00.0 Processing accelerators: Habana Labs Ltd. Device 1020
"""


def test_lspci_shows_ascend_functions_and_nothing_else():
    duo, a2 = lspci.read(LSPCI.splitlines())
    assert (duo.address, duo.npus, duo.driver) == ("0000:81:00.0", 2, "devdrv_device_driver")
    assert (a2.address, a2.family, a2.is_passthrough) == ("0000:c1:00.0", "910b", True)


NFD = "feature.node.kubernetes.io/"


@pytest.mark.parametrize(
    ("label", "chip"),
    [
        ("pci-1200_19e5.present", None),
        ("pci-19e5.present", None),
        ("pci-1200_19e5_d802.present", "910b"),
        ("pci-1200_19e5_d803.sriov.capable", "a3"),
        ("pci-19e5_d500.present", "310p"),
        ("pci-1200_d801.present", "910"),
        ("pci-1200_19e5_d802_19e5_3000.present", "910b"),
        ("pci-1200_20c6_d802.present", "910b"),
        ("pci-1200_20e9.present", None),
        ("pci-1200_19e5_d9ff.present", None),
    ],
)
def test_every_form_of_the_pci_label_is_a_sign(label: str, chip: str | None):
    assert labels.sign_of_npu({NFD + label: "true"}) == labels.Sign(NFD + label, chip)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "label",
    [
        "pci-0200_19e5.present",
        "pci-0200_19e5_a222.present",
        "pci-19e5_a222.present",
        "pci-1200_1da3.present",
        "pci-1200.present",
        "pci-0300_10de.present",
        "pci-20c6.present",
        "pci-d802.present",
        "usb-19e5.present",
    ],
)
def test_labels_of_other_devices_are_no_sign(label: str):
    assert labels.sign_of_npu({NFD + label: "true"}) is None


def test_a_label_that_says_false_is_no_sign():
    assert labels.sign_of_npu({NFD + "pci-1200_19e5.present": "false"}) is None


@pytest.mark.parametrize(
    "pair",
    [
        ("accelerator", "huawei-Ascend910"),
        ("accelerator", "huawei-npu"),
        ("npu", "true"),
        ("workerselector", "dls-worker-node"),
    ],
    ids=lambda pair: "=".join(pair),
)
def test_a_label_set_by_people_is_a_sign_without_chip(pair: tuple[str, str]):
    assert labels.sign_of_npu(dict([pair])) == labels.Sign("=".join(pair))


def test_a_name_in_a_label_never_tells_the_chip():
    found = labels.sign_of_npu({"accelerator": "huawei-Ascend910", "node.kubernetes.io/npu.chip.name": "910B3"})
    assert found is not None
    assert found.chip is None


def test_the_label_that_names_the_device_is_the_best_sign():
    found = labels.sign_of_npu(
        {NFD + "pci-1200_19e5.present": "true", NFD + "pci-1200_19e5_d806.present": "true", "npu": "true"}
    )
    assert found is not None
    assert found.chip == "950"


@pytest.mark.parametrize(
    "pair", [("accelerator", "nvidia-tesla"), ("npu", "false"), ("openfuyao.com/npu.present", "true")], ids=str
)
def test_a_node_without_sign_has_none(pair: tuple[str, str]):
    assert labels.sign_of_npu(dict([pair])) is None
