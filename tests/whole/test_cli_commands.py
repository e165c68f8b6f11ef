"""The command line does what its help says, prints for people or as JSON, and fails in one line."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import viewkeeper
from local_maintenance import catch_up
from viewkeeper.cli import cli
from viewkeeper.commands.output import print_rows, show_progress
from viewkeeper.errors import InputError, NotFound
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.views import spark_session

Run = Callable[..., Result]

SCHEMA = """
CREATE TABLE orders (id BIGINT, customer BIGINT, price DECIMAL(15,2), note STRING, raw BINARY, PRIMARY KEY (id));
CREATE VIEW spend AS SELECT customer, sum(price) AS total, count(*) AS n FROM orders GROUP BY customer;
CREATE INDEX by_customer ON orders (customer);
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command against one database."""

    def invoke(*arguments: str, input: str | None = None) -> Result:
        command, *rest = arguments
        result = CliRunner().invoke(cli, [command, "--db", str(tmp_path / "shop"), *rest], input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    invoke("sql", SCHEMA)
    return invoke


def maintained(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "shop") as db:
        catch_up(db)


def lines(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_statements_that_change_rows_print_how_many(run: Run) -> None:
    insert = "INSERT INTO orders (id, customer) VALUES (1, 7), (2, 8)"
    assert lines(run("sql", "--json", insert)) == [{"num_affected_rows": 2, "num_inserted_rows": 2}]
    assert "num_affected_rows" in run("sql", "UPDATE orders SET customer = customer + 1 WHERE id = 2").stdout
    assert lines(run("get", "orders", "2", "--json"))[0]["customer"] == 9
    with pytest.raises(InputError, match="a row with the key id = [12] already"):
        run("sql", insert)


def test_parameters_are_numbers_texts_and_null(run: Run) -> None:
    """A text that looks like something else stands in quotes; a value is never read as SQL."""
    insert = "INSERT INTO orders (id, customer, price, note) VALUES (:id, :c, :price, :note)"
    run("sql", insert, "-p", "id=1", "-p", "c=null", "--param", "price=19.90", "-p", "note=it's; -- [a=b]")
    run("sql", insert, "-p", "id=2", "-p", "c=-3", "-p", "price=1e2", "-p", 'note="5"')
    rows = lines(run("sql", "--json", "SELECT id, customer, note FROM orders WHERE id = :id", "-p", "id=1", "--engine",
                     "viewkeeper"))  # fmt: skip
    assert rows == []  # it is not maintained
    assert [lines(run("get", "orders", key, "--json"))[0]["note"] for key in ("1", "2")] == ["it's; -- [a=b]", "5"]
    for given, message in (("id", "NAME=VALUE"), ("a b=1", "NAME=VALUE")):
        assert message in run("sql", insert, "-p", given).stderr
    assert "has a value already" in run("sql", insert, "-p", "id=1", "-p", "id=2").stderr
    run("sql", insert.replace(":id", "?").replace(":c", "?").replace(":price", "?").replace(":note", "?"),
        "-a", "3", "-a", "null", "--arg", "-1.5", "-a", "late")  # fmt: skip
    assert lines(run("get", "orders", "3", "--json"))[0]["note"] == "late"
    assert "a text has either" in run("sql", "SELECT ?", "-a", "3", "-p", "id=1").stderr


def test_that_spark_is_starting_is_said_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(spark_session, "session", lambda servers: (None, True))
    monkeypatch.setattr(spark_session, "_started", None)
    monkeypatch.setattr(spark_session.log, "handlers", [])
    monkeypatch.setattr(spark_session.log, "level", spark_session.log.level)
    for is_terminal, said in ((False, ""), (True, "viewkeeper: starting Spark, which takes 10 to 20 seconds\n")):
        errors = io.StringIO()
        monkeypatch.setattr(errors, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr(sys, "stderr", errors)
        show_progress()
        spark_session._found_or_started(1)
        assert errors.getvalue() == said


def test_status_says_that_an_older_store_was_put_back_and_rebase_makes_up_for_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewkeeper.views.spark_session.SparkUse.executor", lambda self, servers=None: LocalExecutor())
    assert "nothing to do" in run("rebase").stdout
    nodes, saved = tmp_path / "shop" / "nodes", tmp_path / "saved"
    run("put", "orders", '{"id": 1, "customer": 7}')
    maintained(tmp_path)
    shutil.copytree(nodes, saved)
    run("put", "orders", input='{"id": 2, "customer": 7}\n{"id": 3, "customer": 7}\n')
    maintained(tmp_path)
    shutil.rmtree(nodes)
    shutil.copytree(saved, nodes)
    assert "replaced" in run("status").stdout and "viewkeeper rebase" in run("status").stdout
    assert json.loads(run("status", "--json").stdout)["replaced"]
    (done,) = lines(run("rebase", "--json"))
    assert (done["done"], done["changed"]) == (True, {"orders": 2})
    assert lines(run("get", "spend", "7", "--json")) == [{"customer": 7, "total": None, "n": 1}]
    assert json.loads(run("status", "--json").stdout)["replaced"] == []


def test_rows_are_put_and_read_back_as_json(run: Run, tmp_path: Path) -> None:
    (written,) = lines(run("put", "orders", '{"id": 1, "customer": 7, "price": 0.1}', "--json"))
    assert written["rows"] == 1
    run("put", "orders", input='{"id": -2, "customer": 7, "price": "2.50"}\n\n{"id": 3}\n')
    maintained(tmp_path)
    assert lines(run("get", "spend", "7", "--json", "--after", written["token"])) == [
        {"customer": 7, "total": "2.60", "n": 2}
    ]
    assert lines(run("get", "spend", "NULL", "--json"))[0]["n"] == 1
    assert lines(run("get", "orders", "-2", "--json"))[0]["price"] == "2.50"
    (found,) = lines(run("get", "orders", "7", "--index", "by_customer", "--json"))
    assert sorted(row["id"] for row in found) == [-2, 1]
    assert lines(run("sql", "SELECT customer FROM spend ORDER BY customer", "--json")) == [
        {"customer": None}, {"customer": 7},
    ]  # fmt: skip


def test_a_person_sees_tables(run: Run, tmp_path: Path) -> None:
    run("put", "orders", '{"id": 1, "customer": 7, "note": "[red]x[/red]"}')
    maintained(tmp_path)
    assert "[red]x[/red]" in run("get", "orders", "1").stdout
    shown = run("sql", "DESCRIBE spend").stdout
    assert "decimal(25,2)" in shown and "view key (customer), one row a key" in shown
    assert "PRE-AGGREGATION" in run("explain", "spend").stdout
    assert json.loads(run("explain", "spend", "--json").stdout)["view"] == "spend"
    assert run("explain", "spend", "--mermaid").stdout.startswith("flowchart TD\n")
    status = run("status").stdout
    assert "views" in status and "spend" in status and "lag (operations)" in status
    assert "nobody maintains the views" in status and "NULL" not in status and "None" not in status


def test_statements_are_read_from_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "more.sql"
    file.write_text("CREATE VIEW cheap AS SELECT id FROM orders WHERE price < 1;\nSHOW VIEWS")
    assert [row["view"] for row in lines(run("sql", "-f", str(file), "--json"))] == ["spend", "cheap"]
    assert [row["table"] for row in lines(run("sql", "-f", "-", "--json", input="SHOW TABLES"))] == ["orders"]
    assert run("sql").exit_code == 2


def test_files_are_loaded(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("id,customer,note\n" + "".join(f"{i},{i % 2},\n" for i in range(100)))
    (loaded,) = lines(run("load", "orders", str(file), "--json"))
    assert loaded["rows"] == 100
    maintained(tmp_path)
    assert lines(run("get", "spend", "1", "--json", "--after", loaded["token"]))[0]["n"] == 50


def test_status_and_rejected_are_data(run: Run) -> None:
    (status,) = lines(run("status", "--json"))
    assert [view["name"] for view in status["views"]] == ["spend"]
    assert run("rejected", "--json").stdout == ""
    assert lines(run("rejected", "--put-again", "--json")) == [{"put": 0}]


def test_what_is_not_there_or_does_not_fit_raises_an_error_that_names_it(run: Run, tmp_path: Path) -> None:
    maintained(tmp_path)
    for error, text, arguments in [
        (InputError, "spend has no row for 99", ("get", "spend", "99")),
        (InputError, r"customer is BIGINT; 'x' is not", ("get", "spend", "x")),
        (InputError, r"read by \(customer BIGINT\)", ("get", "spend")),
        (NotFound, "no table or view 'nix'", ("get", "nix", "1")),
        (InputError, "row 2 is not JSON", ("put", "orders", "{}", "{")),
        (InputError, "row 1 is not a JSON object", ("put", "orders", "[1]")),
        (NotFound, "'nix'", ("explain", "nix")),
    ]:
        with pytest.raises(error, match=text):
            run(*arguments)


WITHOUT_DATABASE = {"cassandra-log", "servers"}
"""Commands that have to do with none."""


def test_each_command_has_help_with_an_example() -> None:
    for name in cli.commands:
        text = CliRunner().invoke(cli, [name, "--help"]).stdout
        assert f"viewkeeper {name}" in text, name
        assert "--debug" in text and ("--db" in text) == (name not in WITHOUT_DATABASE), name


def viewkeeper_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; from viewkeeper.cli import main; sys.argv[0] = 'viewkeeper'; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120)


def test_an_error_is_one_line_and_a_traceback_only_with_debug(tmp_path: Path) -> None:
    arguments = ["explain", "nix", "--db", str(tmp_path / "db")]
    assert CliRunner().invoke(cli, ["init", "--db", str(tmp_path / "db")]).exit_code == 0
    failed = viewkeeper_process(*arguments)
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr == "viewkeeper: the view 'nix' does not exist; SHOW VIEWS lists all\n"
    debugged = viewkeeper_process(*arguments, "--debug")
    assert debugged.returncode == 1
    assert "Traceback" in debugged.stderr


def test_a_table_that_goes_to_a_file_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich takes what is no terminal for one of 80 columns."""
    print_rows(["reason", "row"], [{"reason": "r" * 90, "row": "x" * 300}], as_json=False)
    assert "r" * 90 in (out := capsys.readouterr().out) and "x" * 300 in out


READING = (
    ("get", "spend", "7"), ("put", "orders", "{}"), ("status",), ("explain", "spend"), ("rejected",), ("catch-up",),
    ("maintain", "--seconds", "1"), ("sql", "SELECT * FROM spend"), ("check", "spend"), ("load", "orders", "FILE"),
    ("rebase",),
)  # fmt: skip


@pytest.mark.parametrize("command", READING, ids=lambda command: command[0])
def test_a_command_makes_no_database_where_none_is(tmp_path: Path, command: tuple[str, ...]) -> None:
    """It says that there is none, and what makes one."""
    file = tmp_path / "rows.csv"
    file.write_text("id\n1\n")
    name, *rest = (str(file) if each == "FILE" else each for each in command)
    result = CliRunner().invoke(cli, [name, "--db", str(tmp_path / "shpo"), *rest])
    assert isinstance(result.exception, NotFound) and "viewkeeper init --db" in str(result.exception)
    assert not (tmp_path / "shpo").exists()


def test_init_makes_a_database(tmp_path: Path) -> None:
    """It may be there; what is fixed when it is made is kept."""
    place = str(tmp_path / "shop")
    for _ in range(2):
        assert (
            CliRunner().invoke(cli, ["init", "--db", place, "--nodes", "3", "--zone", "Europe/Berlin"]).exit_code == 0
        )
    with viewkeeper.connect(place) as db:
        assert len(db.lag()["nodes"]) == 3 and db.catalog.zone == "Europe/Berlin"
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    refused = CliRunner().invoke(cli, ["init", "--db", str(tmp_path / "home")])
    assert "is not a viewkeeper database, and holds 'letter'" in str(refused.exception)


def test_the_benchmarks_are_found_beside_the_source_and_missed_in_one_line_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not in the package, so what is installed without the source tree has none."""
    listed = CliRunner().invoke(cli, ["bench", "--json"])
    assert {"w3", "latency", "viewdf"} <= {line["name"] for line in lines(listed)}
    monkeypatch.setattr("viewkeeper.commands.programs._SOURCE_TREE", tmp_path)
    with pytest.raises(NotFound, match="come with viewkeeper's source tree: clone it"):
        CliRunner().invoke(cli, ["bench", "w3"], catch_exceptions=False)
