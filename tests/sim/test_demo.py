import io

import pytest
import structlog
from rich.console import Console

from npu_operator.cli.demo import simulated
from npu_operator.cli.demo.screen import Screen
from npu_operator.cli.demo.show import has_succeeded, show


@pytest.fixture(autouse=True)
def _logs_of_others_stay_as_they_are():
    """The demo silences the log of its process."""
    yield
    structlog.reset_defaults()


def test_the_demo_ends_well_and_names_the_sick_chip(capsys):
    assert show(cluster="sim") == 0
    told = capsys.readouterr().out
    assert "NPUs 51/52 allocatable" in told
    assert "a2-sick: chip Ascend910-3 is Critical (fault 80E18402)" in told
    assert "web-1      None no NPU seen" in told


def test_on_a_terminal_it_is_one_table_that_fits_80_columns(monkeypatch):
    monkeypatch.setattr("npu_operator.cli.demo.screen.FRAME_S", 0.0)
    output = io.StringIO()
    with Screen(Console(file=output, force_terminal=True, width=80)) as screen:
        simulated.play(screen)
    assert "ALLOC" in output.getvalue()
    assert "ChipUnhealthy" in output.getvalue()
    assert "…" not in output.getvalue(), "a cell was cut at 80 columns"


@pytest.mark.parametrize(
    ("nodes", "progressing", "degraded", "ends_well"),
    [
        ({"npus": 8, "allocatable": 8, "unhealthy": 0}, "False", "", True),
        ({"npus": 8, "allocatable": 7, "unhealthy": 1}, "False", "a1: chip Ascend910-3 is lost", True),
        ({"npus": 8, "allocatable": 7, "unhealthy": 1}, "False", "", False),
        ({"npus": 8, "allocatable": 7, "unhealthy": 0}, "False", "", False),
        ({"npus": 8, "allocatable": 8, "unhealthy": 0}, "True", "", False),
        ({"npus": 0, "allocatable": 0, "unhealthy": 0}, "False", "", False),
    ],
)
def test_it_succeeds_only_when_every_healthy_chip_is_allocatable(nodes, progressing, degraded, ends_well):
    conditions = [
        {"type": "Progressing", "status": progressing, "message": ""},
        {"type": "Degraded", "status": str(bool(degraded)), "message": degraded},
    ]
    assert has_succeeded({"status": {"nodes": nodes, "conditions": conditions}}) is ends_well
