"""`npu-operator crds`: the resource definitions as YAML, on the terminal or into a folder."""

import sys
from pathlib import Path

import yaml

from npu_operator.model import crd

HEADER = "# Made by `npu-operator crds` from the structs in npu_operator.model; edit those.\n"


def files() -> dict[str, str]:
    """Texts by file name, as they lie in `deploy/crds`."""
    return {f"{one['spec']['names']['plural']}.yaml": HEADER + _yaml(one) for one in crd.all_crds()}


def render(out: Path | None) -> int:
    """Write the files into the folder `out` (made if need be), or all to standard output. Returns the exit code."""
    texts = files()
    if out is None:
        sys.stdout.write("---\n".join(texts.values()))
        return 0
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            beside = out / f".{name}.new"
            beside.write_text(text, encoding="utf-8")
            beside.replace(out / name)
    except OSError as error:
        print(f"error: cannot write resource definitions to {out}: {error.strerror}", file=sys.stderr)
        print("hint: name a folder that you may write to, or leave --out away to see them here", file=sys.stderr)
        return 1
    return 0


def _yaml(value: crd.Crd) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Repeats what occurs twice instead of pointing to it; nobody reads `&id001`."""

    def ignore_aliases(self, data: object) -> bool:
        return True
