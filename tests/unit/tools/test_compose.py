"""compose.yaml, as far as it can be read without Docker: its versions are pinned, every service has its profile."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from holdkit.cli.serve import serve

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
    images = re.findall(r"image: (\S+)", TEXT) + re.findall(r"^FROM (\S+?)(?:-slim)?$", DOCKERFILE, re.MULTILINE)
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
    copies = re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert len(copies) == len(re.findall("^COPY", DOCKERFILE, re.MULTILINE)) > 0
    for copied in copies:
        assert all((ROOT / name).exists() for name in copied.split())
        assert all(f"!{name}" in (ROOT / ".dockerignore").read_text("utf-8").split() for name in copied.split())
    assert DOCKERFILE.index("\nUSER holdkit\n") < DOCKERFILE.index("\nENTRYPOINT ")
    extras = re.search(r"\.\[(.+)\]", DOCKERFILE)
    assert extras is not None
    offered = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(extras[1].split(",")) <= set(offered)
    words = json.loads(DOCKERFILE.rsplit("\nCMD ", 1)[1])
    assert words[0] == serve.name
    known = {option for one in serve.params for option in one.opts}
    assert {word for word in words if word.startswith("--")} <= known
