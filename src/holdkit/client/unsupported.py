"""The names that cannot be at a distance, each with its reason and what to do instead. All of them are here."""

from __future__ import annotations

from typing import Any, NoReturn, Self, overload

from ..errors import InvalidRequest


class NotRemote(InvalidRequest, AttributeError):
    """A kernel in your own process has this name, and a client has not: the message says why, and what to do instead."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"is not there at a distance: {why}", field=name, code="not_remote")


class Unsupported:
    """A name that says why it is not there, to whoever asks for it."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.__doc__ = f"Not at a distance: {why}"

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> NoReturn: ...
    def __get__(self, instance: object | None, owner: type) -> Any:
        """The reason, of the class; of a client, an exception."""
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
    tenant = Unsupported("the tenant is that of the key; connect with a key of the other tenant")
    limits = Unsupported("the server has its own, and checks them; limits_in_force() asks for them")
    sweeper = Unsupported("the server sweeps by itself; sweep() asks it to do so now")
    repair = Unsupported("every writer waits meanwhile; run `holdkit repair` where the data is")


_DRIVEN = "a saga is driven where its code is; open a kernel there with holdkit.connect(…)"


class UnsupportedOfSagas:
    """What needs the code of a saga."""

    register = Unsupported(_DRIVEN)
    recover = Unsupported(_DRIVEN)
