"""Functions of Python's as part of the catalog: declared, declared again with other code, dropped."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from viewkeeper.catalog.model import Catalog, PythonFunction, View
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.statements import CreateView, Drop, Identifier
from viewkeeper.compiler.supported import NOT_DETERMINISTIC
from viewkeeper.compiler.syntax import syntax_tree, tokenize
from viewkeeper.errors import DeclarationError
from viewkeeper.functions.spark_names import SPARK_NAMES
from viewkeeper.pipeline.replacing import Bind, begun_again

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HERE = (1, 1)


def with_function(catalog: Catalog, function: PythonFunction, bind: Bind) -> Catalog:
    """`catalog` with `function`; itself where it has it already, and no view has stopped that calls it.

    Where another code has the name, views that call it are built beside those that are read, with those that read them;
    views that are not filled yet are for the caller to declare anew.
    """
    _require_name(function.name)
    old = catalog.function(function.name)
    if old is None:
        return replace(catalog, functions=(*catalog.functions, function))
    users = users_of(catalog, old.name)
    same = replace(function, name=old.name, version=old.version, code=old.code) == old
    if same and all(view.stopped is None for view in users):
        return catalog
    new = old if same else replace(function, version=old.version + 1)
    changed = replace(catalog, functions=tuple(new if each is old else each for each in catalog.functions))
    waiting = [replace(view, stopped=None) for view in users if view.filled is None and view.replaces is None]
    built = [view for view in users if view.filled is not None and (view.stopped is not None or not same)]
    changed = changed.changing(waiting)
    if not built:
        return changed
    why = f"cannot be made with the new code of {old.name}"
    return begun_again(changed, built, why, Identifier(old.name, _HERE), bind)


def without_function(catalog: Catalog, statement: Drop) -> Catalog:
    """`catalog` without the function that `statement` names, which no view calls; itself where it may be absent."""
    found = catalog.function(statement.name.name)
    if found is None:
        if statement.if_exists:
            return catalog
        raise DeclarationError(f"there is no function {statement.name} to drop", *statement.name.place)
    if users := [view.name for view in users_of(catalog, found.name)]:
        listed = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
        raise DeclarationError(f"{found.name} is called by {listed}; drop these first", *statement.name.place)
    return replace(catalog, functions=tuple(each for each in catalog.functions if each is not found))


def users_of(catalog: Catalog, name: str) -> list[View]:
    """The views whose queries call the function `name`."""
    return [view for view in catalog.views if name.lower() in view.sql.lower() and name.lower() in _called(view.sql)]


def _called(sql: str) -> set[str]:
    (view,) = parse_script(f"CREATE VIEW v AS {sql}")
    assert isinstance(view, CreateView), "a view's text is a query"
    return {node.name.lower() for node in view.query.tree.find_all(exp.Anonymous)}


def _require_name(name: str) -> None:
    """Raises DeclarationError where a query cannot call `name`, or means something else by it."""
    if not _NAME.fullmatch(name):
        raise DeclarationError(f"{name!r} is no name for a function: it has letters, digits and _, no digit first")
    source = Script(f"SELECT {name}(x) FROM t")
    taken = name.lower() in SPARK_NAMES | NOT_DETERMINISTIC
    try:
        called = syntax_tree(source, tokenize(source)).find(exp.Anonymous)
    except DeclarationError:
        called = None
    if taken or called is None or called.name != name:
        raise DeclarationError(f"{name} means something in SQL already; give the function another name")
