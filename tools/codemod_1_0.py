"""Convert code that was written against the names before API 1.0: ``python -m tools.codemod_1_0 PATH...``.

Rewrites Python files, and the Python blocks of Markdown files, in place. What it cannot convert safely it leaves as it is, under a
comment that begins with `# holdkit 1.0:` and says what to do; it prints how many of these each file has. It knows what a name is only
from what can be seen in the same file: `hk` and `kernel`, what `connect` returns, parameters with annotations, and what the kernel's
methods return.
"""

# ruff: noqa: N802, ARG002 - libcst calls the methods of a transformer by the names of its nodes, with both nodes

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import libcst as cst
from libcst import matchers as m

from .kinds_1_0 import Kinds, argument, code_of, dotted, with_import, without
from .names_1_0 import (
    ANYWHERE,
    ATTRIBUTES,
    CALLS,
    DISTINCTIVE,
    ENDS,
    FORCED,
    FUNCTIONS,
    GONE,
    HOMES,
    MARKED,
    TOKEN,
    TTL_WRITTEN,
    Kind,
)

OWNER: Final = "if this is a Hold, its secret is `.token`"
MARK: Final = "# holdkit 1.0: "
BLOCK: Final = re.compile(r"^(?P<fence>```python[^\n]*\n)(?P<code>.*?)(?=^```$)", re.MULTILINE | re.DOTALL)


class Codemod(cst.CSTTransformer):
    """The conversion of one file."""

    def __init__(self, kinds: Kinds, *, names_only: bool = False) -> None:
        """`names_only`: only the modules of names, for code that has all other names of 1.0 already."""
        self.kinds = kinds
        self.names_only = names_only
        self.needs_ticket = False
        self.marks = 0
        self._pending: list[list[str]] = []

    # Comments: each statement collects the marks of what it has inside, but for the statements of its own body.

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Open the list of marks of a statement."""
        if isinstance(node, cst.BaseStatement | cst.SimpleStatementLine):
            self._pending.append([])
        return super().on_visit(node)

    def on_leave(self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT) -> Any:
        """Write the marks of a statement above it."""
        result: Any = super().on_leave(original_node, updated_node)
        if not isinstance(original_node, cst.BaseStatement | cst.SimpleStatementLine):
            return result
        marks = list(dict.fromkeys(self._pending.pop()))
        first, *others = result if isinstance(result, cst.FlattenSentinel) else [result]
        if not marks or not hasattr(first, "leading_lines"):
            return result
        self.marks += len(marks)
        lines = [cst.EmptyLine(comment=cst.Comment(MARK + mark)) for mark in marks]
        first = first.with_changes(leading_lines=[*first.leading_lines, *lines])
        return cst.FlattenSentinel([first, *others]) if others else first

    def _mark(self, text: str) -> None:
        if self._pending:
            self._pending[-1].append(text)

    def _unmark(self, text: str) -> None:
        if self._pending:
            self._pending[-1][:] = [mark for mark in self._pending[-1] if mark != text]

    def leave_SimpleStatementLine(
        self,
        original_node: cst.SimpleStatementLine,
        updated_node: cst.SimpleStatementLine,
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        """One import per module; no assertion that a ticket is there."""
        (first, *more) = updated_node.body
        if more:
            return updated_node
        if not self.names_only and m.matches(
            first, m.Assert(test=m.Comparison(left=m.Attribute(attr=m.Name("ticket"))))
        ):
            test = cst.ensure_type(cst.ensure_type(first, cst.Assert).test, cst.Comparison)
            if code_of(test).endswith("ticket is not None"):
                return cst.RemoveFromParent()
        if not isinstance(first, cst.ImportFrom) or isinstance(first.names, cst.ImportStar):
            return updated_node
        if first.module is None or dotted(first.module) != "holdkit" or first.relative:
            return updated_node
        lines = [code_of(cst.SimpleStatementLine([one])) for one in self._imports(first.names)]
        statements = [cst.ensure_type(cst.parse_statement(line), cst.SimpleStatementLine) for line in lines]
        if not statements:
            return cst.RemoveFromParent()
        statements[0] = statements[0].with_changes(leading_lines=updated_node.leading_lines)
        statements[-1] = statements[-1].with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        return cst.FlattenSentinel(statements)

    def _imports(self, names: Sequence[cst.ImportAlias]) -> Iterable[cst.ImportFrom]:
        by_module: dict[str, list[cst.ImportAlias]] = {}
        for alias in names:
            name = alias.evaluated_name
            if name in GONE:
                if name != "units":
                    self._mark(f"{name} is gone: {GONE[name]}")
                continue
            if alias.asname is None and (new := FUNCTIONS.get(name)) in self.kinds.names:
                self._mark(f"{name} is {new} now, and a variable of this file is called {new} too: rename the variable")
            module = f"holdkit.{HOMES[name]}" if name in HOMES else "holdkit"
            plain = alias.with_changes(name=cst.Name(FUNCTIONS.get(name, name)), comma=cst.MaybeSentinel.DEFAULT)
            by_module.setdefault(module, []).append(plain)
        for module, aliases in sorted(by_module.items()):
            aliases.sort(key=lambda alias: alias.evaluated_name)
            yield cst.ImportFrom(module=cst.parse_expression(module), names=aliases)  # type: ignore[arg-type]

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        """Names of `holdkit`, and attributes of results."""
        name = original_node.attr.value
        if m.matches(original_node.value, m.Name("holdkit")):
            if name in HOMES:
                return cst.parse_expression(f"holdkit.{HOMES[name]}.{name}")
            if name in GONE and name != "units":
                self._mark(f"{name} is gone: {GONE[name]}")
            return updated_node.with_changes(attr=cst.Name(FUNCTIONS.get(name, name)))
        if self.names_only:
            return updated_node
        if name in ANYWHERE:
            return updated_node.with_changes(attr=cst.Name(ANYWHERE[name]))
        kind = self.kinds.of(original_node.value)
        if mark := MARKED.get((kind, name)) or MARKED.get((None, name)):
            self._mark(mark)
        if kind is None:
            if name == "owner" and self.kinds.uses_holdkit:
                self._mark(OWNER)
            return updated_node
        if (kind, name) in ATTRIBUTES:
            return cst.parse_expression(f"{code_of(updated_node.value)}.{ATTRIBUTES[kind, name]}")
        return updated_node

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        """The beginnings of pools that Holdkit names itself."""
        if not self.names_only and re.match(
            r"""['"]~(item|claim|calendar|budgets|rates|resource)/""", original_node.value
        ):
            self._mark("legs and shortfalls have a `name` without `~…/`, and a hold has `items`")
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Methods of the kernel and its faces, functions and classes of `holdkit`."""
        func = original_node.func
        name = dotted(func) or ""
        if self.names_only:
            return updated_node
        if function := (
            name.removeprefix("holdkit.") if name.startswith("holdkit.") else self.kinds.imported.get(name)
        ):
            return self._function(function, updated_node)
        if not isinstance(func, cst.Attribute):
            return updated_node
        kind, method = self.kinds.of(func.value), func.attr.value
        if kind is None and method in DISTINCTIVE and not (dotted(func.value) or "").endswith("admin"):
            kind = "kernel"
        if kind is None or not isinstance(updated_node.func, cst.Attribute):
            return updated_node
        return self._method(kind, method, original_node, updated_node)

    def _function(self, name: str, call: cst.Call) -> cst.BaseExpression:
        if name == "units":
            values = [arg.value for arg in call.args] + [cst.Integer("1")] * (len(call.args) == 1)
            return cst.Tuple([cst.Element(value) for value in values])
        if name in GONE and isinstance(call.func, cst.Name):
            self._mark(f"{name} is gone: {GONE[name]}")
        if name in FUNCTIONS:
            if m.matches(call.func, m.Name(name)):  # an alias of the import stays
                call = call.with_changes(func=cst.Name(FUNCTIONS[name]))
            return call
        return self._renamed(call, "owner", "token") if HOMES.get(name) == "commands" else call

    def _renamed(self, call: cst.Call, old: str, new: str) -> cst.Call:
        args = [
            arg.with_changes(keyword=cst.Name(new)) if arg.keyword is not None and arg.keyword.value == old else arg
            for arg in call.args
        ]
        return call.with_changes(args=args)

    def _method(self, kind: Kind, method: str, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        by_ids = kind == "items" and method in ("finalize", "release")
        path = CALLS.get((kind, method))
        if (kind, method) in TOKEN:
            has_secret = argument(call, "owner") or argument(call, "token")
            if by_ids and has_secret is None and not m.matches(call.args[0].value, m.List() | m.Tuple()):
                path = "..confirm" if method == "finalize" else "..release"
            elif by_ids:
                path = "confirm" if method == "finalize" else None
            call = self._renamed(call, "owner", "token")
            if (kind, method) in TTL_WRITTEN and argument(call, "ttl") is None:
                self._mark("ttl=None holds until it is ended: choose a ttl")
                call = call.with_changes(args=[*call.args, cst.Arg(cst.Name("None"), cst.Name("ttl"), _EQUAL)])
        elif (kind, method) in ENDS:
            call = self._with_ticket(original, call)
        special = getattr(self, f"_{kind}_{method}", None)
        if special is not None:
            return special(original, call)  # type: ignore[no-any-return]
        if argument(call, "force") is not None:
            path, call = self._forced(kind, method, path, call)
        return call if path is None else self._at(original, call, path)

    def _at(self, original: cst.Call, call: cst.Call, path: str) -> cst.BaseExpression:
        """The call at another path below its object, or with `..` below the kernel of its object."""
        receiver = cst.ensure_type(call.func, cst.Attribute).value
        if path.startswith(".."):
            source = cst.ensure_type(original.func, cst.Attribute).value
            parent = self.kinds.origin(source)
            if parent is None and isinstance(source, cst.Attribute):
                parent = code_of(source.value)
            if parent is None:
                self._mark(f"call {path.removeprefix('..')} of the kernel instead")
                return call
            receiver, path = cst.parse_expression(parent), path.removeprefix("..")
        for part in path.split("."):
            receiver = cst.Attribute(receiver, cst.Name(part))
        return call.with_changes(func=receiver)

    def _with_ticket(self, original: cst.Call, call: cst.Call) -> cst.Call:
        """`confirm(id, owner=secret)` -> `confirm(holdkit.ticket(id, secret))`."""
        owner = argument(call, "owner")
        if owner is None or not call.args or call.args[0].keyword is not None:
            return call
        subject = call.args[0].value
        secret = re.sub(r"\.owner$", "", code_of(cst.ensure_type(argument(original, "owner"), cst.Arg).value))
        if code_of(original.args[0].value) in (secret, f"{secret}.id"):  # the hold has both
            self._unmark(OWNER)
            call = without(call, "owner")
            return call.with_changes(
                args=[call.args[0].with_changes(value=cst.parse_expression(secret)), *call.args[1:]]
            )
        is_hold = self.kinds.of(original.args[0].value) in ("hold", "claim")
        id = f"{code_of(subject)}.id" if is_hold else code_of(subject)
        ticket = cst.parse_expression(f"holdkit.ticket({id}, {code_of(owner.value)})")
        self.needs_ticket = True
        call = without(call, "owner")
        return call.with_changes(args=[call.args[0].with_changes(value=ticket), *call.args[1:]])

    def _forced(self, kind: Kind, method: str, path: str | None, call: cst.Call) -> tuple[str | None, cst.Call]:
        """`force=True` -> the verb of `hk.admin`."""
        force = argument(call, "force")
        assert force is not None
        if not m.matches(force.value, m.Name("True")):
            if m.matches(force.value, m.Name("False")):
                return path, without(call, "force")
            self._mark(f"force= is gone: call admin.{method} with a reason where it is true")
            return path, call
        if kind != "kernel" or method not in FORCED:
            self._mark("force= is gone: the verbs of hk.admin pass limits and need a reason")
            return path, call
        if argument(call, "reason") is None:
            self._mark(f"admin.{method} needs a reason")
        return f"admin.{method}", without(call, "force")

    # Calls that change more than their name.

    def _kernel_children(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        args = [call.args[0].with_changes(keyword=cst.Name("below"), equal=_EQUAL), *call.args[1:]]
        return self._at(original, call.with_changes(args=args), "pools")

    def _kernel_return_units(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        pool, quantity = argument(call, "pool"), argument(call, "quantity")
        if pool is None:
            path, call = self._forced("kernel", "return_units", None, call) if argument(call, "force") else ("", call)
            return self._at(original, call, path) if path else call
        if argument(call, "reason") is None:
            self._mark("admin.free needs a reason")
        rest = without(call, "pool", "quantity", "force").args
        first = [cst.Arg(one.value) for one in (pool, quantity) if one is not None]
        return self._at(original, call.with_changes(args=[*first, *rest]), "admin.free")

    def _kernel_history(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        """Of a pool it is on the journal; of a hold it stays."""
        subject = original.args[0].value
        is_id = isinstance(subject, cst.Attribute) and self.kinds.of(subject.value) == "pool"
        return self._at(original, call, "journal.history") if is_id or isinstance(subject, cst.SimpleString) else call

    def _account_usage(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        """`hk.account(name).usage()` -> `hk.accounts.usage(name)`."""
        receiver = cst.ensure_type(call.func, cst.Attribute).value
        inner = receiver.expression if isinstance(receiver, cst.Await) else receiver
        if not isinstance(inner, cst.Call) or not isinstance(inner.func, cst.Attribute):
            self._mark("read hk.accounts.usage(name)")
            return call
        path = cst.Attribute(cst.Attribute(inner.func.value, cst.Name("accounts")), cst.Name("usage"))
        return call.with_changes(func=path, args=[*inner.args, *call.args])

    def _claims_key(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        return call.with_changes(func=cst.parse_expression("holdkit.claim"))

    def _claims_forget(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        subject = original.args[0].value
        name = code_of(subject)
        if self.kinds.of(subject) != "claim":
            self._mark("claims.free takes the type and the value of the key")
        if argument(call, "reason") is None:
            self._mark("claims.free needs a reason")
        rest = without(call, "force", "owner").args[1:]
        named = [cst.Arg(cst.parse_expression(f"{name}.{part}")) for part in ("type", "value")]
        return self._at(original, call.with_changes(args=[*named, *rest]), "free")

    def _claims_find(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        call = without(call, "active_only")
        keywords = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        if {"type", "value"} <= keywords:
            type, value = argument(call, "type"), argument(call, "value")
            assert type is not None
            assert value is not None
            named = [cst.Arg(one.value) for one in (type, value)]
            return self._at(original, call.with_changes(args=[*named, *without(call, "type", "value").args]), "get")
        if "entity" in keywords:
            self._mark("claims.list(entity=) is a page of all claims of this entity")
            return self._at(original, call, "list")
        if "id" in keywords and "key" not in keywords:
            return self._at(original, call, "get")
        self._mark("claims.get takes the type and the value of the key, or id=")
        return call

    def _items_add(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        has_seats = any(
            m.findall(arg, m.Call(func=m.Name("Seat") | m.Attribute(attr=m.Name("Seat")))) for arg in call.args
        )
        return self._at(original, call, "..seats.add") if has_seats else call

    def _items_legs(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        args = [call.args[0].with_changes(star="*"), *call.args[1:]]
        return call.with_changes(func=cst.parse_expression("holdkit.items"), args=args)

    def _budget_uncovered(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        self._unmark(MARKED["budget", "uncovered"])
        return cst.Attribute(call.args[0].value, cst.Name("uncovered"))

    def _kernel_generation(self, original: cst.Call, call: cst.Call) -> cst.BaseExpression:
        receiver = code_of(cst.ensure_type(call.func, cst.Attribute).value)
        self._unmark(MARKED["kernel", "generation"])
        return cst.parse_expression(f"{receiver}.admin.stats().generation")


_EQUAL: Final = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def convert(source: str, *, names_only: bool = False) -> tuple[str, int]:
    """The converted source, and the number of comments in it that ask for a decision."""
    module = cst.parse_module(source)
    kinds = Kinds()
    module.visit(kinds)
    if not kinds.uses_holdkit and "hk." not in source and "holdkit." not in source:
        return source, 0
    codemod = Codemod(kinds, names_only=names_only)
    code = module.visit(codemod).code
    if codemod.needs_ticket and not re.search(r"^\s*import holdkit\b", code, re.MULTILINE):
        code = with_import(code)
    return code, codemod.marks


def convert_markdown(text: str, *, names_only: bool = False) -> tuple[str, int]:
    """The same for each Python block of a page by itself. A block that does not parse stays."""
    marks = 0

    def replaced(block: re.Match[str]) -> str:
        nonlocal marks
        try:
            code, more = convert(block["code"], names_only=names_only)
        except cst.ParserSyntaxError:
            return block[0]
        marks += more
        return block["fence"] + code

    return BLOCK.sub(replaced, text), marks


def main(paths: list[str]) -> int:
    """Convert files, and all Python and Markdown files of folders. `--names-only`: only imports and `holdkit.…`."""
    names_only = "--names-only" in paths
    given = [Path(name) for name in paths if name != "--names-only"]
    if missing := [str(path) for path in given if not path.exists()]:
        print(f"there is no {', '.join(missing)}", file=sys.stderr)
    elif not given:
        print("usage: python -m tools.codemod_1_0 PATH...", file=sys.stderr)
    if missing or not given:
        return 2
    for path in given:
        files = [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.md")])
        for file in files:
            text = file.read_text("utf-8")
            converted, marks = (convert_markdown if file.suffix == ".md" else convert)(text, names_only=names_only)
            if converted != text:
                file.write_text(converted, "utf-8")
                print(f"{file}: converted" + (f", {marks} places to look at: grep '{MARK}'" if marks else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
