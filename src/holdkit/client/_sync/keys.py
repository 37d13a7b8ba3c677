# Generated from ../_async/keys.py by tools/gen_sync.py: do not edit.
"""`remote.keys`: the API keys of the key's tenant. Only a server has them, so no kernel has these names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from ...core.commands import Ttl
from ...core.model import SECOND
from ...core.validation import text
from ...kernel.normalise import span
from ...wire.keys import KeyAnswer, KeyInfo, KeyPage, NewKeyBody, RotateKeyBody, Scope
from ..requests import path_of
from .transport import RemoteCalls

Listed: TypeAlias = "list[KeyInfo]"
_read_key: Final = msgspec.json.Decoder(KeyAnswer).decode
_read_keys: Final = msgspec.json.Decoder(KeyPage).decode
_read_info: Final = msgspec.json.Decoder(KeyInfo).decode


class RemoteKeys(RemoteCalls):
    """API keys, for an admin key. A secret is shown once, so `make` and `rotate` are not repeated if the outcome is unknown: look at
    `list` then, and revoke what nobody has."""

    def make(
        self,
        name: str,
        *,
        scope: Scope = "hold",
        ttl: Ttl | None = None,
        pools: Iterable[str] = (),
        verbs: Iterable[str] = (),
    ) -> KeyAnswer:
        """Create an API key. Only this answer, and that of `rotate`, has its text: `key`."""
        seconds = None if ttl is None else span(ttl) / SECOND
        body = NewKeyBody(name=name, scope=scope, ttl=seconds, pools=[*pools], verbs=[*verbs])
        return _read_key((self._transport.ask("POST", "/v1/keys", body, once=True)).content)

    def list(self) -> Listed:
        """All API keys in order of id, without their secrets."""
        return _read_keys((self._get("/v1/keys")).content).items

    def rotate(self, id: str, *, grace: Ttl = "5m") -> KeyAnswer:
        """Give an API key a new secret; the old one stays valid for `grace`."""
        body = RotateKeyBody(grace=0 if grace == 0 else span(grace, "grace") / SECOND)
        return _read_key((self._transport.ask("POST", _path(id, "rotate"), body, once=True)).content)

    def revoke(self, id: str) -> KeyInfo:
        """Revoke an API key, within a second on every server."""
        return _read_info((self._transport.ask("DELETE", _path(id))).content)


def _path(id: str, *more: str) -> str:
    return path_of("keys", text(id, "key", 64), *more)
