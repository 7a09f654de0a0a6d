import importlib
import inspect
import subprocess
import sys

import pytest

from npu_operator.cli.agents import AGENTS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "npu_operator.cli.entry", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["agent"], "npu-operator agent takes one name: device-plugin"),
        (["agent", "nobody"], "npu-operator agent takes one name: device-plugin"),
        (["agent-probe", "how"], "takes one question: ready or alive"),
        (["agent-probe", "ready"], "NPU_HEALTH_SOCKET is not set"),
    ],
)
def test_a_wrong_call_of_an_agent_is_one_sentence_and_status_2(arguments, told):
    ran = run(*arguments)
    assert ran.returncode == 2
    assert told in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_each_command_is_in_the_help():
    told = run("--help").stdout
    assert all(command in told for command in ("run", "demo", "crds", "manifests", "parse", "agent"))


def test_an_agent_starts_without_the_imports_of_the_command_line():
    code = (
        "import sys; sys.argv = ['npu-operator', 'agent', 'nobody']\n"
        "from npu_operator.cli import entry\n"
        "try: entry.main()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('cyclopts', 'rich', 'lightkube', 'grpc') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_each_agent_has_its_settings_and_its_work(name):
    module = importlib.import_module(AGENTS[name])
    assert callable(module.from_environment)
    assert inspect.iscoroutinefunction(module.main)
