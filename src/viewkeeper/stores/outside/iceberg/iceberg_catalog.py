"""Where an Iceberg table is, by its catalog, and what it is now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

import pyarrow as pa
from pydantic import ValidationError as Malformed
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    RESTError,
    ValidationError,
)
from pyiceberg.table import Table as PyIcebergTable
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from viewkeeper.errors import Error, InputError, StoreAway
from viewkeeper.stores.outside.options import filled_in, require_known

_CATALOG = "catalog."
_KINDS = ("rest", "sql")
_SECRETS = ("key", "connection-string", "authorization")
"""Ends of the names of settings that are secrets, beside those that say so."""

# It warns of each catalog that Java's clients have made, whenever that is opened, and reads it all the same.
logging.getLogger("pyiceberg.catalog.sql").setLevel(logging.ERROR)


def check_place(options: Mapping[str, str]) -> None:
    """Raises InputError, naming the option, where no Iceberg table can be at such a place."""
    require_known("iceberg", options, ("table", "catalog.type"), ("catalog",), _CATALOG)
    for name, value in options.items():
        if name.endswith(_SECRETS) or (name == "catalog.uri" and urlsplit(value).password):
            raise InputError(f"OPTIONS ({name} ...): a secret is not kept in the catalog; name the environment "
                             f"variable that has it, {name}_env '...', or a file, {name}_file '...'")  # fmt: skip
    if (kind := options.get("catalog.type", "").lower()) not in _KINDS:
        raise InputError(f"OPTIONS (catalog.type {kind!r}): there are {', '.join(_KINDS)}")
    if "catalog.uri" not in {name.removesuffix("_env").removesuffix("_file") for name in options}:
        raise InputError("OPTIONS: iceberg needs catalog.uri '...'")
    if "." not in options["table"]:
        raise InputError(f"OPTIONS (table {options['table']!r}): say its namespace, too, as in 'shop.orders'")


class CatalogEntry:
    """A table in its catalog; for one thread at a time.  `said` makes a message of what is wrong."""

    def __init__(self, options: Mapping[str, str], said: Callable[[str], str] = str) -> None:
        given = filled_in(options)
        self.name = given["table"]
        self._catalog_name = given.get("catalog", "default")
        self._settings = {name.removeprefix(_CATALOG): value for name, value in given.items()
                          if name.startswith(_CATALOG)}  # fmt: skip
        self._said = said
        self._catalog: Catalog | None = None

    @property
    def is_local(self) -> bool:
        return self._settings["uri"].startswith("sqlite")

    def newest(self) -> PyIcebergTable:
        """The table as it is now."""
        if self._catalog is None:
            # A catalog that is only read is not made, and keeps the form that it has.
            settings = {"init_catalog_tables": "false", **self._settings}
            try:
                self._catalog = load_catalog(self._catalog_name, **settings)
            except (ValueError, NotInstalledError, ArgumentError) as error:
                raise Error(self._said(f"the catalog {self._catalog_name} cannot be used: {_line(error)}")) from error
        return self._catalog.load_table(self.name)

    def close(self) -> None:
        """Gives up what is held of it."""
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raises Error where there is no table, StoreAway where its catalog or storage does not answer."""
        try:
            yield
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            where = f"there is no Iceberg table {self.name} in the catalog {self._catalog_name}"
            raise Error(self._said(where)) from error
        except (Malformed, ValidationError) as error:
            raise Error(self._said(f"{self.name} is not as pyiceberg can read it: {_line(error)}")) from error
        except (RESTError, SQLAlchemyError, OSError, pa.ArrowException) as error:
            raise StoreAway(self._said(f"{self.name} cannot be read: {_line(error)}")) from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
