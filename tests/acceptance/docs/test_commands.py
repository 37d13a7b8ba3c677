"""What the pages show beside `python` blocks: shell commands, and fragments that need a server, a queue or a file of their own
(`py`). The commands of embedded engines and PostgreSQL run; all other names of commands and options exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import psycopg
import pytest
from alembic import command
from alembic.config import Config
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, inspect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import holdkit
from holdkit.cli.root import root
from holdkit.contrib.fastapi import Holdkit, RequestKernel
from holdkit.kernel.hints import NEXT
from tests.acceptance.docs.pages import PAGES, ROOT, backticked, blocks
from tests.support.frameworks import alchemy_url

CODE = {"py", "sh", "bash", "sql", "toml", "json", "html", "ini", "caddy", "nginx", "yaml"}
"""`python` is always executed, and `text` is what that prints."""
HERE = "tests/acceptance/docs/test_commands.py"
TESTED_BY = {
    ("README.md", "sh"): "tests/acceptance/docs/test_links.py",
    ("docs/backups.md", "bash"): HERE,
    ("docs/backups.md", "ini"): "tests/faults/postgres/test_point_in_time.py",
    ("docs/bench.md", "sh"): "tests/integration/bench/test_against.py",
    ("docs/cli.md", "sh"): HERE,
    ("docs/deploy-compose.md", "sh"): "tests/acceptance/deploy/test_compose_production.py",
    ("docs/deploy-kubernetes.md", "sh"): "tests/acceptance/deploy/test_kubernetes.py",
    ("docs/deploy-systemd.md", "sh"): "tests/acceptance/deploy/test_systemd.py",
    ("docs/django.md", "html"): HERE,
    ("docs/django.md", "py"): "tests/acceptance/docs/test_django_page.py",
    ("docs/django.md", "sh"): "tests/acceptance/docs/test_django_page.py",
    ("docs/fastapi.md", "py"): HERE,
    ("docs/mcp.md", "json"): HERE,
    ("docs/mcp.md", "sh"): HERE,
    ("docs/observability.md", "sh"): HERE,
    ("docs/operating.md", "sh"): HERE,
    ("docs/operating.md", "toml"): HERE,
    ("docs/postgres.md", "py"): HERE,
    ("docs/postgres.md", "sh"): HERE,
    ("docs/postgres.md", "sql"): HERE,
    ("docs/scaling.md", "sh"): HERE,
    ("docs/sqlalchemy.md", "py"): HERE,
    ("docs/sqlalchemy.md", "sh"): HERE,
    ("docs/task-queues.md", "py"): HERE,
    ("docs/testing.md", "py"): HERE,
    ("docs/transactions.md", "py"): "tests/acceptance/docs/test_transactions_page.py",
}
"""Who tests what a page shows in a language."""
OTHERS = {"holdkit batch", "holdkit read", "holdkit transaction", "holdkit request …", "holdkit listener"} | {
    "holdkit webhook", "holdkit follower", "holdkit.toml"
}  # fmt: skip
"""Backticked, and no commands: the names of spans."""


def shown(page: str, *languages: str) -> list[str]:
    """The blocks of a page in these languages."""
    return [block.text for block in blocks((ROOT / page).read_text("utf-8")) if block.language in languages]


def test_every_block_has_its_test() -> None:
    found = {
        (str(page.relative_to(ROOT)), block.language)
        for page in PAGES
        for block in blocks(page.read_text("utf-8"))
        if block.language in CODE
    }
    assert found == set(TESTED_BY)
    assert [path for path in TESTED_BY.values() if not (ROOT / path).exists()] == []


def test_no_code_is_called_text() -> None:
    for page in PAGES:
        for block in blocks(page.read_text("utf-8")):
            if block.language in ("text", ""):
                assert not re.search(r"^import \w|^from \w+ import |^pip ", block.text, re.MULTILINE), page.name


def run(script: str, directory: Path) -> str:
    """Run the lines of a block, without what installs packages, as a shell would."""
    lines = [line for line in script.splitlines() if not line.startswith("pip ")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", "\n".join(lines)],
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_commands_then_a_backup(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('trained')")
    (first,) = shown("docs/cli.md", "sh")
    assert "trained" in run(first, tmp_path)
    (copies, _) = shown("docs/backups.md", "bash")
    assert "restored" in run(copies, tmp_path)
    with holdkit.connect(f"sqlite:///{tmp_path / 'holds.db'}") as hk:
        assert hk.pool("gpu").consumed == 2


def test_from_sqlite_to_postgresql(tmp_path: Path, postgres_url: str) -> None:
    """docs/scaling.md, then what docs/postgres.md does and reads."""
    with holdkit.connect(f"sqlite:///{tmp_path / 'holds.db'}") as hk:
        hk.create_pool("lamp", 3)
        ticket = str(hk.hold("lamp", 2, ttl="5m").ticket)
    move = next(text for text in shown("docs/scaling.md", "sh") if "import" in text)
    assert "every row matches" in run(move.replace("postgresql://localhost/shop", shlex.quote(postgres_url)), tmp_path)
    with holdkit.connect(postgres_url) as hk:
        assert hk.confirm(ticket).state == "confirmed"
        assert hk.pool("lamp").consumed == 2
    (python,), (sql,) = shown("docs/postgres.md", "py"), shown("docs/postgres.md", "sql")
    namespace: dict[str, Any] = {}
    exec(python.replace("postgresql://localhost/shop", postgres_url), namespace)
    with namespace["hk"] as hk, psycopg.connect(postgres_url) as connection:
        counts = [len(connection.execute(line).fetchall()) for line in sql.split(";") if line.strip()]
        assert counts[0] == len(hk.pools()) == 2
        assert counts[1:] == [1, 1]


EXAMPLE = r"^ {6}(?:.*\()?(holdkit [a-z][^)\n]*)"
"""A command in a help text."""


def fault(line: str) -> str | None:
    """What is wrong with the names of a command and its options; it may lack arguments, as in running text."""
    _, *arguments = shlex.split(re.sub(r"\[[^]]*\]", "", line), comments=True)
    found: click.Command = root
    while isinstance(found, click.Group):
        if not arguments or arguments[0].startswith("-"):
            return None
        name = arguments.pop(0)
        if name not in found.commands:
            return f"there is no command {name}"
        found = found.commands[name]
    try:
        found.make_context(found.name, arguments)
    except click.MissingParameter:
        return None
    except click.UsageError as wrong:
        return wrong.format_message()
    except click.exceptions.Exit:  # --help
        return None
    return None


def test_every_command_and_option_exists(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [(page.name, name) for page in PAGES for name in backticked(page) if name.startswith("holdkit ")]
    for page in PAGES:
        text = "\n".join(block.text for block in blocks(page.read_text("utf-8")) if block.language in ("sh", "bash"))
        lines += [(page.name, found) for found in re.findall(r"^(?:.*[ (])?(holdkit [^)\n]+)", text, re.MULTILINE)]
    assert len(lines) > 200
    wrong = {page: (line, said) for page, line in lines if line not in OTHERS and (said := fault(line)) is not None}
    assert wrong == {}
    assert fault("holdkit pools make gpu 8") == "there is no command make"
    assert "--unit" in str(fault("holdkit hold gpu --unit 2"))


def test_every_command_that_a_message_or_a_help_names_exists() -> None:
    sources = [path for path in (ROOT / "src").rglob("*.py") if "_sync" not in path.parts]
    joined = [re.sub(r'"\s*\n\s*f?"', "", path.read_text("utf-8")) for path in sources]
    said = [found for text in joined for found in re.findall(r"`(holdkit [a-z][^`\n]*)`", text)]
    said += [found for hint in NEXT.values() for found in re.findall(r"holdkit [a-z]+[^,;]*", hint.cli)]
    assert len(said) > 40
    assert [line for line in said if line not in OTHERS and str(fault(line)).startswith("there is no command")] == []
    pages = [path.read_text("utf-8") for path in (ROOT / "src/holdkit/cli").glob("*.py")]
    examples = [
        re.split(r" (?:&&|[|>]) ", found)[0] for text in pages for found in re.findall(EXAMPLE, text, re.MULTILINE)
    ]
    assert len(examples) > 100
    assert {line: wrong for line in examples if (wrong := fault(line)) is not None} == {}


def test_settings_in_three_places(tmp_path: Path) -> None:
    (file,) = shown("docs/operating.md", "toml")
    values = msgspec.toml.decode(file)
    tables = {table: {*names} for table, names in values.items() if isinstance(names, dict)}
    assert tables == {"requests": {"max_body"}, "webhooks": {"seconds"}}
    assert {*values} - {*tables} == {"drain"}
    (tmp_path / "holdkit.toml").write_text(file)
    (environment,) = [one for one in shown("docs/operating.md", "sh") if "HOLDKIT_SERVER_" in one]
    asked = "holdkit doctor --url sqlite:///holds.db --settings"
    script = f"holdkit pools create gpu 1 --url sqlite:///holds.db\n{asked} --config holdkit.toml | grep -E 'max_body +65536 +.file'\n"
    script += environment.strip().replace("holdkit serve", asked) + " | grep -E 'max_body +65536 +.environment'"
    assert run(script, tmp_path).count("max_body ") == 2


def test_the_pools_of_an_assistant(tmp_path: Path) -> None:
    (script,), (settings,) = shown("docs/mcp.md", "sh"), shown("docs/mcp.md", "json")
    place = "/var/lib/holdkit/holds.db"
    assert "assistant-limit" in run(script.replace(place, str(tmp_path / "holds.db")), tmp_path)
    entry = msgspec.json.decode(settings)["mcpServers"]["holdkit"]
    assert fault(shlex.join([entry["command"], *entry["args"]])) is None
    assert entry["env"] == {"HOLDKIT_URL": f"sqlite:///{place}"}


QUEUES = """
import dramatiq, holdkit
from apscheduler.schedulers.background import BackgroundScheduler
from dramatiq.brokers.stub import StubBroker as RedisBroker
from dramatiq.middleware.asyncio import AsyncIO
from holdkit.contrib.{module} import Holds
from procrastinate import App, PsycopgConnector

class Order(holdkit.Saga):
    name = "order"
    def reserve(self, intent, step):
        return {{"gpu": 1}}

url = "postgresql://localhost/jobs"
{fragment}
assert isinstance(holds, Holds)
"""
"""What the fragments leave out."""


def test_the_task_queues_take_what_the_page_gives_them(tmp_path: Path) -> None:
    """Nothing is opened; examples/ has programs that run. In processes of their own: queues have global defaults."""
    celery, with_dramatiq, with_procrastinate, with_apscheduler = shown("docs/task-queues.md", "py")
    with_dramatiq += "assert train.broker is broker  # not Dramatiq's default one\n"
    for module, fragment in (
        ("celery", celery),
        ("dramatiq", with_dramatiq),
        ("procrastinate", with_procrastinate),
        ("apscheduler", with_apscheduler),
    ):
        (tmp_path / f"{module}_fragment.py").write_text(QUEUES.format(module=module, fragment=fragment))
    assert run("for file in *_fragment.py; do python $file; echo $file; done", tmp_path).count("_fragment.py") == 4


def test_the_fragments_for_alembic(tmp_path: Path) -> None:
    """In an environment that Alembic itself has made: upgrade, and down again."""
    configure, migration = shown("docs/sqlalchemy.md", "py")
    config = Config()
    config.set_main_option("script_location", str(tmp_path / "alembic"))
    config.set_main_option("sqlalchemy.url", f"sqlite:///{tmp_path / 'shop.db'}")
    config.config_file_name = str(tmp_path / "alembic.ini")
    command.init(config, str(tmp_path / "alembic"))
    config.config_file_name = None
    imported, call = configure.strip().split("\n\n")
    environment = tmp_path / "alembic/env.py"
    text = re.sub(
        r"context\.configure\(\s*connection=connection, target_metadata=target_metadata\s*\)",
        call.replace("=metadata", "=target_metadata"),
        environment.read_text(),
    )
    assert call.replace("=metadata", "=target_metadata") in text
    environment.write_text(f"{imported}\n{text}")
    made = command.revision(config, "holds")
    script = Path(made.path)  # type: ignore[union-attr]
    kept = script.read_text().partition("def upgrade")[0]
    script.write_text(kept + migration)

    def tables() -> list[str]:
        engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
        try:
            return [name for name in inspect(engine).get_table_names() if name.startswith("holdkit_")]
        finally:
            engine.dispose()

    command.upgrade(config, "head")
    assert "holdkit_pools" in tables()
    command.downgrade(config, "base")
    assert tables() == []


def test_a_hold_and_an_order_in_one_session(postgres_url: str) -> None:
    """The fragment of docs/fastapi.md, with the model that it leaves out."""
    holdkit.migrate(postgres_url)

    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = "orders"
        hold: Mapped[str] = mapped_column(primary_key=True)
        seats: Mapped[int]

    tables = create_engine(alchemy_url(postgres_url))
    Base.metadata.create_all(tables)
    app = FastAPI()
    Holdkit(postgres_url, on_open=lambda hk: hk.create_pool("show:42", total=3)).install(app)
    (fragment,) = shown("docs/fastapi.md", "py")
    names: dict[str, Any] = {"app": app, "RequestKernel": RequestKernel, "Order": Order}
    exec(fragment.replace("postgresql+psycopg://localhost/shop", alchemy_url(postgres_url)), names)
    with TestClient(app) as client:
        assert client.post("/orders?seats=2").json()["ticket"].startswith("hk1.")
        assert client.post("/orders?seats=2").status_code == 409
        assert client.portal is not None
        client.portal.call(names["engine"].dispose)
    with holdkit.connect(postgres_url) as hk, tables.connect() as connection:
        assert hk.pool("show:42").held == 2
        assert connection.exec_driver_sql("select seats from orders").fetchall() == [(2,)]
    tables.dispose()


def test_the_pytest_plugin_and_a_server(tmp_path: Path) -> None:
    plugin, test, server = shown("docs/testing.md", "py")
    (tmp_path / "conftest.py").write_text(plugin)
    (tmp_path / "test_shop.py").write_text(test)
    (tmp_path / "server.py").write_text(server + "print(url)")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    assert "1 passed" in run("python -m pytest -q -p no:cacheprovider", tmp_path)
    assert run("python server.py", tmp_path).startswith("postgresql://")


def test_the_filters_for_templates() -> None:
    (page,) = shown("docs/django.md", "html")
    source = (ROOT / "src/holdkit/contrib/django/templatetags/holdkit.py").read_text("utf-8")
    used = set(re.findall(r"\|(\w+)", page))
    assert used == {"remaining", "remaining_time"}
    assert used <= set(re.findall(r"^def (\w+)\(", source, re.MULTILINE))
