"""The public API stays as small and as regular as it is: see tools/budget.json and tools/api_budget.py."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tools import api_budget

BUDGET = api_budget.read()
OF_A_SERVER = {"server"}
"""What only the client of a server has, because only a server has it."""


def test_every_count_is_the_one_that_was_decided() -> None:
    lines = api_budget.difference(BUDGET, api_budget.measured())
    assert not lines, "the public API has changed: python -m tools.gen_api --budget --grow, or in tools/budget.json\n  " + "\n  ".join(
        lines
    )  # fmt: skip


def test_a_count_may_neither_grow_nor_shrink_unnoticed() -> None:
    kept = {"names": {"holdkit": 2}, "members": {"Hold": 3, "Gone": 1}, "parameters": {}, "added": {}}
    found = {"names": {"holdkit": 3}, "members": {"Hold": 2, "New": 4}, "parameters": {"Hold.by": 9}}
    assert api_budget.difference(kept, found) == [
        'names: "holdkit" has 3, allowed are 2: write "holdkit": 3',
        'members: remove "Gone"',
        'members: "Hold" has 2, allowed are 3: write "Hold": 2',
        'members: write "New": 4',
        'parameters: write "Hold.by": 9',
    ]


def test_an_addition_is_a_line_with_its_reason() -> None:
    kept = {"names": {"holdkit": 2}, "members": {"Hold": 3}, "parameters": {}, "added": {"Hold.colour": "issue 99"}}
    found = {"names": {"holdkit": 2}, "members": {"Hold": 4}, "parameters": {}}
    assert api_budget.difference(kept, found) == []
    assert api_budget.difference({**kept, "added": {}}, found) == [
        'members: "Hold" has 4, allowed are 3: write "Hold": 4'
    ]
    for name, reason in BUDGET["added"].items():
        assert len(reason.split()) > 2, f"{name}: say which issue or decision record wanted it, and why"


def test_every_method_is_a_verb_of_the_vocabulary() -> None:
    vocabulary = [verb for verbs in BUDGET["verbs"].values() for verb in verbs.split()]
    assert len(vocabulary) == len(set(vocabulary)), "one act for each verb"
    used = api_budget.words()
    new = {f"{cls}.{word}" for word, cls in used.items() if word not in {*vocabulary, *BUDGET["leaving"]["words"]}}
    assert not new, "use a verb of tools/budget.json, or add one there with the act that it stands for"
    assert set(BUDGET["leaving"]["words"]) <= used.keys(), "remove it from `leaving`: python -m tools.gen_api --budget"


def test_no_public_name_is_one_of_storage() -> None:
    assert api_budget.forbidden() == BUDGET["leaving"]["names"]


def test_kernels_have_the_same_members() -> None:
    names = {
        kind: {name for name in {*api_budget.names_of(type(kernel)), *vars(kernel)} if not name.startswith("_")}
        for kind, kernel in api_budget.kernels().items()
    }
    assert names["AsyncKernel"] == names["Kernel"]
    assert names["AsyncRemoteKernel"] == names["RemoteKernel"]
    assert names["RemoteKernel"] - names["Kernel"] <= OF_A_SERVER
    assert not names["Kernel"] - names["RemoteKernel"]


@pytest.mark.parametrize(
    "face", sorted({face for kernel in api_budget.kernels().values() for face in api_budget.faces(kernel)})
)
def test_namespaces_have_the_same_members(face: str) -> None:
    names = {
        kind: set(api_budget.names_of(api_budget.faces(kernel)[face]))
        for kind, kernel in api_budget.kernels().items()
        if face in api_budget.faces(kernel)
    }
    assert len(names) == (2 if face == "resource" or face.startswith("server") else 4), names
    assert len({frozenset(one) for one in names.values()}) == 1, names


def test_methods_have_the_same_parameters() -> None:
    """With the same names and defaults, in the same order: a program that changes its kernel changes nothing else."""
    shapes: dict[str, set[str]] = {}
    for kernel in api_budget.kernels().values():
        for path, cls in [("", type(kernel)), *api_budget.faces(kernel).items()]:
            for name, signature in api_budget.methods_of(cls):
                bare = [parameter.replace(annotation=None) for parameter in signature.parameters.values()]
                text = re.sub("object at 0x[0-9a-f]+", "object", str(bare))
                shapes.setdefault(f"{path}.{name}", set()).add(text)
    assert len(shapes) > 100
    assert {name: found for name, found in shapes.items() if len(found) > 1} == {}


def test_a_newcomer_needs_few_names() -> None:
    counts = api_budget.programs()
    assert counts["all"] <= 97, "the ten programs of examples/first together"


def test_names_of_a_program() -> None:
    source = "import holdkit\nfrom holdkit import Leg\nhk.hold(Leg('a', 1), ttl=1).state.upper()\nprint(1, sep='')\n"
    assert api_budget.names_in(source, api_budget.holdkit_names()) == {"Leg", "hold", "ttl", "state"}


def test_only_growth_on_purpose_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tight = {**BUDGET, "members": {**BUDGET["members"], "Hold": 1}, "names": {**BUDGET["names"], "holdkit": 1_000}}
    monkeypatch.setattr(api_budget, "FILE", tmp_path / "budget.json")
    api_budget.FILE.write_text(json.dumps(tight))
    api_budget.write()
    assert api_budget.read()["members"]["Hold"] == 1, "it may not grow unnoticed"
    assert api_budget.read()["names"]["holdkit"] == api_budget.measured()["names"]["holdkit"] < 1_000
    api_budget.write(grow=True)
    assert api_budget.difference(api_budget.read(), api_budget.measured()) == []
