"""The one object that elections are about, with the guarded writes of a real API server and its bad days."""

import asyncio
from typing import Any

import msgspec

from npu_operator.kube.api import ApiError, Conflict, NotFound, Object, Resource


class LeaseServer:
    """Answers get, create and patch of one Lease. `fault` makes each request fail or hang; `is_deaf` loses answers."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 100
        self.requests: list[str] = []
        self.fault: ApiError | None = None
        self.hangs = False
        self.loses_answers = False

    @property
    def holder(self) -> str | None:
        return self.lease["spec"].get("holderIdentity") if self.lease is not None else None

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        await self._begin("get")
        if self.lease is None:
            raise NotFound("get lease: not found", status=404)
        return await self._answer()

    async def create(self, resource: Resource, body: Object, namespace: str | None = None, *, manager: str) -> bytes:
        await self._begin("create")
        if self.lease is not None:
            raise Conflict("create lease: exists", status=409, reason="AlreadyExists")
        self.lease = {"metadata": dict(body["metadata"]), "spec": dict(body["spec"])}
        return await self._answer(write=True)

    async def patch(
        self, resource: Resource, name: str, body: Object, namespace: str | None = None, *, manager: str
    ) -> bytes:
        await self._begin("patch")
        if self.lease is None:
            raise NotFound("patch lease: not found", status=404)
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict("patch lease: modified", status=409, reason="Conflict")
        spec = {**self.lease["spec"], **body["spec"]}
        self.lease["spec"] = {key: value for key, value in spec.items() if value is not None}
        return await self._answer(write=True)

    def touch(self, **labels: str) -> None:
        """Somebody else writes to the object."""
        self.version += 1
        self.lease["metadata"] |= {"labels": labels, "resourceVersion": str(self.version)}

    async def _begin(self, what: str) -> None:
        self.requests.append(what)
        await asyncio.sleep(0.01)
        if self.hangs:
            await asyncio.sleep(1e6)
        if self.fault is not None:
            raise self.fault

    async def _answer(self, *, write: bool = False) -> bytes:
        if write:
            self.version += 1
            self.lease["metadata"]["resourceVersion"] = str(self.version)
            if self.loses_answers:
                await asyncio.sleep(1e6)
        return msgspec.json.encode(self.lease)
