"""What the names of a Python file stand for, as far as it can be seen in the file: for `tools.codemod_1_0`."""

# ruff: noqa: N802 - libcst calls the methods of a visitor by the names of its nodes

from __future__ import annotations

import re
from typing import Final

import libcst as cst

from .names_1_0 import ELEMENTS, RESULTS, Kind

KERNEL_NAMES: Final = frozenset({"hk", "_hk", "kernel", "_kernel"})
ANNOTATED: Final[dict[str, Kind]] = {
    "Kernel": "kernel", "AsyncKernel": "kernel", "RemoteKernel": "kernel", "AsyncRemoteKernel": "kernel",
    "RequestKernel": "kernel", "Hold": "hold", "Claim": "claim", "Pool": "pool", "JournalEntry": "entry",
    "EntryAnswer": "entry", "Record": "record",
}  # fmt: skip
FACES: Final[dict[str, Kind]] = {"claims": "claims", "items": "items"}


def dotted(node: cst.BaseExpression) -> str | None:
    """The text of a name or of a chain of attributes; None for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and (head := dotted(node.value)) is not None:
        return f"{head}.{node.attr.value}"
    return None


def code_of(node: cst.CSTNode) -> str:
    """The source of a node."""
    return cst.Module([]).code_for_node(node)


def argument(call: cst.Call, keyword: str) -> cst.Arg | None:
    """The keyword argument of that name."""
    return next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == keyword), None)


def without(call: cst.Call, *keywords: str) -> cst.Call:
    """The call without these keyword arguments."""
    args = [arg for arg in call.args if arg.keyword is None or arg.keyword.value not in keywords]
    if args and len(args) < len(call.args) and call.args[-1] not in args:
        args[-1] = args[-1].with_changes(
            comma=call.args[-1].comma, whitespace_after_arg=call.args[-1].whitespace_after_arg
        )
    return call.with_changes(args=args)


def with_import(code: str) -> str:
    """The code with `import holdkit` before its first import of something else than the future."""
    lines = code.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith(("import ", "from ")) and not line.startswith("from __future__"):
            return "".join([*lines[:number], "import holdkit\n", *lines[number:]])
    return f"import holdkit\n{code}"


class Kinds(cst.CSTVisitor):
    """What the names of a file stand for. A name that stands for two different things is not known."""

    def __init__(self) -> None:
        self.names: dict[str, Kind | None] = {}
        self.origins: dict[str, str] = {}
        """The source of the kernel that a face was taken from, by the name of the face."""
        self.imported: dict[str, str] = {}
        """Names imported from `holdkit`, by their local names."""
        self.uses_holdkit = False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        """`from holdkit import ...`."""
        module = None if node.module is None else dotted(node.module)
        self.uses_holdkit = self.uses_holdkit or (module or "").split(".")[0] == "holdkit"
        if module == "holdkit" and not isinstance(node.names, cst.ImportStar):
            for alias in node.names:
                self.imported[alias.evaluated_alias or alias.evaluated_name] = alias.evaluated_name

    def visit_Import(self, node: cst.Import) -> None:
        """`import holdkit`."""
        self.uses_holdkit = self.uses_holdkit or any(
            one.evaluated_name.split(".")[0] == "holdkit" for one in node.names
        )

    def visit_Param(self, node: cst.Param) -> None:
        """A parameter with an annotation."""
        if node.annotation is not None:
            self._learn(node.name, self.annotated(node.annotation.annotation))

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        """A variable with an annotation."""
        self._learn(node.target, self.annotated(node.annotation.annotation))

    def visit_Assign(self, node: cst.Assign) -> None:
        """A variable."""
        for target in node.targets:
            self._learn(target.target, self.of(node.value))
            name, origin = dotted(target.target), self.origin(node.value)
            if name is not None and origin is not None:
                self.origins[name] = origin

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        """A variable in an expression."""
        self._learn(node.target, self.of(node.value))

    def visit_WithItem(self, node: cst.WithItem) -> None:
        """`with connect(...) as hk`."""
        if node.asname is not None:
            self._learn(node.asname.name, self.of(node.item))

    def visit_For(self, node: cst.For) -> None:
        """`for hold in hk.holds()`."""
        kind = self.of(node.iter)
        self._learn(node.target, ELEMENTS.get(kind) if kind else None)

    def visit_CompFor(self, node: cst.CompFor) -> None:
        """The same in a comprehension."""
        kind = self.of(node.iter)
        self._learn(node.target, ELEMENTS.get(kind) if kind else None)

    def annotated(self, node: cst.BaseExpression) -> Kind | None:
        """The kind that an annotation names."""
        words = re.findall(r"\w+", code_of(node))
        return next((ANNOTATED[word] for word in words if word in ANNOTATED), None) if len(words) < 4 else None

    def _learn(self, target: cst.CSTNode, kind: Kind | None) -> None:
        name = dotted(target) if isinstance(target, cst.BaseExpression) else None
        if name is not None and not (kind is None and name in KERNEL_NAMES):
            self.names[name] = kind if self.names.get(name, kind) == kind else None

    def origin(self, node: cst.BaseExpression) -> str | None:
        """The source of the kernel that an expression takes a face from."""
        if isinstance(node, cst.Call):
            node = node.func
        if isinstance(node, cst.Attribute) and self.of(node.value) == "kernel":
            return code_of(node.value)
        name = dotted(node)
        return self.origins.get(name) if name is not None else None

    def of(self, node: cst.BaseExpression) -> Kind | None:
        """The kind of an expression; None if it is not known."""
        if isinstance(node, cst.Await):
            return self.of(node.expression)
        if (name := dotted(node)) is not None:
            if name in self.names:
                return self.names[name]
            if name.rpartition(".")[2] in KERNEL_NAMES:
                return "kernel"
        if isinstance(node, cst.Attribute):
            return FACES.get(node.attr.value) if dotted(node.value) != "holdkit" else None
        if isinstance(node, cst.Subscript):
            kind = self.of(node.value)
            return ELEMENTS.get(kind) if kind else None
        if isinstance(node, cst.Call):
            func = dotted(node.func) or ""
            if func in ("holdkit.connect", "holdkit.connect_async") or self.imported.get(func, "").startswith(
                "connect"
            ):
                return "kernel"
            if isinstance(node.func, cst.Attribute):
                receiver = self.of(node.func.value)
                return RESULTS.get((receiver, node.func.attr.value)) if receiver else None
        return None
