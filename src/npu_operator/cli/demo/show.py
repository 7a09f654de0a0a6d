"""Plays the demo and judges it: it has succeeded when every healthy chip of every NPU node is allocatable."""

import sys

import structlog

from npu_operator.cli.demo import picture
from npu_operator.cli.demo.picture import Object
from npu_operator.cli.demo.screen import Screen

FAILED = 1


def show(*, cluster: str) -> int:
    """Run the demo; returns the exit status."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))  # the table is the story
    with Screen() as screen:
        if cluster == "sim":
            from npu_operator.cli.demo import simulated

            ctl: Object = simulated.play(screen)
        else:
            from npu_operator.cli.demo import real

            found = real.play(screen)
            if isinstance(found, str):
                print(f"error: {found}", file=sys.stderr)
                return FAILED
            ctl = found
    for line in ("", f"NPUOperatorCtl {ctl['metadata']['name']}: {picture.summary(ctl)}", *picture.conditions(ctl)):
        screen.say(line)
    return 0 if has_succeeded(ctl) else FAILED


def has_succeeded(ctl: Object) -> bool:
    """All healthy chips allocatable, the sick ones named in a condition, and nothing under way any more."""
    status = ctl.get("status") or {}
    counts = status.get("nodes") or {}
    told = {each["type"]: each for each in status.get("conditions") or ()}
    healthy = counts.get("npus", 0) - counts.get("unhealthy", 0)
    is_settled = told.get("Progressing", {}).get("status") == "False"
    names_the_sick = not counts.get("unhealthy") or "chip" in told.get("Degraded", {}).get("message", "")
    return bool(healthy) and counts.get("allocatable") == healthy and is_settled and names_the_sick
