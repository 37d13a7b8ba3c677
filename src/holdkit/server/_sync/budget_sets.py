# Generated from ../_async/budget_sets.py by tools/gen_sync.py: do not edit.
"""The store of budget sets. A Python application defines its allowances in code; for others they are stored once, as a record of the
tenant, under the name of a set."""

from __future__ import annotations

from typing import Final

import msgspec

from ...core.commands import PutRecord
from ...core.pages import Page
from ...core.reading import FindRecord, ListRecords
from ...core.validation import invalid, text
from ...faces._sync.budgets import Budget
from ...faces._sync.kernel import Kernel
from ...faces.allowances import Allowance
from ...wire.budgets import BudgetSet

KIND: Final = "~budget"
MAX_NAME: Final = 64
_set: Final = msgspec.json.Decoder(BudgetSet)


class BudgetSets:
    """The budget sets of one tenant, over its kernel."""

    def __init__(self, kernel: Kernel, tenant: str) -> None:
        self._kernel, self._tenant = kernel, tenant

    def opened(self, name: str) -> Budget:
        """Open the budgets of a stored set."""
        return self.face(name, self.find(name))

    def find(self, name: str) -> BudgetSet:
        """Return a set. Raise `InvalidRequest` if it does not exist."""
        executor = self._kernel._executor
        query = FindRecord((self._tenant, KIND, text(name, "name", MAX_NAME)))
        row = executor.read(query) or executor.read(query, durable=True)  # that it is missing is an answer
        if row is None:
            raise invalid("name", "budget_not_found", "there is no set of budgets with this name: define it first")
        return _set.decode(row.body)

    def listed(self, after: str, limit: int) -> Page[tuple[str, BudgetSet]]:
        """Return sets in order of name."""
        executor = self._kernel._executor
        rows = executor.read(ListRecords(self._tenant, KIND, after, limit, executor.page_bytes))
        return Page([(row.id, _set.decode(row.body)) for row in rows], more=rows.more, size=rows.size)

    def store(self, name: str, budgets: BudgetSet, actor: str | None) -> None:
        """Check and store a set, or change it for later windows. Current windows keep their totals."""
        self.face(name, budgets)
        body = msgspec.json.encode(budgets).decode()
        command = PutRecord(tenant=self._tenant, kind=KIND, id=name, body=body, actor=actor)
        self._kernel._executor.execute(command, faces=True)

    def face(self, name: str, budgets: BudgetSet) -> Budget:
        """Return the budgets of a set."""
        allowances = {
            budget: tuple(Allowance(one.total, per=one.per, zone=one.zone) for one in listed)
            for budget, listed in budgets.budgets.items()
        }
        return self._kernel.budget(text(name, "name", MAX_NAME), **allowances)
