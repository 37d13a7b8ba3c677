"""Where the settings of a server come from: flags, then environment variables, then a TOML file, then the defaults.

One name serves all of them: the setting `rates.tenant` is the flag `--rates-tenant`, the variable `HOLDKIT_SERVER_RATES_TENANT`,
and `tenant` in the table `[rates]` of the file. A name that does not exist is an error, otherwise a typo would silently disable a
limit; the error for a name from before the groups says the new one, and the error for a setting that was removed says why.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from ..core.validation import invalid
from .settings import SECRET, Settings

PREFIX: Final = "HOLDKIT_SERVER_"
FILE_VARIABLE: Final = "HOLDKIT_SERVER_CONFIG"
_OTHERS: Final = frozenset((FILE_VARIABLE, "HOLDKIT_SERVER_SECRET"))
MAX_FILE: Final = 1024 * 1024

Source: TypeAlias = Literal["default", "file", "environment", "flag"]


class Configuration(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that `holdkit serve` can be told: the settings of the application, and where it listens."""

    host: Annotated[
        str, Meta(description="address to listen on; other than loopback needs API keys and `behind_proxy`")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="port to listen on; 0 for any free one")] = 8420
    uds: Annotated[
        str | None, Meta(description="path of a Unix socket to listen on, with mode 0660, instead of `host` and `port`")
    ] = None
    certificate: Annotated[
        str | None, Meta(description="TLS certificate for the way between proxy and server, a PEM file")
    ] = None
    private_key: Annotated[str | None, Meta(description="private key of the certificate, a PEM file")] = None
    behind_proxy: Annotated[
        bool, Meta(description="the server is reached through a proxy only, which provides TLS, on any address")
    ] = False


class Setting(Struct, frozen=True):
    """One setting: its name with dots, its type, its default and what it is."""

    name: str
    type: Any
    default: Any
    description: str
    secret: bool = False
    """Whether its value is never shown."""

    @property
    def group(self) -> str:
        """Return the name of its group; empty if it has none."""
        return self.name.rpartition(".")[0]

    @property
    def line(self) -> str:
        """Return its name in the file, after the name of its table."""
        table, _, name = self.name.rpartition(".")
        return f"[{table}] {name}" if table else name

    @property
    def flag(self) -> str:
        """Return its flag."""
        return "--" + self.name.replace(".", "-").replace("_", "-")

    @property
    def variable(self) -> str:
        """Return its environment variable."""
        return PREFIX + self.name.replace(".", "_").upper()

    def shown(self, value: Any) -> str:
        """Return a value as it may be shown."""
        return "(hidden)" if self.secret and value is not None else written(value)


class Configured(Struct, frozen=True):
    """The configuration, and where each setting that is not at its default came from."""

    configuration: Configuration
    sources: dict[str, Source]

    def listed(self) -> Iterator[tuple[Setting, Any, Source]]:
        """Yield every setting with its value and its source, in the order of their definition."""
        for setting in SETTINGS.values():
            value: Any = self.configuration
            for part in setting.name.split("."):
                value = getattr(value, part)
            yield setting, value, self.sources.get(setting.name, "default")


def configure(
    flags: Mapping[str, Any] | None = None, *, file: str | Path | None = None, environment: Mapping[str, str]
) -> Configured:
    """Read the configuration. `flags` are by the name of their setting; a flag that is None was not given."""
    given: dict[str, tuple[Any, Source]] = {}
    path = file or environment.get(FILE_VARIABLE)
    if path:
        given |= {name: (value, "file") for name, value in _from_file(Path(path)).items()}
    given |= {name: (value, "environment") for name, value in _from_environment(environment).items()}
    given |= {name: (value, "flag") for name, value in (flags or {}).items() if value is not None}
    values: dict[str, Any] = {}
    for name, (value, source) in given.items():
        _check(SETTINGS[name], value, source)
        *tables, last = name.split(".")
        node = values
        for table in tables:
            node = node.setdefault(table, {})
        node[last] = _plain(SETTINGS[name], value)
    configuration = msgspec.convert(values, Configuration, strict=False)
    _check_paths(configuration)
    return Configured(configuration, {name: source for name, (_, source) in given.items()})


def _check_paths(configuration: Configuration) -> None:
    for name, path in (("certificate", configuration.certificate), ("private_key", configuration.private_key)):
        if path is not None and not Path(path).is_file():
            raise invalid(name, "file_not_found", f"there is no file {path}")
    if (configuration.certificate is None) != (configuration.private_key is None):
        raise invalid("certificate", "certificate_incomplete", "give both a certificate and its private key")
    state = configuration.webhooks.state
    if state is not None and not Path(state).is_dir():
        raise invalid("webhooks.state", "directory_not_found", f"there is no directory {state}")


def written(value: Any) -> str:
    """Return the value of a setting as one would write it in a flag."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, frozenset)):
        return ",".join(map(written, sorted(value) if isinstance(value, frozenset) else value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_FILE:
            raise invalid("config", "config_too_large", f"{path} is larger than 1 MiB: is it the right file?")
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as failed:
        raise invalid("config", "config_unreadable", f"cannot read {path}: {failed.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as failed:
        raise invalid("config", "config_malformed", f"{path} is not a TOML file: {failed}") from None
    found: dict[str, Any] = {}
    for name, value in document.items():
        nested = {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
        for full, one in nested.items():
            if full not in SETTINGS:
                advice = _instead_of(full, lambda setting: setting.line)
                raise invalid("config", "setting_unknown", f"{path}: there is no setting {full}{advice}")
            found[full] = one
    return found


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    known = {setting.variable: name for name, setting in SETTINGS.items()}
    found: dict[str, str] = {}
    for variable, value in environment.items():
        if variable.startswith(PREFIX) and variable not in _OTHERS:
            if variable not in known:
                asked = variable.removeprefix(PREFIX).lower()
                advice = _instead_of(asked, lambda setting: setting.variable)
                raise invalid("environment", "setting_unknown", f"{variable}: there is no setting {asked}{advice}")
            found[known[variable]] = value
    return found


def advice_on(name: str, spell: Callable[[Setting], str]) -> str:
    """Return what to use instead of a setting of an earlier release, or nothing if there was none of this name."""
    if name in FORMER_NAMES:
        return f"it is {spell(SETTINGS[FORMER_NAMES[name]])} now"
    return REMOVED.get(name.replace(".", "_"), "")


def _instead_of(name: str, spell: Callable[[Setting], str]) -> str:
    advice = advice_on(name, spell)
    return f"; {advice}" if advice else _similar(name)


def _similar(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, SETTINGS, 1)
    return f"; did you mean {close[0]}?" if close else "; holdkit doctor --settings lists them"


def _check(setting: Setting, value: Any, source: Source) -> None:
    """Check one value by itself, so that the message names what the user wrote."""
    try:
        msgspec.convert(_plain(setting, value), setting.type, strict=False)
    except msgspec.ValidationError as wrong:
        named = {"flag": setting.flag, "environment": setting.variable}.get(source, setting.name)
        said = "(hidden)" if setting.secret else repr(value)
        raise invalid(setting.name, "setting_malformed", f"{named} = {said}: {wrong}") from None


def _plain(setting: Setting, value: Any) -> Any:
    """Return a value as msgspec expects it: text is split at commas for a collection, and `none` is None."""
    if not isinstance(value, str):
        return value
    if _is_collection(setting.type):
        return [part.strip() for part in value.split(",") if part.strip()]
    return None if value.strip().lower() == "none" and setting.default is None else value


def _is_collection(annotation: Any) -> bool:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return get_origin(annotation) in (tuple, frozenset, list) or any(
        _is_collection(part) for part in get_args(annotation) if type(None) in get_args(annotation)
    )


def _settings(kind: type[Struct], prefix: str = "") -> Iterator[Setting]:
    for field in msgspec.structs.fields(kind):
        if isinstance(field.default, Struct):
            yield from _settings(type(field.default), f"{prefix}{field.name}.")
            continue
        metas = [meta for meta in get_args(field.type)[1:] if isinstance(meta, Meta)]
        described = next((meta.description for meta in reversed(metas) if meta.description), "")
        secret = any(meta.extra and meta.extra.get(SECRET) for meta in metas)
        yield Setting(prefix + field.name, field.type, field.default, described, secret)


_LISTENING: Final = ("host", "port", "uds", "certificate", "private_key", "behind_proxy")
SETTINGS: Final = {
    setting.name: setting for setting in sorted(_settings(Configuration), key=lambda one: one.name not in _LISTENING)
}
"""Every setting by its name; those without a group first, and of these where the server listens."""
GROUPS: Final[dict[str, str]] = {
    field.name: str(type(field.default).__doc__)
    for field in msgspec.structs.fields(Configuration)
    if isinstance(field.default, Struct)
}
"""What each group is about, by its name."""
FORMER_NAMES: Final = {
    "trusted_proxies": "proxy.trusted",
    "actor_header": "proxy.actor_header",
    "max_connections": "connections.max",
    "keep_alive": "connections.keep_alive",
    "receive_timeout": "connections.receive_timeout",
    "write_timeout": "connections.write_timeout",
    "max_pipelined": "connections.max_pipelined",
    "max_requests": "requests.max",
    "max_requests_of_tenant": "requests.max_of_tenant",
    "request_timeout": "requests.timeout",
    "body_timeout": "requests.body_timeout",
    "stop_timeout": "requests.stop_timeout",
    "max_body": "requests.max_body",
    "max_depth": "requests.max_depth",
    "max_headers": "requests.max_headers",
    "max_query": "requests.max_query",
    "max_batch": "requests.max_batch",
    "max_touched_legs": "requests.max_touched_legs",
    "rate": "rates.key",
    "burst": "rates.key_burst",
    "tenant_rate": "rates.tenant",
    "tenant_burst": "rates.tenant_burst",
    "tenant_byte_rate": "rates.tenant_bytes",
    "tenant_byte_burst": "rates.tenant_bytes_burst",
    "refusal_delay": "rates.refusal_delay",
    "costly": "rates.costly",
    "pace": "rates.pace",
    "max_costly": "rates.max_costly",
    "page_bytes": "answers.page_bytes",
    "answer_bytes": "answers.max_bytes",
    "journal_scan": "answers.journal_scan",
    "max_streams": "streams.max",
    "max_feeds": "streams.max_feeds",
    "stream_timeout": "streams.timeout",
    "summary_every": "streams.summary_every",
    "ping_every": "streams.ping_every",
    "quota_bytes": "tenants.quota_bytes",
    "quota_rows": "tenants.quota_rows",
    "table_share": "tenants.table_share",
    "max_keys": "tenants.max_keys",
    "seal_after": "journal.seal_after",
    "seal_key": "journal.seal_key",
    "seal_anchor": "journal.seal_anchor",
    "archive": "journal.archive",
    "audit_refusals": "journal.audit_refusals",
    "min_free": "journal.min_free",
    "sweep_every": "upkeep.sweep_every",
    "usage_every": "upkeep.usage_every",
    "key_refresh": "upkeep.key_refresh",
    "job_timeout": "jobs.timeout",
    "job_retention": "jobs.retention",
    "max_jobs": "jobs.max",
    "metric_pools": "metrics.pools",
    "opentelemetry": "metrics.opentelemetry",
}
"""Settings by the names that they had before the groups."""
_BY_PROXY: Final = "the proxy in front of the server does this now: {} (see docs/upgrades.md)"
_RELOAD: Final = _BY_PROXY.format("`nginx -s reload` after a renewal; Caddy renews certificates itself")
_HSTS: Final = _BY_PROXY.format(
    "`add_header Strict-Transport-Security` in nginx, `header Strict-Transport-Security` in Caddy"
)
_PER_ADDRESS: Final = _BY_PROXY.format("`limit_conn` in nginx; Caddy has no such bound")
_HANDSHAKE: Final = _BY_PROXY.format("`client_header_timeout` in nginx, `read_header` of `timeouts` in Caddy")
_HANDSHAKES: Final = _BY_PROXY.format("`worker_connections` in nginx; Caddy has no such bound")
_ALWAYS: Final = "statistics are always recorded, there is nothing to set any more"
REMOVED: Final = {
    "tls_check_every": _RELOAD,
    "certificate_check": _RELOAD,
    "tls_hsts": _HSTS,
    "hsts": _HSTS,
    "connections_max_per_address": _PER_ADDRESS,
    "max_connections_per_address": _PER_ADDRESS,
    "connections_handshake_timeout": _HANDSHAKE,
    "handshake_timeout": _HANDSHAKE,
    "connections_max_handshakes": _HANDSHAKES,
    "max_handshakes": _HANDSHAKES,
    "upkeep_rollup_every": _ALWAYS,
    "rollup_every": _ALWAYS,
}
"""Why a setting of an earlier release is gone, by all its names, with underscores."""
