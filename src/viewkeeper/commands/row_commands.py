"""Commands that write and read rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from viewkeeper.catalog.model import Catalog, Column, Index, InParts, Stream, Table
from viewkeeper.catalog.types import Type, logical_type
from viewkeeper.commands.output import console, database_option, json_option, print_json, print_rows, progress_bar
from viewkeeper.database import Database, connect
from viewkeeper.errors import InputError, NotFound
from viewkeeper.files import json_object
from viewkeeper.views.result import Result


@click.command()
@click.argument("statements", required=False)
@click.option("-f", "--file", type=click.Path(allow_dash=True, path_type=Path), help="Read statements; - is stdin.")
@click.option("--engine", type=click.Choice(["viewkeeper", "spark"]), default="viewkeeper", show_default=True,
              help="spark runs any query.")  # fmt: skip
@click.option(
    "-p",
    "--param",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="The value of :NAME: a number, true, false, null or a text (in quotes if it looks otherwise).",
)
@click.option(
    "-a", "--arg", "args", multiple=True, metavar="VALUE", help="The value of the next ?, written like those."
)
@click.option("--unsafe", is_flag=True, help="With --engine spark: commands, files and calls of Java too.")
@json_option
@database_option
def sql(
    db: Path, statements: str | None, file: Path | None, engine: str, parameters: tuple[str, ...],
    args: tuple[str, ...], unsafe: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run SQL statements, separated by semicolons; prints the last one's rows.

    \b
    viewkeeper sql --db shop "SELECT * FROM spend WHERE total > 100 ORDER BY total DESC LIMIT 5"
    viewkeeper sql --db shop "UPDATE orders SET price = price * 1.1 WHERE customer = 7"
    viewkeeper sql --db shop "DELETE FROM orders WHERE id = :id AND note = :note" -p id=5 -p note=late
    viewkeeper sql --db shop "DELETE FROM orders WHERE id = ? AND note = ?" -a 5 -a late
    viewkeeper sql --db shop -f schema.sql
    """
    if (statements is None) == (file is None):
        raise click.UsageError("give statements or -f FILE")
    text = statements if file is None else click.open_file(str(file)).read()
    if parameters and args:
        raise click.UsageError("--param is for :NAME and --arg for ?; a text has either")
    given = [_value(each) for each in args] or _values(parameters)
    with connect(db) as database:
        _print_result(database.sql(str(text), given or None, engine=engine, unsafe=unsafe), as_json)


def _values(given: Sequence[str]) -> dict[str, Any]:
    """The values of parameters, each `name=value`."""
    values: dict[str, Any] = {}
    for each in given:
        name, is_given, text = each.partition("=")
        if not is_given or not name.isidentifier():
            raise click.UsageError(f"--param {each}: write NAME=VALUE, for :NAME in the text")
        if name in values:
            raise click.UsageError(f"--param {each}: {name} has a value already")
        values[name] = _value(text)
    return values


def _value(text: str) -> Any:
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=str)
    except ValueError:
        return text
    return text if isinstance(value, list | dict) else value


def _print_result(result: Result, as_json: bool) -> None:
    if result.columns:
        print_rows(result.columns, result, as_json)
    if result.note and not as_json:
        console().print(result.note)


@click.command()
@click.argument("table")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--id", "id_", help="Streams: a file that was loaded under this id before is not stored again.")
@click.option("--null", metavar="TEXT", help="CSV: what stands for NULL, without quotes [nothing at all].")
@json_option
@database_option
def load(
    db: Path, table: str, files: tuple[Path, ...], id_: str | None, null: str | None, as_json: bool
) -> None:  # fmt: skip
    """Write the rows of Parquet, CSV, Arrow or JSON-lines FILES into a table or stream.

    Rows that a stream cannot take are rejected: `viewkeeper rejected` lists them.  Each file is one append.

    \b
    viewkeeper load --db shop orders orders.parquet more-orders.csv
    viewkeeper load --db net m --id monday monday.csv
    """
    with connect(db) as database:
        if isinstance(database.catalog.find(table), Stream):
            _append_files(database, table, files, id_, null, as_json)
        elif id_ is not None:
            raise InputError(f"--id is for streams, and {table} is none; putting rows of a table again changes nothing")
        else:
            _put_files(database, table, files, null, as_json)


def _put_files(database: Database, table: str, files: tuple[Path, ...], null: str | None, as_json: bool) -> None:
    handle, rows, token = database.table(table), 0, None
    with progress_bar() as progress:
        for file in files:
            task = progress.add_task(f"loading {file.name}", total=None)
            for written, token in handle.load(file, null=null):  # noqa: B007 - the last token covers all
                rows += written
                progress.update(task, advance=written)
    if as_json:
        print_json({"rows": rows, "token": None if token is None else str(token)})
    else:
        console().print(f"{rows:,} rows written; token {token}")


def _append_files(
    database: Database, stream: str, files: tuple[Path, ...], id_: str | None, null: str | None, as_json: bool
) -> None:
    stored = rejected = again = 0
    with progress_bar() as progress:
        task = progress.add_task(f"loading into {stream}", total=len(files))
        for appended in database.stream(stream).load(*files, id=id_, null=null):
            if appended.duplicate:
                again += 1
            else:
                stored, rejected = stored + appended.stored, rejected + appended.rejected
            progress.update(task, advance=1)
    if as_json:
        print_json({"stored": stored, "rejected": rejected, "loaded_before": again})
    else:
        text = f"{stored:,} rows stored"
        listed = "viewkeeper rejected lists them once maintain or catch-up has taken them in"
        text += f", {rejected:,} rejected ({listed})" if rejected else ""
        console().print(text + (f"; {again:,} of {len(files):,} files were loaded before" if again else ""))


@click.command()
@click.argument("table")
@click.argument("rows", nargs=-1)
@json_option
@database_option
def put(db: Path, table: str, rows: tuple[str, ...], as_json: bool) -> None:
    """Put ROWS, JSON objects, into TABLE, all in one write; from standard input, one a line, where none is given.

    \b
    viewkeeper put --db shop orders '{"id": 1, "customer": 7, "price": "19.90"}'
    """
    texts = list(rows) or [line for line in sys.stdin if line.strip()]
    with connect(db) as database:
        handle = database.table(table)
        declared = database.catalog.find(table)
        assert isinstance(declared, Table), "a table has a handle"
        types = {column.name.lower(): logical_type(column.type, "UTC") for column in declared.columns}
        token = handle.put_many(list(_objects(texts, types)))
    if as_json:
        print_json({"rows": len(texts), "token": str(token)})
    else:
        console().print(str(token))


def _objects(texts: list[str], types: Mapping[str, pa.DataType]) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(texts, 1):
        try:
            yield json_object(text, types)
        except json.JSONDecodeError as error:
            raise InputError(f"row {number} is not JSON: {error}") from error
        except ValueError as error:
            raise InputError(f"row {number} is not a JSON object: {text.strip()[:100]}") from error


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("key", nargs=-1, type=click.UNPROCESSED)
@click.option("--index", help="Read by this index.")
@click.option("--after", metavar="TOKEN", help="Wait until the view holds this write.")
@click.option("--timeout", default=30.0, show_default=True, help="How long to wait, in seconds.")
@json_option
@database_option
def get(db: Path, name: str, key: tuple[str, ...], index: str | None, after: str | None, timeout: float,
        as_json: bool) -> None:  # fmt: skip
    """Read the view or table NAME by KEY, one argument for each key column (NULL for NULL).

    \b
    viewkeeper get --db shop spend 7
    viewkeeper get --db shop orders --index by_customer 7
    """
    with connect(db) as database:
        columns = _key_columns(database.catalog, name, index)
        if len(key) != len(columns):
            wanted = ", ".join(f"{column.name} {declared or column.type}" for column, declared in columns)
            raise InputError(f"{name} is read by ({wanted}), one argument each; got {len(key)}")
        values = tuple(_from_text(text, column) for text, (column, _) in zip(key, columns, strict=True))
        is_table = isinstance(database.catalog.find(name), Table)
        handle = database.table(name) if is_table else database.view(name)
        found = handle.get(values, index=index, after=after, timeout=timeout)
    rows = found if isinstance(found, list) else [] if found is None else [found]
    if as_json:
        print_json(found)
    elif rows:
        print_rows(list(rows[0]), rows, as_json=False)
    if not rows:
        raise InputError(f"{name} has no row for {', '.join(key) or '()'}")


def _key_columns(catalog: Catalog, name: str, index: str | None) -> list[tuple[Column, Type | None]]:
    """What NAME is read by, and what it is declared as (`Table.declared`)."""
    of, way = catalog.find(name), catalog.find(index) if index is not None else None
    if isinstance(of, InParts):
        raise NotFound(f"{name} has parts, and no keys: viewkeeper sql 'SELECT * FROM {name}[5]' reads part 5")
    if of is None or isinstance(of, Index):
        raise NotFound(f"there is no table or view {name!r}; SHOW TABLES and SHOW VIEWS list what there is")
    if index is not None and not isinstance(way, Index):
        raise NotFound(f"there is no index {index!r}")
    positions = way.columns if isinstance(way, Index) else of.key
    return [(of.columns[position], of.declared[position]) for position in positions]


def _from_text(text: str, column: Column) -> Any:
    kind = column.type.name
    if text == "NULL" and column.nullable:
        return None
    try:
        if column.type.is_integer:
            return int(text)
        if column.type.is_float:
            return float(text)
        if kind == "BINARY":
            return bytes.fromhex(text)
    except ValueError as error:
        raise InputError(f"{column.name} is {column.type}; {text!r} is not") from error
    if kind == "BOOLEAN":
        return {"true": True, "false": False}.get(text.lower(), text)
    return text
