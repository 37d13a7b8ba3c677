# Generated from ../_async/keystore.py by tools/gen_sync.py: do not edit.
"""The store of API keys: records beside the holds, so that all servers and the command line see the same keys.

They are written through the kernel, so they are durable, journaled and part of every backup. Their kind begins with ~, so no
caller can read or write it. Only keyed hashes are stored. A second record announces the changes: its version counts them, and
its body names what changed last, so that a server learns of a change by reading two rows, however many keys there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import suppress
from typing import Final, Self, Unpack

import msgspec
from msgspec.structs import replace

from ...core.commands import PutRecord, Ttl
from ...core.model import SECOND, Slot
from ...core.reading import FindRecord, ListRecords
from ...core.validation import invalid, text
from ...errors import EngineError, InvalidRequest, OperationConflict, OutcomeUnknown, Overloaded, VersionConflict
from ...faces._sync.kernel import Kernel
from ...kernel.arguments import Call, call_fields, span
from ...wire.keys import KeyInfo, Scope
from ..keys import (
    MAX_KEYS,
    NewKey,
    StoredKey,
    check_name,
    check_pools,
    check_scope,
    check_verbs,
    ended_at,
    format_key,
    hash_secret,
    id_under,
    mint_key,
    shown,
    to_remove,
)

KEYS: Final = "~key"
SERVER: Final = "~server"
USES: Final = "~key.used"
"""When keys were used last: a record for each letter that their ids begin with."""
MAX_USES: Final = 5_000
"""Keys in one of these records."""
ANNOUNCED: Final = 50
"""Changes that the announcement names; a server that has missed more reads all keys."""
GRACE: Final = 300
"""Seconds for which the old secret stays valid after a rotation."""
_PAGE: Final = 1_000
_stored: Final = msgspec.json.Decoder(StoredKey)
_announced: Final = msgspec.json.Decoder(list[str])
_used: Final = msgspec.json.Decoder(dict[str, int])


class Keys:
    """The API keys of one database: `make`, `listed`, `revoke`, `rotate`.

    `pepper` is the server's own secret, which keys the hashes. With one from outside the database (32 bytes), write access to
    the database does not suffice to create keys. Without one, it is generated once and stored in the database.
    """

    def __init__(
        self, kernel: Kernel, *, pepper: bytes | None = None, randomness: Callable[[int], bytes] = os.urandom
    ) -> None:
        if pepper is not None and not 16 <= len(pepper) <= 64:
            raise invalid("pepper", "pepper_length", "must be 16 to 64 bytes")
        self._executor, self._pepper, self._randomness = kernel._executor, pepper, randomness

    def asked_by(self, kernel: Kernel) -> Self:
        """Return a store of these keys that records its changes as those of `kernel`'s client."""
        return type(self)(kernel, pepper=self._pepper, randomness=self._randomness)

    def make(
        self,
        name: str,
        *,
        scope: Scope = "hold",
        tenant: str = "",
        ttl: Ttl | None = None,
        pools: Iterable[str] = (),
        verbs: Iterable[str] = (),
        most: int = MAX_KEYS,
        siblings: Collection[StoredKey] | None = None,
        **call: Unpack[Call],
    ) -> NewKey:
        """Create a key. Its text is only in the answer. It may be limited to `pools` that begin with one of these texts, and to
        `verbs`. The tenant may have `most` active keys; `siblings` are its keys, if the
        caller knows them. (Servers that create keys for one tenant in the same moment can exceed the bound by one each.)

        Under the `op` of an earlier call the same key gets another text in place of the one that was lost: only a hash is stored."""
        check_name(name)
        check_scope(scope)
        prefixes, allowed = check_pools(pools), check_verbs(verbs, scope)
        if tenant != "":
            text(tenant, "tenant", 64)
        now, op = self._executor.now(), call.get("op")
        expires_at = None if ttl is None else now + self._life(ttl)
        id, secret = mint_key(self._randomness(42))
        key = StoredKey(
            id=id if op is None else id_under(op, tenant), tenant=tenant, scope=scope, name=name, secret_hash="", made_at=now,
            expires_at=expires_at, pools=prefixes, verbs=allowed, made_under=op,
        )  # fmt: skip
        if op is not None and (again := self._made_again(key, secret, call)) is not None:
            return again
        if siblings is None:
            siblings = [key for key in self.stored() if key.tenant == tenant]
        if sum(ended_at(key, now) is None for key in siblings) >= most:
            said = f"the tenant already has {most} active API keys, the maximum: revoke one first"
            raise invalid("name", "keys_too_many", said)
        key = replace(key, secret_hash=hash_secret(key.id, secret, self.pepper()))
        self._put(key, 0, call)
        for ended in to_remove(siblings, most, now):
            self.remove(ended)
        return NewKey(shown(key, now), format_key(key.id, secret))

    def _made_again(self, asked: StoredKey, secret: str, call: Call) -> NewKey | None:
        """Give the key that an earlier call made under this operation id another secret; return None if there is no such key."""
        found = self._executor.read(FindRecord(("", KEYS, asked.id)), durable=True)
        if found is None:
            return None
        key = _stored.decode(found.body)
        if (key.name, key.scope, key.pools, key.verbs) != (asked.name, asked.scope, asked.pools, asked.verbs):
            raise OperationConflict("this operation id was used to create another API key: use a new one")
        return self._with_secret(key, found.version, secret, call)

    def _with_secret(self, key: StoredKey, version: int, secret: str, call: Call) -> NewKey:
        """Replace the last secret of a key, which was lost with its answer. A secret from before that one stays valid."""
        if key.revoked_at is not None:
            raise _revoked()
        key = replace(key, secret_hash=hash_secret(key.id, secret, self.pepper()))
        self._put(key, version, call)
        return NewKey(shown(key, self._executor.now()), format_key(key.id, secret), replayed=True)

    def remove(self, id: str) -> None:
        """Remove a key that has ended: it is no longer listed."""
        self._executor.execute(PutRecord(kind=KEYS, id=id, body=None), faces=True)
        self.announce(id)

    def listed(self, *, tenant: str | None = None) -> list[KeyInfo]:
        """Return all keys in order of id, or those of one tenant, without their secrets."""
        now, uses = self._executor.now(), self.uses()
        keys = [key for key in self.stored() if tenant is None or key.tenant == tenant]
        return [shown(key, now, uses.get(key.id)) for key in keys]

    def uses(self) -> dict[str, Slot]:
        """Return when keys were used last, by key id: the times that servers have stored (`server.key_use`)."""
        rows = self._executor.read(ListRecords("", USES, "", _PAGE))
        return {id: slot for row in rows for id, slot in _used.decode(row.body).items()}

    def put_uses(self, shard: str, noted: Mapping[str, Slot], existing: Container[str]) -> None:
        """Store the last uses of the keys whose ids begin with a letter. Raise `VersionConflict` if another server stored meanwhile."""
        row = self._executor.read(FindRecord(("", USES, shard)))
        merged = {} if row is None else {id: slot for id, slot in _used.decode(row.body).items() if id in existing}
        for id, slot in noted.items():
            merged[id] = max(slot, merged.get(id, 0))
        latest = dict(sorted(merged.items(), key=lambda use: use[1])[-MAX_USES:])
        command = PutRecord(
            kind=USES, id=shard, body=msgspec.json.encode(latest).decode(), if_version=0 if row is None else row.version
        )
        self._executor.execute(command, faces=True)

    def revoke(self, id: str, *, tenant: str | None = None, **call: Unpack[Call]) -> KeyInfo:
        """Revoke a key: here at once, on other servers within a second or two. Revoking it again has no effect."""
        while True:
            key, version = self._find(id, tenant)
            now = self._executor.now()
            if key.revoked_at is not None:
                return shown(key, now)
            key = replace(key, revoked_at=now, old_hash=None, old_until=None)
            try:
                self._put(key, version, call)
            except VersionConflict:
                continue  # rotated in the meantime: revoke the new version
            return shown(key, now)

    def rotate(self, id: str, *, grace: Ttl = GRACE, tenant: str | None = None, **call: Unpack[Call]) -> NewKey:
        """Give a key a new secret; the old one stays valid for `grace` seconds. Under the `op` of the last rotation only the new
        secret is replaced, since its text was lost: the old one stays valid as it was."""
        key, version = self._find(id, tenant)
        now, op = self._executor.now(), call.get("op")
        if key.revoked_at is not None:
            raise _revoked()
        kept = 0 if grace == 0 else self._life(grace, "grace")
        _, secret = mint_key(self._randomness(42))
        if op is not None and key.rotated_under == op:
            return self._with_secret(key, version, secret, call)
        key = replace(
            key,
            secret_hash=hash_secret(id, secret, self.pepper()),
            old_hash=key.secret_hash if kept else None,
            old_until=now + kept if kept else None,
            rotated_under=op,
        )
        self._put(key, version, call)
        return NewKey(shown(key, now), format_key(id, secret))

    def stored(self) -> list[StoredKey]:
        """Return all keys as they are stored. Skip a key that cannot be decoded, so that it does not block the others."""
        found: list[StoredKey] = []
        after = ""
        while True:
            rows = self._executor.read(ListRecords("", KEYS, after, _PAGE))
            for row in rows:
                try:
                    found.append(_stored.decode(row.body))
                except msgspec.DecodeError:
                    continue
            if len(rows) < _PAGE:
                return found
            after = rows[-1].id

    def find(self, id: str) -> StoredKey | None:
        """Return one key as it is stored."""
        found = self._executor.read(FindRecord(("", KEYS, id)))
        return None if found is None else _stored.decode(found.body)

    def changes(self) -> tuple[int, list[str]]:
        """Return the number of changes, and the objects of the last ones in order: ids of keys, and tenants after an equals sign."""
        found = self._executor.read(FindRecord(("", SERVER, "keys")))
        return (0, []) if found is None else (found.version, _announced.decode(found.body))

    def announce(self, changed: str) -> None:
        """Let all servers know of a change that is stored already. If this write fails, the change is stored all the same and its
        call must succeed: the servers' periodic full reads find it."""
        with suppress(EngineError, Overloaded, OutcomeUnknown):
            for _ in range(10):
                version, ids = self.changes()
                body = msgspec.json.encode([*ids, changed][-ANNOUNCED:]).decode()
                try:
                    self._executor.execute(PutRecord(kind=SERVER, id="keys", body=body, if_version=version), faces=True)
                except VersionConflict:
                    continue
                return
            # Others change keys all the time. Without names every server reads all keys, once.
            self._executor.execute(PutRecord(kind=SERVER, id="keys", body="[]"), faces=True)

    def pepper(self) -> bytes:
        """Return the server's own secret; generate and store it on first use, unless one was given."""
        while self._pepper is None:
            found = self._executor.read(FindRecord(("", SERVER, "pepper")), durable=True)  # it is cached permanently
            if found is None:
                body = msgspec.json.encode(self._randomness(32).hex()).decode()
                try:
                    command = PutRecord(kind=SERVER, id="pepper", body=body, if_version=0, reason="keys")
                    self._executor.execute(command, faces=True)
                except VersionConflict:
                    continue  # another process was first: use its secret
            else:
                self._pepper = bytes.fromhex(msgspec.json.decode(found.body, type=str))
        return self._pepper

    def _find(self, id: str, tenant: str | None) -> tuple[StoredKey, int]:
        found = self._executor.read(
            FindRecord(("", KEYS, text(id, "id", 64))), durable=True
        )  # the caller relies on the answer that it is revoked
        key = None if found is None else _stored.decode(found.body)
        if found is None or key is None or (tenant is not None and key.tenant != tenant):
            raise invalid("id", "key_not_found", "there is no API key with this id")
        return key, found.version

    def _put(self, key: StoredKey, version: int, call: Call) -> None:
        body = msgspec.json.encode(key).decode()
        fields = call_fields({**call, "op": None}, "")  # a retry writes another secret, so it is not the same operation
        self._executor.execute(PutRecord(kind=KEYS, id=key.id, body=body, if_version=version, **fields), faces=True)
        self.announce(key.id)  # second, so that a server that sees the announcement also sees the key

    def _life(self, value: Ttl, field: str = "ttl") -> Slot:
        slots = span(value, field)
        if not 0 < slots <= 3_660 * 86_400 * SECOND:
            raise invalid(field, f"{field}_out_of_range", "must be above 0 and at most ten years")
        return slots


def _revoked() -> InvalidRequest:
    return invalid("id", "key_revoked", "a revoked API key cannot be rotated: create a new one")
