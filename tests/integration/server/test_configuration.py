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
from holdkit.server.configuration import SETTINGS, Configuration, configure, written
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
    file.write_text('max_body = 1\nmax_page = 2\nmax_batch = 3\n[webhooks]\nseconds = 4.5\nallowed = ["a", "b"]\n')
    environment = {"HOLDKIT_SERVER_MAX_BODY": "10", "HOLDKIT_SERVER_MAX_PAGE": "20", "HOLDKIT_SERVER_CONFIG": str(file)}
    found = configure({"max_body": "100", "port": None}, environment=environment)
    chosen = found.configuration
    assert (chosen.max_body, chosen.max_page, chosen.max_batch) == (100, 20, 3)
    assert (chosen.webhooks.seconds, chosen.webhooks.allowed) == (4.5, frozenset("ab"))
    sources = {setting.name: source for setting, _, source in found.listed() if source != "default"}
    assert sources == {"max_body": "flag", "max_page": "environment", "max_batch": "file",
                       "webhooks.seconds": "file", "webhooks.allowed": "file"}  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "variables", "file", "says"),
    [
        ({}, {"HOLDKIT_SERVER_MAX_BODI": "1"}, "", "HOLDKIT_SERVER_MAX_BODI: there is no setting max_bodi; did you mean max_body?"),
        ({}, {}, "max_bodi = 1", "there is no setting max_bodi; did you mean max_body?"),
        ({}, {}, "[webhooks]\nsecond = 1", "there is no setting webhooks.second; did you mean webhooks.seconds?"),
        ({}, {}, "[nothing]\nat_all = 1", "there is no setting nothing.at_all; holdkit doctor --settings lists them"),
        ({}, {}, "webhooks = 1", "there is no setting webhooks"),
        ({}, {}, "max_body = [", "is not a TOML file"),
        ({"max_body": "0"}, {}, "", "--max-body = '0': Expected `int` >= 1"),
        ({}, {"HOLDKIT_SERVER_RATE": "nan"}, "", "HOLDKIT_SERVER_RATE = 'nan': Expected `float` > 0.0"),
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
    settings = configure({"open": True}, environment={"HOLDKIT_SERVER_MAX_BODY": "100"}).configuration
    assert isinstance(settings, Settings)
    with live_server(settings=settings) as server:
        answer = httpx.post(f"{server.url}/v1/pools", json={"id": "x" * 200, "total": 1}, timeout=60)
    assert (answer.status_code, answer.json()["reason"]) == (413, "body_too_large")


def test_doctor_shows_every_setting_and_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/holds.db"
    monkeypatch.setenv("HOLDKIT_SERVER_MAX_BODY", "5000")
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
        ("max_body", "5000", "environment")
    ]
    assert told(DoctorDocument, "doctor", url).settings == ()
    monkeypatch.setenv("HOLDKIT_SERVER_MAX_BODY", "all of it")
    found = run("doctor", url, code=6)
    assert "FAIL  server settings" in found.out


def test_serve_lists_every_setting_and_refuses_a_bad_one(tmp_path: Path) -> None:
    listed = run("serve", "--help").out
    assert [setting.flag for setting in SETTINGS.values() if setting.flag not in listed] == []
    refused = run("serve", f"sqlite:///{tmp_path}/holds.db", "--max-body", "none", code=2)
    assert "--max-body = 'none'" in refused.err
