import msgspec
import pytest

from npu_operator.components.driver import wanted_driver
from npu_operator.model.names import UpgradeState
from npu_operator.model.npunode import Chip, ModuleOptions
from npu_operator.model.reading import parse_ctl
from npu_operator.plan.lifecycle.observed import Surroundings, held_by, view_of
from npu_operator.plan.lifecycle.view import target_of
from npu_operator.plan.verdict import judge
from tests.unit.plan.fleets import NFD, OS, a_ctl, an_npu_node
from tests.unit.plan.lifecycle.nodes import NEW, NOW, OLD, S, a_holder, a_node, a_record, found

CHIPS = tuple(Chip(id=f"Ascend910-{number}", model="910B3", physical=number) for number in range(8))


def a_view_of(node=None, *, spec=None, reported=None, sound=True, **around):
    ctl = a_ctl(**(spec or {"driver": {"version": NEW}}))
    node = node if node is not None else a_node(labels=NFD | OS)
    reported = reported if reported is not None else found(OLD, chips=CHIPS, chip="910b", os_id="openEuler")
    verdict = judge(node, an_npu_node("a7", reported), ctl.spec)
    return view_of(node, reported, verdict, Surroundings(**around), spec=ctl.spec, is_spec_sound=sound, now=NOW)


def test_what_is_wanted_comes_from_the_spec():
    view = a_view_of(a_node(labels=NFD | OS))
    assert view.wanted.version == NEW
    assert view.needs_upgrade


def test_options_are_compared_as_on_driver_pods():
    options = {"drv_pcie": "a=1"}
    spec = {"driver": {"version": NEW, "moduleOptions": options}}
    plain = a_view_of(spec=spec, reported=_loaded(()))
    same = a_view_of(
        spec=spec, reported=_loaded((ModuleOptions(module="drv_pcie", options="a=1"), ModuleOptions(module="x")))
    )
    assert plain.needs_upgrade
    assert same.runs_wanted
    pool = judge(a_node(labels=NFD | OS), an_npu_node("a7", _loaded(())), parse_ctl({"spec": spec}).spec).pool
    assert target_of(wanted_driver(parse_ctl({"spec": spec}).spec, pool)) == same.wanted


def _loaded(options):
    report = found(NEW, chips=CHIPS, chip="910b", os_id="openEuler")
    return msgspec.structs.replace(report, driver=msgspec.structs.replace(report.driver, module_options=options))


@pytest.mark.parametrize("spec", [{"driver": {"enabled": False}}], ids=["passthrough"])
def test_where_the_driver_is_not_ours_nothing_is_wanted(spec):
    assert a_view_of(spec=spec).wanted is None


def test_a_node_whose_kernel_is_not_known_for_a_moment_wants_what_it_is_on_its_way_to():
    node = msgspec.structs.replace(a_node(a_record(S.DRAIN)), kernel="")
    assert a_view_of(node).wanted == a_record(S.DRAIN).target


def test_a_spec_that_could_not_be_read_changes_nothing():
    on_its_way = a_view_of(a_node(a_record(S.DRAIN), labels=NFD), spec={"driver": {"version": "25.9"}}, sound=False)
    assert on_its_way.wanted == a_record(S.DRAIN).target
    serving = a_view_of(spec={"driver": {"enabled": False, "version": "25.9"}}, sound=False)
    assert not serving.needs_upgrade
    assert serving.wanted is not None


def test_chips_that_should_be_offered_are_counted():
    assert a_view_of().offered == 8
    assert a_view_of(spec={"devicePlugin": {"enabled": False}}).offered == 0


def test_time_in_a_state_is_the_observers_or_else_that_of_the_record():
    node = a_node(a_record(S.DRAIN), labels=NFD)
    assert a_view_of(node).seconds_in_state == 3600
    assert a_view_of(node, seconds_in_state=5.0).seconds_in_state == 5
    assert a_view_of(node).state is UpgradeState.DRAIN


def test_a_node_sees_its_own_slots_only():
    mine, other = a_holder(), a_holder(uid="uid-a8", node="a8")
    assert held_by("uid-a7", (other, mine)) == (mine,)
