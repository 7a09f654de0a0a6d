"""Which image a node gets, by its kernel."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_operator.ascend import tags
from npu_operator.ascend.pci import CHIP_FAMILIES

KERNELS = [
    # uname -r, os-release ID and VERSION_ID, kernel in the tag, stem
    ("6.6.0-145.0.4.135.oe2403sp3.aarch64", "KubeOS", "", "6.6.0-145.0.4.135", "oe2403sp3"),
    ("6.6.0-144.0.0.130.oe2403sp3.aarch64", "openEuler", "24.03", "6.6.0-144.0.0.130", "oe2403sp3"),
    ("6.6.0-28.0.0.34.oe2403.x86_64", "openEuler", "24.03", "6.6.0-28.0.0.34", "oe2403"),
    ("5.10.0-216.0.0.115.oe2203sp4.aarch64", "openEuler", "22.03", "5.10.0-216.0.0.115", "oe2203sp4"),
    ("5.10.0-60.18.0.50.oe2203.aarch64", "openEuler", "22.03", "5.10.0-60.18.0.50", "oe2203"),
    ("4.19.90-2112.8.0.0131.oe1.aarch64", "openEuler", "20.03", "4.19.90-2112.8.0.0131", "oe1"),
    ("5.10.0-60.18.0.50.r865_35.hce2.aarch64", "hce", "2.0", "5.10.0-60.18.0.50.r865_35", "hce2"),
    ("4.19.90-52.22.v2207.ky10.aarch64", "kylin", "V10", "4.19.90-52.22.v2207", "ky10"),
    ("4.19.90-25.24.v2101.ky10.x86_64", "kylin", "V10", "4.19.90-25.24.v2101", "ky10"),
    ("6.6.0-32.7.v2505.ky11.aarch64", "kylin", "V11", "6.6.0-32.7.v2505", "ky11"),
    ("3.10.0-1160.119.1.el7.x86_64", "centos", "7", "3.10.0-1160.119.1", "el7"),
    ("4.18.0-80.7.2.el7.aarch64", "centos", "7", "4.18.0-80.7.2", "el7"),
    ("4.18.0-553.el8_10.x86_64", "rocky", "8.10", "4.18.0-553", "el8_10"),
    ("5.14.0-427.13.1.el9_4.aarch64", "rhel", "9.4", "5.14.0-427.13.1", "el9_4"),
    # no mark of the list at the end: the whole release, and the stem from os-release
    ("5.10.0-60.18.0.50.0e2203.aarch64", "openEuler", "22.03", "5.10.0-60.18.0.50.0e2203", "openEuler2203"),
    (
        "5.10.0-136.49.0.127.10.oe2203.bclinux.aarch64",
        "bclinux",
        "22.10",
        "5.10.0-136.49.0.127.10.oe2203.bclinux",
        "bclinux2210",
    ),
    (
        "4.19.90-vhulk2211.3.0.h1543.eulerosv2r10.aarch64",
        "euleros",
        "2.0",
        "4.19.90-vhulk2211.3.0.h1543.eulerosv2r10",
        "euleros20",
    ),
    ("4.19.90-2102.2.0.0062.ctl2.aarch64", "ctyunos", "2.0.1", "4.19.90-2102.2.0.0062.ctl2", "ctyunos201"),
    ("4.19.0-91.82.152.uelc20.x86_64", "uos", "20", "4.19.0-91.82.152.uelc20", "uos20"),
    ("6.1.0-1.el7.elrepo.x86_64", "centos", "7", "6.1.0-1.el7.elrepo", "centos7"),
    ("5.15.0-91-generic", "ubuntu", "22.04", "5.15.0-91-generic", "ubuntu2204"),
    ("6.8.0-45-generic", "ubuntu", "24.04", "6.8.0-45-generic", "ubuntu2404"),
    ("4.15.0-213-generic", "ubuntu", "18.04", "4.15.0-213-generic", "ubuntu1804"),
    ("6.1.0-18-arm64", "debian", "12", "6.1.0-18-arm64", "debian12"),
    ("5.10.0-28-amd64", "debian", "11", "5.10.0-28-amd64", "debian11"),
    ("6.6.0-custom", "KubeOS", "", "6.6.0-custom", "KubeOS"),
    ("6.6.0-custom+", "", "", "6.6.0-custom_", "linux"),
    ("5.10.134-16.al8.x86_64", "alinux", "3 (OpenAnolis)", "5.10.134-16.al8", "alinux3__OpenAnolis_"),
]


@pytest.mark.parametrize(("uname_r", "os_id", "version_id", "kernel", "stem"), KERNELS, ids=[row[0] for row in KERNELS])
def test_a_kernel_gives_its_tag(uname_r: str, os_id: str, version_id: str, kernel: str, stem: str):
    assert tags.image_tag("25.5.0", "910b", uname_r, os_id, version_id) == f"25.5.0-910b-{kernel}-{stem}"


def test_the_example_of_the_documents_is_met():
    assert (
        tags.image_tag("25.5.0", "910b", "6.6.0-145.0.4.135.oe2403sp3.aarch64", "KubeOS")
        == "25.5.0-910b-6.6.0-145.0.4.135-oe2403sp3"
    )


def test_both_architectures_share_one_tag():
    arm, x86 = (tags.image_tag("25.3.RC1", "a3", f"6.6.0-1.oe2403.{arch}") for arch in ("aarch64", "x86_64"))
    assert arm == x86 == "25.3.RC1-a3-6.6.0-1-oe2403"


def test_a_mark_alone_is_no_kernel():
    assert tags.split_kernel("oe2403", "openEuler", "24.03") == tags.Kernel("oe2403", "openEuler2403")


@pytest.mark.parametrize("chip", CHIP_FAMILIES)
def test_each_chip_family_has_its_own_tag(chip: str):
    assert f"-{chip}-" in tags.image_tag("25.5.0", chip, "6.6.0-1.oe2403.aarch64")


@pytest.mark.parametrize(
    ("version", "chip", "uname_r", "says"),
    [("25.5.0", "910B3", "6.6.0", "910B3"), ("", "910b", "6.6.0", "version"), ("25.5.0", "910b", " ", "kernel")],
)
def test_a_tag_that_could_only_be_wrong_is_refused(version: str, chip: str, uname_r: str, says: str):
    with pytest.raises(ValueError, match=says):
        tags.image_tag(version, chip, uname_r)


def test_two_long_kernels_do_not_share_a_shortened_tag():
    one, other = (tags.image_tag("25.5.0", "910b", f"6.6.0-{'x' * 150}{end}.oe2403") for end in "ab")
    assert len(one) == len(other) == tags.LONGEST_TAG
    assert one != other


@given(st.text(min_size=1), st.sampled_from(CHIP_FAMILIES), st.text(min_size=1), st.text(), st.text())
def test_every_tag_is_one_that_a_registry_accepts(version: str, chip: str, uname_r: str, os_id: str, version_id: str):
    if not version.strip() or not uname_r.strip():
        return
    tag = tags.image_tag(version, chip, uname_r, os_id, version_id)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", tag)
    assert tag == tags.image_tag(version, chip, uname_r, os_id, version_id)
