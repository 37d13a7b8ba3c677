# Generated from ../_async/keys.py by tools/gen_sync.py: do not edit.
"""`remote.keys`: the API keys of the key's tenant. Only a server has them, so no kernel has these names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias, Unpack

from ...core.commands import Ttl
from ...core.model import SECOND
from ...core.validation import text
from ...kernel.context import Call
from ...kernel.normalise import span
from ...wire.fields import decoder
from ...wire.keys import KeyAnswer, KeyInfo, KeyPage, NewKeyBody, RevokeKeyBody, RotateKeyBody, Scope
from ..requests import path_of, seconds
from .transport import RemoteCalls, retry_key

Listed: TypeAlias = "list[KeyInfo]"
_read_key: Final = decoder(KeyAnswer).decode
_read_keys: Final = decoder(KeyPage).decode
_read_info: Final = decoder(KeyInfo).decode


class RemoteKeys(RemoteCalls):
    """API keys, for an admin key. Only hashes are stored: a retry of `make` or `rotate` gets the same key with another secret, in place of
    the one that was lost."""

    def make(
        self,
        name: str,
        *,
        scope: Scope = "hold",
        ttl: Ttl | None = None,
        pools: Iterable[str] = (),
        verbs: Iterable[str] = (),
        **call: Unpack[Call],
    ) -> KeyAnswer:
        """Create an API key. Only this answer, and that of `rotate`, has its text: `key`."""
        body = NewKeyBody(name=name, scope=scope, ttl=seconds(ttl), pools=[*pools], verbs=[*verbs])
        return _read_key((self._post("/v1/keys", body, call)).content)

    def list(self) -> Listed:
        """All API keys in order of id, without their secrets."""
        return _read_keys((self._get("/v1/keys")).content).items

    def rotate(self, id: str, *, grace: Ttl = "5m", **call: Unpack[Call]) -> KeyAnswer:
        """Give an API key a new secret; the old one stays valid for `grace`."""
        body = RotateKeyBody(grace=0 if grace == 0 else span(grace, "grace") / SECOND)
        return _read_key((self._post(_path(id, "rotate"), body, call)).content)

    def revoke(self, id: str, **call: Unpack[Call]) -> KeyInfo:
        """Revoke an API key, within a second on every server."""
        body = RevokeKeyBody(**self._request_fields(call))
        answer = self._transport.ask("DELETE", _path(id), body, op=retry_key(call.get("op")))
        return _read_info(answer.content)


def _path(id: str, *more: str) -> str:
    return path_of("keys", text(id, "key", 64), *more)
