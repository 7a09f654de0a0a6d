"""What the demo shows: one row per node and one line for the fleet, from the same objects that kubectl shows."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from rich import box
from rich.table import Table

from npu_operator.model import names

Object = Mapping[str, Any]
COLUMNS = ("NODE", "CHIPS", "HEALTHY", "ALLOC", "DRIVER", "STATE", "REASON")
STYLES = {"Ready": "green", "Degraded": "red", "Unreachable": "red", "None": "dim"}


class Row(msgspec.Struct, frozen=True):
    """One node. All text, as it is shown."""

    node: str
    chips: str = ""
    healthy: str = ""
    allocatable: str = ""
    driver: str = ""
    state: str = ""
    reason: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """In the order of COLUMNS."""
        return msgspec.structs.astuple(self)


def rows(nodes: Iterable[Object], npu_nodes: Iterable[Object]) -> tuple[Row, ...]:
    """The rows, by name of the node."""
    by_name = {npu_node["metadata"]["name"]: npu_node for npu_node in npu_nodes}
    return tuple(_row(node, by_name.get(node["metadata"]["name"])) for node in sorted(nodes, key=_name))


def summary(ctl: Object | None) -> str:
    """The fleet in one line."""
    status = (ctl or {}).get("status") or {}
    counts = status.get("nodes") or {}
    ready = next((each for each in status.get("conditions") or () if each["type"] == "Ready"), None)
    if ready is None:
        return "no status yet"
    return (
        f"nodes {counts.get('summary', '0/0')} ready, NPUs {counts.get('npuSummary', '0/0')} allocatable; "
        f"Ready={ready['status']} ({ready['reason']})"
    )


def conditions(ctl: Object) -> list[str]:
    """The object's conditions, one line each."""
    found = (ctl.get("status") or {}).get("conditions") or ()
    width = max((len(each["type"]) for each in found), default=0)
    return [f"{each['type']:<{width}}  {each['status']:<7}  {each['reason']:<20}  {each['message']}" for each in found]


def table(shown: tuple[Row, ...], title: str, caption: str) -> Table:
    """For a terminal; nothing is cut at 80 columns."""
    made = Table(
        title=title,
        caption=caption,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for column in COLUMNS:
        made.add_column(column, no_wrap=True)
    for row in shown:
        made.add_row(*row.cells, style=STYLES.get(row.state, "yellow" if row.state else "dim"))
    return made


def _row(node: Object, npu_node: Object | None) -> Row:
    if npu_node is None:
        is_ours = names.NPU_PRESENT in (node["metadata"].get("labels") or {})
        return Row(_name(node), state="Discovering" if is_ours else "None", reason="" if is_ours else "no NPU seen")
    status = npu_node.get("status") or {}
    found, plan = status.get("found") or {}, status.get("plan") or {}
    driver = found.get("driver") or {}
    offered = [
        int(amount)
        for resource, amount in (node["status"].get("allocatable") or {}).items()
        if resource.startswith(names.RESOURCE_PREFIX)
    ]
    return Row(
        _name(node),
        chips=found.get("summary", ""),
        healthy=found.get("healthy", ""),
        allocatable=str(sum(offered)),
        driver=driver.get("version", "") if driver.get("loaded") else "",
        state=plan.get("state", "") or "Discovering",
        reason=plan.get("reason", ""),
    )


def _name(node: Object) -> str:
    return str(node["metadata"]["name"])
