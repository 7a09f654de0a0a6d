"""What a spec can have wrong although each of its fields is right by itself.

The API server checks single fields and what CEL can say; this is the rest, and what matters enough to hold also where
an older resource definition let it through.
"""

from collections.abc import Iterator

from . import selectors
from .ctl import RebootMethod, Spec
from .fields import fields_of
from .lenient import Problem
from .parts import Placed
from .policies import Healer
from .reasons import Reason

UPGRADE = "spec.driver.upgradePolicy"
RECOVERY = "spec.driver.recoveryPolicy"


def check(spec: Spec) -> tuple[Problem, ...]:
    """All objections, errors first."""
    found = [problem for rule in _RULES for problem in rule(spec)]
    return tuple(sorted(found, key=lambda problem: not problem.is_error))


def _selectors(spec: Spec) -> Iterator[Problem]:
    policy = spec.driver.upgrade_policy
    texts = {
        f"{UPGRADE}.waitForCompletion.podSelector": policy.wait_for_completion.pod_selector,
        f"{UPGRADE}.drainSpec.podSelector": policy.drain_spec.pod_selector,
    }
    for path, text in texts.items():
        if (part := selectors.wrong_part(text)) is not None:
            yield Problem(
                path=path,
                message=f'is no label selector at "{part}"',
                hint='write it as for kubectl, for example "app=training,tier!=test"',
            )


def _windows(spec: Spec) -> Iterator[Problem]:
    for number, window in enumerate(spec.driver.upgrade_policy.window):
        if window.start == window.end:
            yield Problem(
                path=f"{UPGRADE}.window[{number}]",
                message=f"starts and ends at {window.start}",
                hint="leave start and end out for a whole day",
            )


def _reboot_command(spec: Spec) -> Iterator[Problem]:
    reboot = spec.driver.reboot
    if reboot.method is RebootMethod.COMMAND and not reboot.command:
        yield Problem(
            path="spec.driver.reboot.command",
            message="is empty, but method is command",
            hint='give its words, for example ["systemctl", "kexec"]',
        )
    if reboot.method is not RebootMethod.COMMAND and reboot.command:
        yield _questionable(
            "spec.driver.reboot.command", f"is not used by method {reboot.method}", "set method to command"
        )


def _environment(spec: Spec) -> Iterator[Problem]:
    for field in fields_of(Spec):
        component = getattr(spec, field.attribute)
        if not isinstance(component, Placed):
            continue
        names = [variable.name for variable in component.env]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Problem(path=f"spec.{field.name}.env", message=f"has {name} more than once", hint="keep one of them")


def _limits(spec: Spec) -> Iterator[Problem]:
    policy = spec.driver.upgrade_policy
    parallel, unavailable = policy.max_parallel_upgrades, policy.max_unavailable
    if isinstance(unavailable, int) and parallel > unavailable:
        yield _questionable(
            f"{UPGRADE}.maxParallelUpgrades",
            f"is {parallel}, but maxUnavailable is {unavailable}",
            f"no more than {unavailable} will be upgraded at once",
        )
    if policy.canary.soak_seconds and not policy.canary.nodes:
        yield _questionable(
            f"{UPGRADE}.canary.soakSeconds", "has no effect without canary nodes", "set canary.nodes to 1 or more"
        )
    repeated = sorted({key for key in policy.order if policy.order.count(key) > 1})
    if repeated:
        yield _questionable(f"{UPGRADE}.order", f"names {repeated[0]} more than once", "the first place counts")


def _passthrough(spec: Spec) -> Iterator[Problem]:
    if spec.driver.enabled:
        return
    switches = {
        f"{UPGRADE}.autoUpgrade": spec.driver.upgrade_policy.auto_upgrade,
        f"{RECOVERY}.autoRecover": spec.driver.recovery_policy.auto_recover,
    }
    for path, is_on in switches.items():
        if is_on:
            yield _questionable(
                path, "has no effect while driver.enabled is false", "the host's driver is used and nothing reboots"
            )


def _healer(spec: Spec) -> Iterator[Problem]:
    policy = spec.driver.recovery_policy
    if policy.healer is Healer.MINDCLUSTER and policy.auto_recover:
        yield _questionable(
            f"{RECOVERY}.autoRecover", "has no effect while healer is mindcluster", "MindCluster decides about reboots"
        )


def _questionable(path: str, message: str, hint: str) -> Problem:
    return Problem(path=path, message=message, hint=hint, reason=Reason.QuestionableSpec, is_error=False)


_RULES = (_selectors, _windows, _reboot_command, _environment, _limits, _passthrough, _healer)
