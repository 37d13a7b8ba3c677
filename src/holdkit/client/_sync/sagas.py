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
from ...kernel.arguments import span
from ...kernel.pages import Page as UserPage
from ...wire.sagas import SagaAnswer, SagaPage
from ..answers import saga_from, saga_history_from
from ..unsupported import UnsupportedOfSagas
from .transport import RemoteCalls

Listed: TypeAlias = UserPage[SagaRecord]


class RemoteSagas(RemoteCalls, UnsupportedOfSagas):
    """The sagas of the API key's tenant."""

    def get(self, id: str) -> SagaRecord | None:
        """Return a saga, or None. A saga that ended longer ago than the retention has been deleted."""
        try:
            return saga_from(self._do("show_saga", _id(id)))
        except InvalidRequest as missing:
            if missing.code != "saga_not_found":
                raise
            return None

    def list(self, *, phase: Phase | str | None = None, after: str | None = None, limit: int = 100) -> Listed:
        """Return sagas in order of id, all or those in one phase."""
        found: UserPage[SagaAnswer] = self._pages("list_sagas", limit=limit, after=after, phase=phase)
        return UserPage(map(saga_from, found), next=found.next)

    def stuck(self, older_than: Ttl = "5m", *, limit: int = 100) -> Listed:
        """Return the sagas that need an operator: parked ones, and unfinished ones that have been in their phase for longer than
        `older_than`."""
        oldest = f"{span(older_than, 'older_than') / SECOND:.6f}s"
        page: SagaPage = self._do("list_sagas", stuck=True, older_than=oldest, limit=limit)
        return UserPage(map(saga_from, page.items))

    def history(self, id: str, *, limit: int = 1_000) -> Page[SagaEvent]:
        """Return what happened to a saga, from the journal, in order; also after it was deleted. Renewals of its lease are left out.
        `more`: there is more than `limit`, or than one call reads."""
        try:
            return saga_history_from(self._do("saga_history", _id(id), limit=limit))
        except InvalidRequest as missing:
            if missing.code != "saga_not_found":
                raise
            return Page()

    def retry(self, id: str, *, reason: str, op: str | None = None) -> SagaRecord:
        """Let a parked saga run again; see `retry` of a kernel's `hk.sagas`."""
        return saga_from(self._do("retry_saga", _id(id), call={"op": op, "reason": reason}))

    def resolve(self, id: str, how: Literal["done", "cancelled"], *, reason: str, op: str | None = None) -> SagaRecord:
        """End a saga by hand, for good; see `resolve` of a kernel's `hk.sagas`."""
        return saga_from(self._do("resolve_saga", _id(id), how=how, call={"op": op, "reason": reason}))


def _id(id: str) -> str:
    return text(id, "id", MAX_SAGA_ID)
