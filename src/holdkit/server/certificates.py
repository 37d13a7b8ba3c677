"""The server's TLS certificate, read anew while the server runs.

A change is noticed by the files' times and sizes. The files are always read into a new TLS context, never into the one in use:
reading replaces the certificate before it checks that the key belongs to it, so a mistake would leave a context that fits no
client. A context that is complete replaces the old one, for new connections; open ones keep theirs.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from ..core.validation import invalid

log = logging.getLogger("holdkit.server")


class Certificate:
    """The files of a certificate chain and of its private key, which may be one file."""

    def __init__(self, certificate: Path, private_key: Path | None) -> None:
        self._certificate, self._private_key = certificate, private_key
        self._seen = self._signature()
        try:
            self.context = self._read()
        except OSError as failed:  # an SSLError is one too
            raise invalid("certificate", "certificate_unusable", f"cannot use {certificate}: {failed}") from None

    def reread(self, *, only_changed: bool = False) -> bool:
        """Read the files again; true if `context` is a new one. If they are not usable, log why and keep the old one."""
        now = self._signature()
        if only_changed and now == self._seen:
            return False
        self._seen = now
        try:
            self.context = self._read()
        except OSError as failed:
            log.warning(
                "cannot use the new certificate in %s, keeping the old one: %s",
                self._certificate,
                failed,
                extra={"event": "certificate_unusable", "path": str(self._certificate)},
            )
            return False
        log.warning(
            "read the certificate in %s anew",
            self._certificate,
            extra={"event": "certificate_read", "path": str(self._certificate)},
        )
        return True

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._certificate, self._private_key)
        return context

    def _signature(self) -> tuple[tuple[int, ...], ...]:
        found: list[tuple[int, ...]] = []
        for path in (self._certificate, self._private_key):
            if path is not None:
                try:
                    about = path.stat()
                except OSError:
                    found.append(())
                else:
                    found.append((about.st_mtime_ns, about.st_size, about.st_ino))
        return tuple(found)
