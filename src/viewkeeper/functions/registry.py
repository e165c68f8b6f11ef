"""All scalar functions, by name and by sqlglot's class."""

from __future__ import annotations

from sqlglot import exp

from viewkeeper.functions.absolute import ABS
from viewkeeper.functions.function import Function
from viewkeeper.functions.length import LENGTH
from viewkeeper.functions.substring import SUBSTRING
from viewkeeper.functions.upper import UPPER
from viewkeeper.functions.year import YEAR

FUNCTIONS: dict[str, Function] = {function.name: function for function in (ABS, LENGTH, SUBSTRING, UPPER, YEAR)}

BY_NODE: dict[type[exp.Expr], Function] = {function.node: function for function in FUNCTIONS.values()}
