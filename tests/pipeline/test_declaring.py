"""IF NOT EXISTS and CASCADE: declarations that look at what is there."""

from __future__ import annotations

import pytest

from viewkeeper.catalog.model import Catalog, PartView
from viewkeeper.errors import DeclarationError
from viewkeeper.maintenance.explain import explain_view
from viewkeeper.pipeline.declare_script import run

SCRIPT = """
CREATE TABLE t (id BIGINT PRIMARY KEY, n INT);
CREATE TABLE u (id BIGINT PRIMARY KEY);
CREATE VIEW a AS SELECT id, n FROM t;
CREATE VIEW b AS SELECT n, count(*) AS c FROM a GROUP BY n;
CREATE VIEW c AS SELECT u.id FROM u JOIN a ON u.id = a.id;
CREATE VIEW other AS SELECT id FROM u;
CREATE INDEX by_c ON b (c);
CREATE STREAM s (ts TIMESTAMP NOT NULL, id BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE VIEW counted AS SELECT id, count(*) AS n FROM s [WINDOW 5 MINUTES] GROUP BY id;
"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return run(Catalog(), SCRIPT).catalog


WINDOW = "AS SELECT id, max(id) AS m FROM s [WINDOW 1 MINUTES] GROUP BY id"


def names(catalog: Catalog) -> set[str]:
    return {item.name for item in catalog.objects if not (isinstance(item, PartView) and item.hidden)}


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE IF NOT EXISTS T (other STRING)", "CREATE VIEW IF NOT EXISTS a AS SELECT nothing FROM nowhere",
        "CREATE INDEX IF NOT EXISTS by_c ON nothing (x)", "CREATE VIEW IF NOT EXISTS counted AS SELECT id FROM u",
        "CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP) TIMESTAMP BY ts PARTITION LENGTH 1",
        "DROP VIEW IF EXISTS nothing CASCADE", "DROP TABLE IF EXISTS nothing",
    ],
)  # fmt: skip
def test_what_is_there_stays_as_it_is_and_what_is_not_there_is_not_dropped(catalog: Catalog, sql: str) -> None:
    declared = run(catalog, sql)
    assert declared.catalog is catalog and declared.objects == ()


def test_what_is_not_there_is_made_once(catalog: Catalog) -> None:
    declared = run(
        catalog,
        """
        CREATE VIEW IF NOT EXISTS d AS SELECT id FROM t; CREATE VIEW IF NOT EXISTS D AS SELECT id FROM nowhere;
        CREATE VIEW IF NOT EXISTS e AS SELECT id, max(id) AS m FROM s [WINDOW 1 MINUTES] GROUP BY id;
        CREATE TABLE IF NOT EXISTS v (id INT)""",
    )
    assert names(declared.catalog) - names(catalog) == {"d", "e", "v"}
    assert [made for made in declared.objects if made[0] == "CREATE"] == [
        ("CREATE", "VIEW", "d"), ("CREATE", "VIEW", "e"), ("CREATE", "TABLE", "v")
    ]  # fmt: skip
    view = declared.catalog.find("e")
    assert isinstance(view, PartView) and view.sql.startswith("CREATE VIEW `e`")


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("DROP TABLE t CASCADE", {"u", "other", "s", "counted"}),
        ("DROP VIEW a CASCADE", {"t", "u", "other", "s", "counted"}),
        ("DROP VIEW b CASCADE", {"t", "u", "a", "c", "other", "s", "counted"}),
        ("DROP STREAM s CASCADE", {"t", "u", "a", "b", "c", "other", "by_c"}),
        ("DROP VIEW counted CASCADE", {"t", "u", "a", "b", "c", "other", "by_c", "s"}),
        ("DROP INDEX by_c CASCADE", {"t", "u", "a", "b", "c", "other", "s", "counted"}),
    ],
)
def test_cascade_drops_what_uses_it_and_nothing_else(catalog: Catalog, sql: str, left: set[str]) -> None:
    declared = run(catalog, sql)
    assert names(declared.catalog) == left
    assert {name for _, _, name in declared.objects} == names(catalog) - left
    with_kind = [name for verb, kind, name in declared.objects if (verb, kind) == ("DROP", "INDEX")]
    assert with_kind == (["by_c"] if "by_c" not in left else [])


def test_without_cascade_what_is_used_is_refused_naming_the_users(catalog: Catalog) -> None:
    for sql, users in (("DROP TABLE t", "a"), ("DROP VIEW a RESTRICT", "b, c"), ("DROP STREAM s", "counted")):
        with pytest.raises(DeclarationError, match=f"is used by {users}; drop what uses it first, or DROP ... CASCADE"):
            run(catalog, sql)


def test_a_view_over_streams_is_replaced_as_alter_view_does(catalog: Catalog) -> None:
    replaced = run(catalog, "CREATE OR REPLACE VIEW counted " + WINDOW)
    altered = run(catalog, "ALTER VIEW counted " + WINDOW)
    assert replaced.objects == altered.objects and replaced.catalog.find("counted") == altered.catalog.find("counted")
    with pytest.raises(DeclarationError, match="there is a table called t already"):
        run(catalog, "CREATE OR REPLACE VIEW t " + WINDOW)
    assert names(run(catalog, "CREATE OR REPLACE VIEW new AS SELECT id FROM t").catalog) - names(catalog) == {"new"}


def test_what_nothing_reads_gets_another_name(catalog: Catalog) -> None:
    declared = run(
        catalog,
        """ALTER VIEW b RENAME TO b2; ALTER VIEW other RENAME TO Other; CREATE TABLE w (id INT);
                               ALTER TABLE w RENAME TO x; CREATE VIEW over_x AS SELECT id FROM x""",
    )
    assert names(declared.catalog) == (names(catalog) - {"b", "other"}) | {"b2", "Other", "x", "over_x"}
    renamed, before = declared.catalog.find("B2"), catalog.find("b")
    assert renamed is not None and before is not None and renamed.id == before.id
    assert declared.objects[:2] == (("ALTER", "VIEW", "b2"), ("ALTER", "VIEW", "Other"))
    assert "of x" in explain_view(declared.catalog, declared.catalog.views[-1])


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("ALTER TABLE t RENAME TO t2", "t is used by a, whose queries name it"),
        ("ALTER VIEW a RENAME TO a2", "a is used by b, c, whose queries name it"),
        ("ALTER VIEW b RENAME TO c", "there is a view called c already"),
        ("ALTER VIEW nothing RENAME TO c", "there is no view nothing"),
        ("ALTER VIEW t RENAME TO c", "there is no view t: it is a table"),
        ("ALTER VIEW counted RENAME TO c", "counted is kept part by part, and keeps its name"),
    ],
)
def test_a_name_that_others_use_or_have_is_refused(catalog: Catalog, sql: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        run(catalog, sql)
