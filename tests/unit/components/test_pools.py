import re

import pytest

from npu_operator.components import driver, pools
from npu_operator.model.chips import ChipFamily
from tests.unit.components.inputs import DIGEST, POOL_910B, a_spec, daemon_sets, pod_of, some_facts

KERNEL = "6.6.0-145.0.4.135.oe2403sp3.aarch64"


def test_the_hash_of_a_pool_never_changes_between_releases():
    assert pools.pool_hash("910b", KERNEL, "oe2403sp3") == "adc1a63650"


def test_the_hash_is_fit_for_labels_and_names_of_objects():
    assert re.fullmatch("[0-9a-f]{10}", pools.pool_hash("310p", "x" * 200, "ubuntu22.04"))


def test_parts_of_a_pool_are_not_mixed_up():
    assert pools.pool_hash("910", "b", "c") != pools.pool_hash("91", "0b", "c")
    assert pools.pool_hash("910", "bc", "") != pools.pool_hash("910", "b", "c")


def test_nodes_whose_kernel_names_the_distribution_share_a_pool_whatever_os_release_says():
    kube_os = pools.pool_of(ChipFamily.ASCEND_910B, KERNEL, "KubeOS")
    euler = pools.pool_of(ChipFamily.ASCEND_910B, KERNEL, "openEuler", "24.03")
    assert kube_os == euler
    assert kube_os.os == "oe2403sp3"


def test_nodes_with_the_same_kernel_of_another_distribution_are_another_pool():
    jammy = pools.pool_of(ChipFamily.ASCEND_910B, "5.15.0-119-generic", "ubuntu", "22.04")
    focal = pools.pool_of(ChipFamily.ASCEND_910B, "5.15.0-119-generic", "ubuntu", "20.04")
    assert jammy.hash != focal.hash


def test_two_nodes_are_in_one_pool_exactly_when_they_need_the_same_image():
    spec = a_spec()
    nodes = [
        (chip, kernel, os_id, version)
        for chip in (ChipFamily.ASCEND_910B, ChipFamily.ASCEND_A3)
        for kernel in (KERNEL, "5.15.0-119-generic", "5.10.0-182.0.0.95.oe2203sp3.x86_64", "4.19.90-ky10")
        for os_id, version in (("openEuler", "24.03"), ("ubuntu", "22.04"), ("KubeOS", ""))
    ]
    made = [pools.pool_of(*node) for node in nodes]
    for one in made:
        for other in made:
            assert (one.hash == other.hash) == (pools.driver_tag(spec, one) == pools.driver_tag(spec, other))


def test_the_driver_image_follows_the_tag_rule():
    found = pools.driver_image(a_spec(), POOL_910B)
    assert found == "mlops/ascend-driver:25.5.0-910b-6.6.0-145.0.4.135-oe2403sp3"


@pytest.mark.parametrize(
    ("repository", "found"),
    [
        ("mlops/ascend-driver", "mirror.local:5000/mlops/ascend-driver"),
        ("drivers.example.com/npu", "drivers.example.com/npu"),
    ],
)
def test_the_registry_of_the_spec_goes_before_the_drivers_repository(repository, found):
    spec = a_spec({"registry": "mirror.local:5000", "driver": {"image": {"repository": repository}}})
    assert pools.driver_image(spec, POOL_910B).startswith(f"{found}:25.5.0-910b-")


def test_a_tag_in_the_spec_wins_for_its_kernel_and_chip_only():
    spec = a_spec({"driver": {"image": {"tags": {KERNEL: {"910b": "hand-made"}}}}})
    assert pools.driver_tag(spec, POOL_910B) == "hand-made"
    a3 = pools.pool_of(ChipFamily.ASCEND_A3, KERNEL)
    assert pools.driver_tag(spec, a3) == "25.5.0-a3-6.6.0-145.0.4.135-oe2403sp3"


def test_a_chip_may_have_its_own_version():
    spec = a_spec({"driver": {"perChip": {"910b": {"version": "25.3.RC1"}}}})
    assert pools.driver_tag(spec, POOL_910B).startswith("25.3.RC1-910b-")
    assert driver.wanted_driver(spec, POOL_910B).version == "25.3.RC1"


def test_a_pinned_digest_is_what_gets_pulled_and_what_the_pod_is_told():
    pinned = pools.pool_of(ChipFamily.ASCEND_910B, KERNEL, digest=DIGEST)
    made = daemon_sets(a_spec(), some_facts(pools=[pinned]))[driver.name_for(pinned)]
    payload = pod_of(made)["containers"][1]
    assert payload["image"].endswith(f"-oe2403sp3@{DIGEST}")
    assert {"name": "NPU_DRIVER_IMAGE_DIGEST", "value": DIGEST} in payload["env"]
    assert pinned.hash == POOL_910B.hash, "a digest makes no other pool"


def test_pools_do_not_leak_into_each_other():
    other = pools.pool_of(ChipFamily.ASCEND_310P, "5.15.0-119-generic", "ubuntu", "22.04")
    together = daemon_sets(a_spec(), some_facts(pools=[POOL_910B, other]))
    for pool in (POOL_910B, other):
        alone = daemon_sets(a_spec(), some_facts(pools=[pool]))
        assert together[driver.name_for(pool)] == alone[driver.name_for(pool)]
