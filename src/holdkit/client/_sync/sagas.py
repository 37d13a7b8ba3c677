# Generated from ../_async/sagas.py by tools/gen_sync.py: do not edit.
"""`remote.sagas`: reads sagas, and ends them by hand. They run where their code is."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ...core.commands import Ttl
from ...core.model import SECOND
from ...core.pages import Page
from ...core.validation import text
from ...errors import InvalidRequest
from ...faces.saga_records import MAX_SAGA_ID, SagaEvent, SagaRecord
from ...faces.saga_steps import Phase
from ...kernel.normalise import span
from ...kernel.pages import Page as UserPage
from ...wire.sagas import ResolveSaga, RetrySaga
from ..answers import read_saga, read_saga_history, read_sagas, saga_from, saga_history_from
from ..requests import path_of
from ..unsupported import UnsupportedOfSagas
from .transport import RemoteCalls

Listed: TypeAlias = UserPage[SagaRecord]


class RemoteSagas(RemoteCalls, UnsupportedOfSagas):
    """The sagas of the API key's tenant."""

    def get(self, id: str) -> SagaRecord | None:
        """One saga, or None. A saga that ended longer ago than the retention has been deleted."""
        try:
            answer = self._get(path_of("sagas", text(id, "id", MAX_SAGA_ID)))
        except InvalidRequest as missing:
            if missing.code != "saga_not_found":
                raise
            return None
        return saga_from(read_saga(answer.content))

    def list(self, *, phase: Phase | str | None = None, after: str | None = None, limit: int = 100) -> Listed:
        """Return sagas in order of id, all or those in one phase."""
        found = self._pages("/v1/sagas", read_sagas, limit, after=after, phase=phase)
        return UserPage([saga_from(document) for document in found], next=found.next)

    def stuck(self, older_than: Ttl = "5m", *, limit: int = 100) -> Listed:
        """Sagas that somebody should look at: parked ones, and unfinished ones that have been in their phase for too
        long."""
        oldest = f"{span(older_than, 'older_than') / SECOND:.6f}s"
        answer = self._get("/v1/sagas", stuck=True, older_than=oldest, limit=limit)
        return UserPage([saga_from(document) for document in read_sagas(answer.content).items])

    def history(self, id: str, *, limit: int = 1_000) -> Page[SagaEvent]:
        """What happened to a saga, from the journal, in order; also after it was deleted. Renewals of its lease are left out.
        `more`: there is more than `limit`, or than one call reads."""
        try:
            answer = self._get(path_of("sagas", text(id, "id", MAX_SAGA_ID), "history"), limit=limit)
        except InvalidRequest as missing:
            if missing.code != "saga_not_found":
                raise
            return Page()
        return saga_history_from(read_saga_history(answer.content))

    def retry(self, id: str, *, reason: str, op: str | None = None) -> SagaRecord:
        """Let a parked saga run again; see `retry` of a kernel's `hk.sagas`."""
        path = path_of("sagas", text(id, "id", MAX_SAGA_ID), "retry")
        return saga_from(read_saga((self._post(path, RetrySaga(reason=reason), {"op": op})).content))

    def resolve(self, id: str, how: Literal["done", "cancelled"], *, reason: str, op: str | None = None) -> SagaRecord:
        """End a saga by hand, for good; see `resolve` of a kernel's `hk.sagas`."""
        path = path_of("sagas", text(id, "id", MAX_SAGA_ID), "resolve")
        answer = self._post(path, ResolveSaga(how=how, reason=reason), {"op": op})
        return saga_from(read_saga(answer.content))
