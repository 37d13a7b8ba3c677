"""Settings by flag, environment and file: one name, a stated precedence, and a misspelt limit is never no limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from holdkit.cli.documents import DoctorDocument
from holdkit.errors import InvalidRequest
from holdkit.server import Settings
from holdkit.server.bounds import bounds_of, raise_file_limit
from holdkit.server.configuration import (
    FORMER_NAMES,
    GROUPS,
    REMOVED,
    SETTINGS,
    Configuration,
    configure,
    written,
)
from holdkit.server.settings import Proxy, Rates, Requests
from holdkit.wire.pools import PoolNow
from tests.support.command_line import run, told
from tests.support.servers import live_server


def leaves(value: msgspec.Struct, prefix: str = "") -> list[str]:
    """The names of all fields, however deep."""
    found = []
    for name in value.__struct_fields__:
        inner = getattr(value, name)
        found += leaves(inner, f"{prefix}{name}.") if isinstance(inner, msgspec.Struct) else [prefix + name]
    return found


PLAIN = (
    "host", "port", "uds", "certificate", "private_key", "behind_proxy", "open", "schema", "pool_size", "notify_url", "drain",
)  # fmt: skip
TABLES = (
    "proxy", "connections", "requests", "rates", "answers", "streams", "tenants", "journal", "upkeep", "jobs",
    "metrics", "webhooks",
)  # fmt: skip
LEAST = {
    "0 0 -1": """port drain requests.body_timeout requests.timeout requests.stop_timeout connections.receive_timeout rates.refusal_delay
        rates.pace streams.timeout streams.summary_every upkeep.sweep_every upkeep.usage_every upkeep.key_refresh
        journal.seal_after journal.min_free jobs.timeout jobs.retention webhooks.pauses webhooks.seconds
        webhooks.lookup_timeout webhooks.connect_timeout webhooks.send_timeout webhooks.log_every""",
    "above 0.5 0": """connections.write_timeout connections.keep_alive rates.key rates.tenant
        streams.ping_every tenants.table_share""",
    "1 1 0": """requests.max_body requests.max_depth requests.max_headers requests.max_query requests.max_batch requests.max
        requests.max_of_tenant requests.max_touched_legs answers.page_bytes answers.max_bytes answers.journal_scan
        connections.max connections.max_pipelined rates.key_burst
        rates.tenant_burst rates.tenant_bytes rates.tenant_bytes_burst rates.costly rates.max_costly streams.max streams.max_feeds
        tenants.max_keys tenants.quota_bytes tenants.quota_rows jobs.max webhooks.attempts webhooks.tenant_attempts
        webhooks.receiver_attempts webhooks.lookup_threads webhooks.tenant_lookup_threads webhooks.tenant_hooks webhooks.max_parked
        webhooks.max_log""",
    "4 4 3": "pool_size",
}
MOST = {
    "port": 65_535,
    "pool_size": 1_000,
    "requests.max_touched_legs": 1_000_000,
    "tenants.table_share": 1,
    "webhooks.tenant_hooks": 1_000,
    "webhooks.max_log": 200,
}


def test_every_setting_is_plain_or_in_exactly_one_group() -> None:
    assert tuple(GROUPS) == TABLES
    assert tuple(name for name, setting in SETTINGS.items() if not setting.group) == PLAIN
    assert {setting.group for setting in SETTINGS.values()} == {"", *TABLES}
    classes = {table: type(getattr(Configuration(), table)) for table in TABLES}
    assert [cls.__name__ for cls in classes.values()] == [table.capitalize() for table in TABLES]
    fields = [f"{table}.{field}" for table, cls in classes.items() for field in cls.__struct_fields__]
    assert len(fields) == len(set(fields)) == 72
    assert set(SETTINGS) == {*PLAIN, *fields}
    settings = Settings(proxy=Proxy(actor_header="x"), rates=Rates(tenant=2.0))
    assert (settings.proxy.actor_header, settings.rates.tenant, settings.requests) == ("x", 2.0, Requests())


def test_every_number_has_its_bounds() -> None:
    bounded = []
    for bounds, names in LEAST.items():
        *_, least, below = bounds.split()
        for name in names.split():
            bounded.append(name)
            configure({name: least}, environment={})
            with pytest.raises(InvalidRequest, match="Expected"):
                configure({name: below}, environment={})
    for name, most in MOST.items():
        configure({name: str(most)}, environment={})
        with pytest.raises(InvalidRequest, match="<= "):
            configure({name: str(most + 1)}, environment={})
    words = [name for name, setting in SETTINGS.items() if isinstance(setting.default, (bool, str, frozenset))]
    texts = [
        "uds",
        "certificate",
        "private_key",
        "schema",
        "notify_url",
        "proxy.trusted",
        "metrics.pools",
        "journal.seal_key",
    ]
    texts += ["journal.seal_anchor", "journal.archive", "webhooks.state"]
    assert sorted([*bounded, *words, *texts]) == sorted(SETTINGS)


def test_every_former_name_says_the_new_one(tmp_path: Path) -> None:
    assert len(FORMER_NAMES) == len(set(FORMER_NAMES.values())) == 54
    in_groups = {name for name, setting in SETTINGS.items() if setting.group not in ("", "webhooks")}
    assert set(FORMER_NAMES.values()) == in_groups
    assert FORMER_NAMES.keys().isdisjoint({*SETTINGS, *GROUPS})
    file = tmp_path / "holdkit.toml"
    for old, new in FORMER_NAMES.items():
        group, name = new.split(".")
        variable, now = f"HOLDKIT_SERVER_{old}".upper(), f"HOLDKIT_SERVER_{group}_{name}".upper()
        with pytest.raises(InvalidRequest) as refused:
            configure(environment={variable: "1"})
        assert str(refused.value).endswith(f"{variable}: there is no setting {old}; it is {now} now")
        file.write_text(f"{old} = 1\n")
        with pytest.raises(InvalidRequest) as refused:
            configure(file=file, environment={})
        assert str(refused.value).endswith(f"{file}: there is no setting {old}; it is [{group}] {name} now")
        flag, flag_now = f"--{old}".replace("_", "-"), f"--{group}-{name}".replace("_", "-")
        for given, wanted in ((flag, flag_now), (flag.replace("--", "--no-", 1), flag_now.replace("--", "--no-", 1))):
            message = run("serve", given, code=2).err
            assert f"No such option '{given}': it is {wanted} now." in " ".join(message.split())
    assert "No such option" in run("serve", "--nothing", "1", code=2).err


DIRECTIVES = {
    ("tls.check_every", "certificate_check"): "`nginx -s reload` after a renewal; Caddy renews certificates itself",
    ("tls.hsts", "hsts"): "`add_header Strict-Transport-Security` in nginx, `header Strict-Transport-Security` in Caddy",
    ("connections.max_per_address", "max_connections_per_address"): "`limit_conn` in nginx; Caddy has no such bound",
    ("connections.handshake_timeout", "handshake_timeout"): "`client_header_timeout` in nginx, `read_header` of `timeouts` in Caddy",
    ("connections.max_handshakes", "max_handshakes"): "`worker_connections` in nginx; Caddy has no such bound",
}  # fmt: skip


GONE = {
    names: f"the proxy in front of the server does this now: {directive} (see docs/upgrades.md)"
    for names, directive in DIRECTIVES.items()
}
GONE |= {
    ("upkeep.rollup_every", "rollup_every"): "statistics are always recorded, there is nothing to set any more",
}


@pytest.mark.parametrize("names", GONE)
def test_a_setting_that_is_gone_stops_the_start_and_says_why(names: tuple[str, str], tmp_path: Path) -> None:
    says = GONE[names]
    assert {name.replace(".", "_") for names in GONE for name in names} <= set(REMOVED)
    file = tmp_path / "holdkit.toml"
    for name in names:
        plain = name.replace(".", "_")
        table, _, key = name.rpartition(".")
        file.write_text(f"[{table}]\n{key} = 1\n" if table else f"{key} = 1\n")
        with pytest.raises(InvalidRequest) as refused:
            configure(file=file, environment={})
        assert str(refused.value).endswith(f"there is no setting {name}; {says}")
        with pytest.raises(InvalidRequest) as refused:
            configure(environment={f"HOLDKIT_SERVER_{plain}".upper(): "1"})
        assert str(refused.value).endswith(f"there is no setting {plain}; {says}")
        flag = f"--{plain}".replace("_", "-")
        message = run("serve", f"--config={tmp_path / 'none'}", flag, "1", code=2).err
        assert f"No such option '{flag}': {says}." in " ".join(message.split())


def test_every_field_is_a_setting_with_a_description_and_a_name_of_its_own() -> None:
    assert sorted(SETTINGS) == sorted(leaves(Configuration()))
    assert len(SETTINGS) > 30
    assert [name for name, setting in SETTINGS.items() if not setting.description] == []
    assert len({setting.variable for setting in SETTINGS.values()}) == len(SETTINGS)
    assert len({setting.flag for setting in SETTINGS.values()}) == len(SETTINGS)


@pytest.mark.parametrize("name", list(SETTINGS))
def test_what_is_written_is_what_is_read(name: str, tmp_path: Path) -> None:
    """Every default, written as a flag and as a variable, gives the same configuration."""
    setting = SETTINGS[name]
    text = written(setting.default)
    if text == "none" and setting.default is not None:
        text = ""
    by_flag = configure({name: text}, environment={})
    by_variable = configure(environment={setting.variable: text})
    assert by_flag.configuration == by_variable.configuration == Configuration()
    assert (by_flag.sources, by_variable.sources) == ({name: "flag"}, {name: "environment"})


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "holdkit.toml"
    file.write_text(
        '[requests]\nmax_body = 1\nmax_depth = 2\nmax_batch = 3\n[webhooks]\nseconds = 4.5\nallowed = ["a", "b"]\n'
    )
    environment = {
        "HOLDKIT_SERVER_REQUESTS_MAX_BODY": "10",
        "HOLDKIT_SERVER_REQUESTS_MAX_DEPTH": "20",
        "HOLDKIT_SERVER_CONFIG": str(file),
    }
    found = configure({"requests.max_body": "100", "port": None}, environment=environment)
    chosen, requests = found.configuration, found.configuration.requests
    assert (requests.max_body, requests.max_depth, requests.max_batch) == (100, 20, 3)
    assert (chosen.webhooks.seconds, chosen.webhooks.allowed) == (4.5, frozenset("ab"))
    sources = {setting.name: source for setting, _, source in found.listed() if source != "default"}
    assert sources == {"requests.max_body": "flag", "requests.max_depth": "environment", "requests.max_batch": "file",
                       "webhooks.seconds": "file", "webhooks.allowed": "file"}  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "variables", "file", "says"),
    [
        ({}, {"HOLDKIT_SERVER_REQUESTS_MAX_BODI": "1"}, "",
         "HOLDKIT_SERVER_REQUESTS_MAX_BODI: there is no setting requests_max_bodi; did you mean requests.max_body?"),
        ({}, {}, "[requests]\nmax_bodi = 1", "there is no setting requests.max_bodi; did you mean requests.max_body?"),
        ({}, {}, "[connections]\nmax_body = 1", "there is no setting connections.max_body"),
        ({}, {}, "[webhooks]\nsecond = 1", "there is no setting webhooks.second; did you mean webhooks.seconds?"),
        ({}, {}, "[nothing]\nat_all = 1", "there is no setting nothing.at_all; holdkit doctor --settings lists them"),
        ({}, {}, "webhooks = 1", "there is no setting webhooks"),
        ({}, {}, "requests = [", "is not a TOML file"),
        ({"requests.max_body": "0"}, {}, "", "--requests-max-body = '0': Expected `int` >= 1"),
        ({}, {"HOLDKIT_SERVER_RATES_KEY": "nan"}, "", "HOLDKIT_SERVER_RATES_KEY = 'nan': Expected `float` > 0.0"),
        ({"requests.stop_timeout": "inf"}, {}, "", "--requests-stop-timeout = 'inf': Expected `float` <= 31536000.0"),
        ({}, {}, "[connections]\nwrite_timeout = 1e300", "connections.write_timeout = 1e+300: Expected `float` <= 31536000.0"),
        ({"webhooks.pauses": "1,x"}, {}, "", "--webhooks-pauses = '1,x': Expected `float`, got `str` - at `$[1]`"),
        ({"certificate": "/nowhere.pem"}, {}, "", "there is no file /nowhere.pem"),
        ({"webhooks.state": "/nowhere"}, {}, "", "there is no directory /nowhere"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(
    flags: dict[str, Any], variables: dict[str, str], file: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "holdkit.toml"
    path.write_text(file)
    with pytest.raises(InvalidRequest) as mistake:
        configure(flags, file=path, environment=variables)
    assert says in str(mistake.value)


def test_half_a_certificate_and_a_missing_or_huge_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.pem"
    file.write_text("x" * (1024 * 1024 + 1))
    for flags, config, says in (
        ({"certificate": str(file)}, None, "give both a certificate and its private key"),
        ({}, tmp_path / "none.toml", "cannot read"),
        ({}, file, "larger than 1 MiB"),
    ):
        with pytest.raises(InvalidRequest, match=says):
            configure(flags, file=config, environment={})


def test_a_configured_limit_is_the_one_in_force(tmp_path: Path) -> None:
    settings = configure({"open": True}, environment={"HOLDKIT_SERVER_REQUESTS_MAX_BODY": "100"}).configuration
    assert isinstance(settings, Settings)
    with live_server(settings=settings) as server:
        answer = httpx.post(f"{server.url}/v1/pools", json={"id": "x" * 200, "total": 1}, timeout=60)
    assert (answer.status_code, answer.json()["reason"]) == (413, "body_too_large")


def test_doctor_shows_every_setting_and_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    monkeypatch.setenv("HOLDKIT_SERVER_REQUESTS_MAX_BODY", "5000")
    told(PoolNow, "pools", "create", "gpu", 5, "--url", url)
    document = told(DoctorDocument, "doctor", url, "--settings")
    shown = document.settings
    raise_file_limit(Settings())
    bounds = bounds_of(Settings())
    says = next(one.says for one in document.findings if one.name == "server bounds")
    assert f"{bounds.connections:,} connections" in says
    assert f"{bounds.requests_of_tenant:,} per tenant" in says
    assert {one.name for one in shown} == set(SETTINGS)
    assert [(one.name, one.value, one.source) for one in shown if one.source != "default"] == [
        ("requests.max_body", "5000", "environment")
    ]
    assert [one.name for one in shown] == [
        "requests.max_body",
        *(name for name in SETTINGS if name != "requests.max_body"),
    ]
    assert told(DoctorDocument, "doctor", url).settings == ()
    monkeypatch.setenv("HOLDKIT_SERVER_REQUESTS_MAX_BODY", "all of it")
    found = run("doctor", url, code=6)
    assert "FAIL  server settings" in found.out


def test_doctor_prints_what_is_changed_and_then_every_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDKIT_SERVER_RATES_TENANT", "7")
    lines = run("doctor", "memory://", "--settings").out.splitlines()
    heads = ["not at the default", "without a group", *(f"[{table}]" for table in TABLES)]
    assert [line for line in lines if line in heads] == heads
    places = [lines.index(head) for head in heads]
    assert all(lines[place - 1] == "" for place in places)
    (changed,) = lines[places[0] + 1 : places[1] - 1]
    assert changed.split()[:3] == ["rates.tenant", "7", "(environment):"]
    assert [line.split()[0] for line in lines[places[1] + 1 : places[2] - 1]] == list(PLAIN)
    for table, place in zip(TABLES, places[2:], strict=True):
        names = [name for name, setting in SETTINGS.items() if setting.group == table and name != "rates.tenant"]
        assert [line.split()[0] for line in lines[place + 1 : place + 1 + len(names)]] == names
    assert sum(line.startswith("rates.tenant ") for line in lines) == 1


def test_serve_lists_every_setting_and_refuses_a_bad_one(tmp_path: Path) -> None:
    plain, everything = run("serve", "--help").out, run("serve", "--help-all").out
    assert [setting.flag for setting in SETTINGS.values() if setting.flag not in everything] == []
    heads = [f"[{table}] {GROUPS[table].removesuffix('.')}:" for table in TABLES]
    assert [line for line in everything.splitlines() if line.startswith("[")] == heads
    flags = [line.split()[0] for line in plain.splitlines() if line.startswith("  --")]
    assert [one.name for one in SETTINGS.values() if one.flag in flags] == list(PLAIN)
    assert plain.endswith("\n\n72 more in 12 groups: holdkit serve --help-all, docs/operating.md\n")
    assert "more in" not in everything
    refused = run("serve", f"sqlite:///{tmp_path}/holds.db", "--requests-max-body", "none", code=2)
    assert "--requests-max-body = 'none'" in refused.err
