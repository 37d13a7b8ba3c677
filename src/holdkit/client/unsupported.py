"""The names that a client does not have, each with the reason and what to do instead. This is the whole list."""

from __future__ import annotations

from typing import Any, Final, NoReturn, Self, overload

from ..errors import InvalidRequest


class NotRemote(InvalidRequest, AttributeError):
    """A kernel in your own process has this name, a client has not: the message says why, and what to do instead."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"is not available over HTTP: {why}", field=name, code="not_remote")


class Unsupported:
    """A name that raises `NotRemote` with its reason when it is used on a client."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.__doc__ = f"Not available over HTTP: {why}"

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> NoReturn: ...
    def __get__(self, instance: object | None, owner: type) -> Any:
        """Return this object, with the reason, for the class; raise for a client."""
        if instance is None:
            return self
        raise NotRemote(self._name, self.why)


class UnsupportedOfKernel:
    """What only a kernel in the application's own process has."""

    resource = Unsupported(
        "its capacity is answered by a function of your application, in the transaction that decides; "
        "open a kernel beside it with holdkit.connect(…)"
    )
    lock = Unsupported(
        "a server cannot join a transaction of yours; name all pools in one hold, or use apply(…, atomic=True)"
    )
    tenant = Unsupported("the API key determines the tenant; connect with a key of the other tenant")
    sweeper = Unsupported("the server sweeps by itself; sweep() asks it to do so now")


class UnsupportedOfAdmin:
    """What needs the data itself."""

    archive = Unsupported("the files are written beside the data; run `holdkit admin archive` there")
    repair = Unsupported("all writers have to wait for it; run `holdkit admin repair` where the data is")


_DRIVEN = "a saga runs where its code is; open a kernel there with holdkit.connect(…)"


class UnsupportedOfSagas:
    """What needs the code of a saga."""

    register = Unsupported(_DRIVEN)
    recover = Unsupported(_DRIVEN)


NOT_REMOTE: Final[dict[str, str]] = {
    prefix + name: value.why
    for prefix, kind in (("", UnsupportedOfKernel), ("admin.", UnsupportedOfAdmin), ("sagas.", UnsupportedOfSagas))
    for name, value in vars(kind).items()
    if isinstance(value, Unsupported)
}
"""What a client of a server lacks, by name, each with the reason."""
