"""The table of built-in types against what a real server publishes."""

import ssl
from importlib import resources
from typing import Any

import httpx2
import pytest

from tests.contract import published


@pytest.mark.cluster
def test_the_table_of_built_in_types_is_what_the_server_publishes(control_plane: Any) -> None:
    with httpx2.Client(
        base_url=control_plane.api_url,
        verify=ssl.create_default_context(cafile=control_plane.ca_file),
        headers={"Authorization": f"Bearer {control_plane.token()}"},
        timeout=60,
    ) as http:
        documents = {path: http.get(f"/openapi/v3/{path}").raise_for_status().json() for path in published.PATHS}
    ours = resources.files("npu_operator.sim.server").joinpath("builtin.json").read_text()
    assert published.text(published.table(documents)) == ours
