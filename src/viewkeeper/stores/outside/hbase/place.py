"""Which table of HBase it is, and who is asked for it: the options `thrift`, `table`, `transport` and `protocol`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from viewkeeper.errors import InputError
from viewkeeper.stores.outside.hbase.client import Gateway
from viewkeeper.stores.outside.options import choice

GATEWAY_OPTIONS = ("transport", "protocol")
"""How the gateway talks."""

_DEFAULT_NAMESPACE = "default"
_TABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def check_place(options: Mapping[str, str]) -> None:
    """Raises InputError, naming the option, where they say no place."""
    host, _, port = options["thrift"].rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"OPTIONS (thrift {options['thrift']!r}): expected HOST:PORT of a Thrift 1 gateway")
    table_named(options["table"])
    choice(options, "transport", ("buffered", "framed"), "buffered")
    choice(options, "protocol", ("binary", "compact"), "binary")


def gateway_of(options: Mapping[str, str], said: Callable[[str], str]) -> Gateway:
    """The gateway, asked for the table; `said` is how errors are worded."""
    return Gateway(options["thrift"], full_name(options["table"]), options.get("transport", "buffered"),
                   options.get("protocol", "binary"), said)  # fmt: skip


def full_name(table: str) -> bytes:
    """The name of a table as HBase has it."""
    namespace, name = table_named(table)
    return (name if namespace == _DEFAULT_NAMESPACE else f"{namespace}:{name}").encode()


def table_named(name: str) -> tuple[str, str]:
    """The namespace and the name of a table of HBase."""
    namespace, _, table = name.rpartition(":")
    if not _TABLE.fullmatch(table) or (namespace and not _TABLE.fullmatch(namespace)):
        raise InputError(f"OPTIONS (table {name!r}): expected NAME or NAMESPACE:NAME of a table in HBase")
    return namespace or _DEFAULT_NAMESPACE, table
