"""compose.yaml and the Dockerfile, as far as they can be read without Docker: versions are pinned, locks have hashes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from holdkit.cli.root import root
from holdkit.server.configuration import SETTINGS

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "compose.yaml").read_text("utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def services() -> dict[str, str]:
    rest = TEXT.partition("\nservices:\n")[2].partition("\nvolumes:\n")[0]
    parts = re.split(r"^  ([\w-]+):\n", rest, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_what_there_is() -> None:
    assert list(services()) == [
        "server",
        "server-postgres",
        "postgres",
        "citus",
        "citus-worker-1",
        "citus-worker-2",
        "citus-join",
    ]


def test_every_service_has_a_profile_and_a_pinned_image() -> None:
    for name, body in services().items():
        assert "profiles:" in body or "<<: *citus" in body, name
        assert "image:" in body or "build: .\n" in body or "<<: *citus" in body, name
    images = re.findall(r"image: (\S+)", TEXT) + re.findall(
        r"^FROM (\S+?)(?:-slim)?(?: AS \w+)?$", DOCKERFILE, re.MULTILINE
    )
    assert images
    assert all(re.search(r":\d+(\.\d+)*$", image) for image in images)


def test_every_worker_is_joined_and_ports_stay_on_this_machine() -> None:
    workers = [name for name in services() if "worker" in name]
    assert len(workers) > 1
    assert all(f"citus_add_node('{worker}'" in services()["citus-join"] for worker in workers)
    ports = re.findall(r'ports: \["([^"]+)"\]', TEXT)
    assert len(ports) == TEXT.count("ports:") > 0
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_it_is_indented_with_spaces_and_its_aliases_are_there() -> None:
    assert "\t" not in TEXT
    assert {*re.findall(r"\*(\w+)$", TEXT, re.MULTILINE)} <= {*re.findall(r"&(\w+)$", TEXT, re.MULTILINE)}
    try:
        import yaml  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return  # read as text above
    assert set(yaml.safe_load(TEXT)["services"]) == set(services())


def test_the_image_copies_what_is_there_runs_as_nobody_special_and_starts_what_exists() -> None:
    """`make image-check` runs its steps."""
    copies = [words.split() for words in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)]
    assert len(copies) == len(re.findall("^COPY (?!--from)", DOCKERFILE, re.MULTILINE)) > 2
    for name in (name for words in copies for name in words):
        assert (ROOT / name).exists()
        assert f"!{name}" in (ROOT / ".dockerignore").read_text("utf-8").split()
    assert DOCKERFILE.index("\nUSER holdkit\n") < DOCKERFILE.index("\nENTRYPOINT ")
    for words in (
        [json.loads(DOCKERFILE.rsplit("\nCMD ", 1)[1])[0]],
        DOCKERFILE.partition("CMD holdkit ")[2].split()[:1],
    ):
        assert words[0] in root.commands
    variables = set(re.findall(r"^ENV (HOLDKIT_SERVER_\w+)=", DOCKERFILE, re.MULTILINE))
    assert variables
    assert variables <= {setting.variable for setting in SETTINGS.values()}


def test_everything_in_the_image_is_locked_with_its_hash_and_no_developers_tool_is_in_it() -> None:
    for install in re.findall(r"pip (?:install|wheel) (.+)$", DOCKERFILE, re.MULTILINE):
        assert "--require-hashes" in install or "--no-deps" in install
    lines = (ROOT / "requirements-runtime.lock").read_text("utf-8").replace("\\\n", " ").splitlines()
    names = {line.partition("==")[0] for line in lines}
    assert {"msgspec", "uvicorn", "psycopg", "click"} <= names
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "playwright"}
    assert all("--hash=sha256:" in line for line in lines)
    developers = (ROOT / "requirements.lock").read_text("utf-8")
    versions = {line.partition(";")[0].partition("--hash")[0].strip() for line in lines}
    assert [version for version in versions if version not in developers] == [], "tests run with other versions"


def test_the_bill_of_materials_names_every_package_of_the_image(tmp_path: Path) -> None:
    """As `make sbom` writes it."""
    made = tmp_path / "sbom.json"
    program: list[str | Path] = [
        Path(sys.executable).parent / "cyclonedx-py",
        "requirements",
        ROOT / "requirements-runtime.lock",
    ]
    more: list[str | Path] = ["--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--output-file", made]
    subprocess.run([*program, *more], check=True, capture_output=True, timeout=120)
    listed = {one["name"] for one in json.loads(made.read_text("utf-8"))["components"]}
    locked = re.findall(r"^([\w.-]+)==", (ROOT / "requirements-runtime.lock").read_text("utf-8"), re.MULTILINE)
    assert listed == set(locked)
    assert len(locked) > 20
