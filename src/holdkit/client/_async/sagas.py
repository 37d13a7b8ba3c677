"""`remote.sagas`: reads sagas, and ends them by hand. They run where their code is."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ...core.commands import Ttl
from ...core.model import SECOND
from ...core.validation import text
from ...errors import InvalidRequest
from ...faces.saga_records import MAX_SAGA_ID, SagaRecord
from ...faces.saga_steps import Phase
from ...kernel.normalise import span
from ...wire.sagas import ResolveSaga
from ..answers import read_saga, read_sagas, saga_from
from ..requests import path_of
from ..unsupported import UnsupportedOfSagas
from .transport import AsyncRemoteCalls

Listed: TypeAlias = "list[SagaRecord]"


class AsyncRemoteSagas(AsyncRemoteCalls, UnsupportedOfSagas):
    """The sagas of the API key's tenant."""

    async def get(self, id: str) -> SagaRecord | None:
        """One saga, or None. A saga that ended longer ago than the retention has been deleted."""
        try:
            answer = await self._get(path_of("sagas", text(id, "id", MAX_SAGA_ID)))
        except InvalidRequest as missing:
            if missing.code != "saga_not_found":
                raise
            return None
        return saga_from(read_saga(answer.content))

    async def list(self, *, phase: Phase | str | None = None, after: str = "", limit: int = 100) -> Listed:
        """Sagas in order of id, all or those in one phase; for the next page pass the last id as `after`."""
        found = await self._pages("/v1/sagas", read_sagas, limit, after=after, phase=phase)
        return [saga_from(document) for document in found]

    async def stuck(self, older_than: Ttl = "5m", *, limit: int = 100) -> Listed:
        """Sagas that somebody should look at: parked ones, and unfinished ones that have been in their phase for too
        long."""
        oldest = f"{span(older_than, 'older_than') / SECOND:.6f}s"
        answer = await self._get("/v1/sagas", stuck=True, older_than=oldest, limit=limit)
        return [saga_from(document) for document in read_sagas(answer.content).items]

    async def resolve(
        self, id: str, how: Literal["done", "cancelled"], *, reason: str, op: str | None = None
    ) -> SagaRecord:
        """End a saga by hand, for good; see `holdkit.Sagas.resolve`."""
        path = path_of("sagas", text(id, "id", MAX_SAGA_ID), "resolve")
        answer = await self._post(path, ResolveSaga(how=how, reason=reason), {"op": op})
        return saga_from(read_saga(answer.content))
