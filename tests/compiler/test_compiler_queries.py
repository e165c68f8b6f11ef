"""What a query is bound to: names, joins, grouping, view keys; and what is refused, where, and with what advice."""

from __future__ import annotations

import time
from datetime import date
from decimal import Decimal

import pytest

from compiler_catalog import catalog_of, query_of
from viewkeeper.catalog.model import Catalog
from viewkeeper.catalog.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal
from viewkeeper.compiler.bind import BoundView, bind_view
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import CreateView
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.expressions import Cast, ColumnRef, Compare, Expression, In, Literal, Or
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import Filter, GroupBy, InnerJoin, Order, Project, Relation, Scan

SHOP = catalog_of("""
    CREATE TABLE orders (Id BIGINT PRIMARY KEY, customer BIGINT, price DECIMAL(15,2), placed DATE, note STRING);
    CREATE TABLE customer (id BIGINT, segment STRING, PRIMARY KEY (id));
    CREATE TABLE item (order_id BIGINT, line INT, part INT, PRIMARY KEY (order_id, line));
    CREATE TABLE part (id INT PRIMARY KEY, weight DOUBLE);
    CREATE TABLE log (at TIMESTAMP, line STRING);
    CREATE VIEW spend AS SELECT customer, sum(price) AS total FROM orders GROUP BY customer;
    CREATE VIEW notes AS SELECT note FROM orders;
""")


def view(query: str, catalog: Catalog = SHOP, head: str = "CREATE VIEW v AS ") -> BoundView:
    (statement,) = parse_script(head + query)
    assert isinstance(statement, CreateView)
    return bind_view(catalog, statement)


def refusal(query: str, head: str = "CREATE VIEW v AS ") -> DeclarationError:
    with pytest.raises(DeclarationError) as refused:
        view(query, head=head)
    return refused.value


def condition(text: str) -> Expression:
    relation = view(f"SELECT * FROM orders WHERE {text}").relation
    assert isinstance(relation, Project) and isinstance(relation.input, Filter)
    return relation.input.predicate


def parts(relation: Relation, kind: type[Relation]) -> list[Relation]:
    """All relations of `kind` within, outermost first."""
    below = [getattr(relation, name) for name in ("input", "left", "right") if hasattr(relation, name)]
    return [relation] * isinstance(relation, kind) + [part for each in below for part in parts(each, kind)]


# View keys


@pytest.mark.parametrize(
    "query, key, unique",
    [
        ("SELECT note, id FROM orders WHERE price > 3", (1,), True),
        ("SELECT * FROM item", (0, 1), True),
        ("SELECT part, line, order_id FROM item", (2, 1), True),
        ("SELECT line, part FROM item", (0, 1), False),
        ("SELECT id + 1 AS id, price FROM orders", (0, 1), False),
        ("SELECT id, id AS again FROM orders", (0,), True),
        ("SELECT * FROM log", (0, 1), False),
        ("SELECT customer, count(*) FROM orders GROUP BY customer", (0,), True),
        ("SELECT count(*), placed, customer FROM orders GROUP BY customer, placed", (2, 1), True),
        ("SELECT count(*) FROM orders GROUP BY customer", (0,), False),
        ("SELECT count(*), sum(price) FROM orders", (), True),
        ("SELECT part + 1, count(*) FROM item GROUP BY 1", (0,), True),
        ("SELECT o.id, c.id AS cid, segment FROM orders o JOIN customer c ON o.customer = c.id", (0,), True),
        ("SELECT o.id, c.id AS cid FROM customer c JOIN orders o ON o.customer = c.id", (0,), True),
        ("SELECT o.id, s.id AS sid FROM orders o JOIN customer s ON o.note = s.segment", (0, 1), True),
        ("SELECT s.id AS sid FROM orders o JOIN customer s ON o.note = s.segment", (0,), False),
        ("SELECT a.id, b.id AS b FROM orders a JOIN orders b ON a.id = b.id", (0,), True),
        ("SELECT a.id, b.id AS b FROM orders a JOIN orders b ON a.customer = b.customer", (0, 1), True),
        ("SELECT order_id, line FROM item JOIN orders o ON order_id = o.id JOIN customer c ON customer = c.id",
         (0, 1), True),
        ("SELECT order_id, line, p.id FROM item i, part p WHERE i.part = p.id", (0, 1), True),
        ("SELECT o.id, line FROM orders o JOIN item i ON o.id = i.line", (0, 1), False),
        ("SELECT o.id, p.id AS p FROM orders o JOIN part p ON o.id = p.id", (0,), True),
        ("SELECT o.id, p.id AS p FROM orders o JOIN part p ON o.price = p.id", (0,), True),
        ("SELECT p.id AS p, o.id FROM part p JOIN orders o ON p.weight = o.id", (0, 1), True),
        ("SELECT o.id, at FROM orders o JOIN log ON note = line", (0, 1), False),
        ("SELECT * FROM spend WHERE total > 5", (0,), True),
        ("SELECT note FROM notes", (0,), False),
        ("SELECT id, total FROM orders o JOIN spend s ON o.customer = s.customer", (0,), True),
        ("SELECT n FROM (SELECT customer AS n, count(*) AS c FROM orders GROUP BY customer) WHERE c > 1", (0,), True),
        ("SELECT id, n FROM orders JOIN (SELECT count(*) AS n FROM item) ON id = n", (0,), True),
    ],
)  # fmt: skip
def test_the_view_key_is_what_the_architecture_says(query: str, key: tuple[int, ...], unique: bool) -> None:
    bound = view(query)
    assert (bound.key, bound.unique) == (key, unique)


# Names


def test_names_are_found_in_any_case_and_shown_as_the_query_writes_them() -> None:
    bound = view("SELECT ID, O.Price p FROM Orders o")
    assert [column.name for column in bound.columns] == ["ID", "p"]
    assert [column.name for column in view("SELECT * FROM ORDERS").columns][0] == "Id"


def test_the_columns_of_a_view_are_named_by_its_list() -> None:
    bound = view("SELECT id, price FROM orders", head="CREATE VIEW v (a, `B c`) AS ")
    assert [column.name for column in bound.columns] == ["a", "B c"]
    assert bound.relation.columns == bound.columns


def test_a_view_knows_its_text_and_what_it_reads() -> None:
    bound = view(" SELECT o.id FROM orders o JOIN spend s ON o.customer = s.customer JOIN orders p ON p.id = o.id ")
    assert bound.sql.startswith("SELECT o.id") and bound.sql.endswith("o.id")
    assert bound.reads == (SHOP.tables[0].id, SHOP.views[0].id)
    unused = view("WITH unused AS (SELECT id FROM orders) SELECT 1 AS one")  # Spark looks its names up, too
    assert unused.reads == (SHOP.tables[0].id,)


@pytest.mark.parametrize(
    "query, message, column",
    [
        ("SELECT idd FROM orders", "there is no column idd; did you mean Id?", 25),
        ("SELECT o.idd FROM orders o", "there is no column idd in o", 25),
        ("SELECT x.id FROM orders o", "there is no x in FROM; there is o", 25),
        ("SELECT orders.id FROM orders o", "there is no orders in FROM", 25),
        ("SELECT id FROM orders, customer WHERE orders.customer = customer.id", "orders.id or customer.id", 25),
        ("SELECT * FROM ordres", "there is no table or view ordres; did you mean orders?", 32),
        ("SELECT x.* FROM orders", "there is no x in FROM", 25),
        ("SELECT o.id FROM orders o JOIN orders O ON o.id = o.id", "O stands twice in FROM", 49),
        ("SELECT id, ID FROM orders", "two outputs are called ID; give one an alias", 29),
        ("SELECT a.*, b.* FROM orders a JOIN orders b ON a.id = b.id", "two outputs are called Id", 25),
        ("SELECT id AS a, price AS b, note AS A FROM orders", "two outputs are called A", 46),
        ("SELECT k FROM (SELECT id k, price K FROM orders) s", "k is ambiguous: s has 2 of that name", 25),
        ("SELECT id FROM orders WHERE x = 1", "there is no column x", 46),
        ("SELECT NULL AS x FROM orders", "always NULL and has no type", 33),
        ("SELECT customer, price FROM orders GROUP BY customer", "price is neither in GROUP BY nor inside", 35),
        ("SELECT customer, sum(price) FROM orders", "customer is neither in GROUP BY nor inside", 25),
        ("SELECT customer FROM orders GROUP BY 2", "the outputs are numbered from 1 to 1", 55),
        ("SELECT sum(count(*)) FROM orders", "an aggregate cannot stand inside another", 29),
        ("SELECT id FROM orders WHERE sum(price) > 1", "put the condition into HAVING", 46),
        ("SELECT id FROM orders WHERE price", "WHERE needs a condition, not a value of type DECIMAL(15,2)", 46),
        ("SELECT NOT price FROM orders", "NOT needs conditions", 29),
        ("SELECT sum(note = 'x') FROM orders", "SUM needs a number, not BOOLEAN", 25),
        ("SELECT sum(*) FROM orders", "SUM(*) is not an aggregate", 25),
        ("SELECT id FROM orders WHERE placed = 3", "DATE and INT cannot be compared", 46),
        ("SELECT coalesce(placed, 1) FROM orders", "COALESCE has values of types that do not go together", 25),
    ],
)
def test_a_query_that_means_nothing_is_refused_with_its_place(query: str, message: str, column: int) -> None:
    refused = refusal(query)
    assert message in str(refused)
    assert (refused.line, refused.column) == (1, column)


def test_a_place_counts_lines_and_characters_of_the_whole_script() -> None:
    script = "SHOW TABLES; /* ü😀 */\nCREATE VIEW v AS\n  SELECT 'ü😀', id,\n\tnope FROM orders"
    _, statement = parse_script(script)
    assert isinstance(statement, CreateView)
    with pytest.raises(DeclarationError) as refused:
        bind_view(SHOP, statement)
    assert (refused.value.line, refused.value.column) == (4, 2)


def test_the_places_in_a_relation_count_from_the_querys_own_text() -> None:
    bound = view("SELECT id,\n  price + 1 FROM orders", head="CREATE VIEW\n\n   v AS ")
    assert isinstance(bound.relation, Project)
    assert [output.place for output in bound.relation.outputs] == [(1, 8), (2, 3)]


def test_views_that_differ_by_their_names_alone_are_bound_alike() -> None:
    first, second = (
        view("SELECT * FROM orders WHERE customer = 5", head=f"CREATE VIEW {n} AS ") for n in ("a", "long")
    )
    assert first.relation == second.relation


@pytest.mark.parametrize(
    "head, message",
    [
        ("CREATE VIEW v (a) AS ", "v names 1 columns, and its query has 2 outputs"),
        ("CREATE VIEW v (a, A) AS ", "two outputs are called A"),
        ("CREATE VIEW Orders AS ", "there is a table called orders already"),
        ("CREATE VIEW SPEND AS ", "there is a view called spend already"),
    ],
)
def test_a_view_whose_names_do_not_fit_is_refused(head: str, message: str) -> None:
    assert message in str(refusal("SELECT id, price FROM orders", head))


# What is not kept


@pytest.mark.parametrize(
    "query, message, column",
    [
        ("SELECT o.id FROM (orders o JOIN customer c ON o.customer = c.id)", "in parentheses", None),
        ("SELECT id FROM orders LIMIT 5", "without ORDER BY", 29),
        ("SELECT id FROM (SELECT id FROM orders LIMIT 5) s", "LIMIT belongs to the query that reads", 45),
        ("SELECT id FROM orders OFFSET 5", "without ORDER BY", 30),
        ("SELECT note LIKE note FROM orders", "its argument 2 is a constant", 8),
        ("SELECT note RLIKE '(a)\\\\1' FROM orders", "Java and RE2 read alike", 8),
        ("SELECT CAST(' Now ' AS TIMESTAMP) FROM orders", "another TIMESTAMP each time", None),
        ("SELECT to_date(concat('to', 'day')) FROM orders", "another DATE each time", None),
        ("SELECT CAST(weight AS STRING) FROM part", "a cast from DOUBLE to STRING is not supported yet", 13),
        ("SELECT weight::DECIMAL(5,2) FROM part", "Java before version 19", 8),
        ("SELECT id || note + 1 FROM orders", "parentheses", None), ("SELECT id & 1 | 2 FROM orders", "| it", None),
        ("SELECT lowr(note) FROM orders", "the function lowr is not supported yet; did you mean lower?", 8),
        ("SELECT foo(note) FROM orders", "the function foo is not supported yet", 8),
        ("SELECT first(id) FROM orders", "first needs OVER", 8), ("SELECT exp(id) FROM orders", "exp", 8),
        ("SELECT abs(placed) FROM orders", "abs takes a number", 8),
        ("SELECT substr(note, id) FROM orders", "substr takes a STRING or BINARY, and INTs", None),
        ("SELECT to_date(note, 'yyyy') FROM orders", "to_date takes one value here", None),
        ("SELECT id, rand() FROM orders", "rand gives another value each time", 12),
        ("SELECT id FROM orders WHERE placed < current_date", "gives another value each time", None),
        ("SELECT id FROM orders WHERE placed < current_date()", "gives another value each time", None),
        ("SELECT now() FROM orders", "now gives another value each time", 8),
        ("SELECT uuid() FROM orders", "uuid gives another value each time", 8),
        ("SELECT current_user() FROM orders", "gives another value each time", None),
        ("SELECT id FROM orders TABLESAMPLE (10 ROWS)", "TABLESAMPLE is not deterministic", None),
        ("SELECT id FROM orders LATERAL VIEW explode(note) AS y", "explode takes", None),
        ("SELECT o.id FROM orders o, LATERAL (SELECT o.id) l", "LATERAL", None),
        ("SELECT id FROM orders PIVOT (sum(price) FOR note IN ('a'))", "PIVOT", None),
        ("SELECT /*+ BROADCAST(orders) */ id FROM orders", "a hint has no meaning here", None),
        ("SELECT 1 AS x FROM orders o GROUP BY CUBE (note) HAVING o.note > ''", "without its table's name", 57),
        ("SELECT * EXCEPT (note) FROM orders", "* EXCEPT", None),
        ("SELECT id FROM orders UNION BY NAME SELECT id FROM customer", "BY NAME", None),
        ("SELECT id AS x, x + 1 FROM orders", "needs an alias", 17),
        ("SELECT (SELECT c.id FROM customer c WHERE c.id = o.customer) FROM orders o", "needs an alias", None),
        ("SELECT (SELECT sum(c.id) FROM customer c WHERE c.id < o.id) AS x FROM orders o", "than equalities", None),
        ("SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM customer c WHERE c.id < o.id) OR id > 1",
         "no condition of its own", None),
        ("SELECT (SELECT max(c.id) + o.id FROM customer c) AS x FROM orders o", "outside WHERE and HAVING", None),
        ("SELECT id, customer IN (SELECT id FROM customer) AS there FROM orders", "NULLs may decide", None),
        ("SELECT id FROM orders o WHERE id IN (SELECT c.id / 2 FROM customer c WHERE c.segment = o.note)",
         "can raise", None),
        ("SELECT (SELECT min(1 / c.id) FROM customer c WHERE c.segment = note) AS x FROM orders", "can raise", None),
        ("SELECT o.id FROM orders o LEFT JOIN customer c ON o.id IN (SELECT id FROM orders)", "in ON", None),
        ("WITH RECURSIVE o AS (SELECT 1 AS x) SELECT x FROM o", "WITH RECURSIVE", None),
        ("SELECT id FROM shop.orders", "a name has one part only", 16),
        ("SELECT id FROM orders VERSION AS OF 3", "older version", None),
        ("SELECT note[0] FROM orders", "an ARRAY and a whole number", 8),
        ("SELECT size(note) FROM orders", "size takes", 8),
        ("SELECT map(1) FROM orders", "map takes", 8), ("SELECT struct() FROM orders", "struct takes", 8),
        ("SELECT (note).b FROM orders", "no field of a value", None),
        ("SELECT (id, note) FROM orders", "several values", 9),
        ("SELECT id IS 5 FROM orders", "only IS [NOT] NULL", 8),
        ("SELECT id IS DISTINCT FROM 1 FROM orders", "NOT (a <=> b)", 8),
        ("SELECT placed + 1.5 FROM orders", "for numbers, and for a DATE and an INT", 8),
        ("SELECT 0x1F FROM orders", "hexadecimal numbers", 8), ("SELECT id AS 'x' FROM orders", "backticks", 14),
        ("SELECT id FROM orders SORT BY id", "SORT BY", None),
        ("SELECT id FROM orders CLUSTER BY id", "CLUSTER", None),
        ("SELECT TIME '10:00:00' FROM orders", "cast to TIME", None),
        ("SELECT id BETWEEN SYMMETRIC 1 AND 2 FROM orders", "BETWEEN SYMMETRIC", 8),
    ],
)  # fmt: skip
def test_what_is_not_kept_is_refused_by_name(query: str, message: str, column: int | None) -> None:
    refused = refusal(query)
    assert message in str(refused)
    assert refused.line == 1 and refused.column is not None
    if column:
        assert refused.column == column + len("CREATE VIEW v AS ")
    assert isinstance(refused, NotSupported) or "hexa" in message or "backticks" in message


# Conversions


@pytest.mark.parametrize(
    "text, type_, value",
    [
        ("customer = '5'", BIGINT, 5), ("price > '19.90'", DOUBLE, 19.9),
        ("price > 5", decimal(15, 2), Decimal("5.00")),
        ("placed >= '2026-01-31'", DATE, date(2026, 1, 31)),
        ("customer < 5", BIGINT, 5), ("note > 'x'", STRING, "x"),
        ("(note = 'x') = 'yes'", BOOLEAN, True),
    ],
)  # fmt: skip
def test_a_constant_is_converted_when_it_is_declared(text: str, type_: Type, value: object) -> None:
    predicate = condition(text)
    assert isinstance(predicate, Compare) and isinstance(predicate.right, Literal)
    assert predicate.right.value == value
    assert predicate.left.type == predicate.right.type == type_


def test_a_moment_without_zone_is_one_of_the_databases_zone() -> None:
    catalog = catalog_of("CREATE TABLE log (at TIMESTAMP, line STRING)", Catalog(zone="Europe/Berlin"))
    relation = view(
        "SELECT * FROM log WHERE at > TIMESTAMP '2026-07-01 12:00:00' AND at < '2026-07-02'", catalog
    ).relation
    shown = [node.right.value.isoformat() for node in relation.input.predicate.arguments]  # type: ignore[attr-defined]
    assert shown == ["2026-07-01T10:00:00+00:00", "2026-07-01T22:00:00+00:00"]


@pytest.mark.parametrize(
    "text, message, column",
    [
        ("customer = 'five'", "'five' is not a BIGINT", 47),
        ("placed > 'soon'", "'soon' is not a DATE", 47),
    ],
)
def test_a_conversion_that_fails_is_refused(text: str, message: str, column: int) -> None:
    refused = refusal(f"SELECT id FROM orders WHERE {text}")
    assert message in str(refused)
    assert refused.column == column - 1


@pytest.mark.parametrize(
    "text, type_",
    [("note = 5", BIGINT), ("note < placed", DATE), ("5 < note", BIGINT), ("price > note", DOUBLE)],
)
def test_a_conversion_that_can_fail_is_a_cast_that_may_raise(text: str, type_: Type) -> None:
    predicate = condition(text)
    assert isinstance(predicate, Compare)
    (cast,) = [side for side in (predicate.left, predicate.right) if isinstance(side, Cast) and can_raise(side)]
    assert cast.argument.type == STRING and cast.type == type_


def test_a_conversion_that_loses_digits_is_a_cast_that_may_raise() -> None:
    catalog = catalog_of("CREATE TABLE t (wide DECIMAL(38,0), fine DECIMAL(38,18))")
    relation = view("SELECT * FROM t WHERE wide = fine", catalog).relation
    assert isinstance(relation, Project) and isinstance(relation.input, Filter) and can_raise(relation.input.predicate)


def test_both_sides_of_a_comparison_have_one_type() -> None:
    predicate = condition("id > price")
    assert isinstance(predicate, Compare) and isinstance(predicate.left, Cast)
    assert predicate.left.type == predicate.right.type == decimal(22, 2)


def test_in_over_constants_is_one_test_and_over_expressions_one_for_each() -> None:
    constants, expressions = condition("customer IN (1, 2L, NULL)"), condition("customer IN (1, id + 1)")
    assert isinstance(constants, In) and {option.type for option in constants.options} == {BIGINT}
    assert isinstance(expressions, Or) and len(expressions.arguments) == 2


# Joins


def joins(query: str) -> list[InnerJoin]:
    return [part for part in parts(view(query).relation, InnerJoin) if isinstance(part, InnerJoin)]


def test_equalities_of_on_are_keys_over_their_own_sides_and_the_rest_is_residual() -> None:
    (join,) = joins(
        "SELECT o.id FROM item i JOIN orders o ON o.id = i.order_id AND i.line = 3 AND 1 < o.price + i.line"
    )
    assert [(key.index, key.name) for key in (*join.left_keys, *join.right_keys) if isinstance(key, ColumnRef)] == [
        (0, "order_id"), (0, "id"),
    ]  # fmt: skip
    assert join.residual is not None and len(list(join.residual.children())) == 2


def test_keys_are_converted_to_their_common_type() -> None:
    (join,) = joins("SELECT i.line FROM item i JOIN orders o ON i.part = o.id")
    assert isinstance(join.left_keys[0], Cast) and join.left_keys[0].type == BIGINT == join.right_keys[0].type


def test_equalities_of_where_join_what_commas_separate_and_the_rest_stays_in_one_filter_in_order() -> None:
    bound = view("SELECT o.id FROM orders o, customer c WHERE price > 3 AND o.customer = c.id AND segment = 'x'")
    assert isinstance(bound.relation, Project) and isinstance(bound.relation.input, Filter)
    first, second = bound.relation.input.predicate.children()
    assert [first.children()[0], second.children()[0]] == [
        ColumnRef(decimal(15, 2), True, (1, 45), 2, "price"), ColumnRef(STRING, True, (1, 81), 6, "segment"),
    ]  # fmt: skip


def test_tables_are_joined_in_the_order_that_their_equalities_allow() -> None:
    bound = view("""SELECT p.id, c.segment, i.line FROM part p, customer c, orders o, item i
                    WHERE c.id = o.customer AND i.order_id = o.id AND p.id = i.part AND p.weight > c.id""")
    scans = [scan.name for scan in parts(bound.relation, Scan) if isinstance(scan, Scan)]
    assert scans == ["part", "item", "orders", "customer"]
    assert isinstance(bound.relation, Project) and isinstance(bound.relation.input, Filter)
    columns = bound.relation.input.columns
    for node in (*bound.relation.outputs, *bound.relation.input.predicate.children()):
        column = node if isinstance(node, ColumnRef) else node.children()[0]
        assert isinstance(column, ColumnRef) and columns[column.index].name == column.name


def test_a_star_keeps_the_order_of_from_whatever_the_order_of_joins() -> None:
    query = query_of(SHOP, "SELECT * FROM part p, orders o, item i WHERE i.order_id = o.id AND p.id = i.part")
    assert [column.name for column in query.relation.columns] == [
        "id", "weight", "Id", "customer", "price", "placed", "note", "order_id", "line", "part",
    ]  # fmt: skip
    assert isinstance(query.relation, Project)
    columns = query.relation.input.columns
    assert [columns[o.index].name for o in query.relation.outputs if isinstance(o, ColumnRef)] == list(
        query.relation.names
    )


# Grouping and reading


def aggregate(query: str) -> GroupBy:
    (found,) = parts(view(query).relation, GroupBy)
    assert isinstance(found, GroupBy)
    return found


def test_equal_keys_and_equal_aggregates_are_computed_once() -> None:
    found = aggregate("SELECT sum(o.price) + SUM(PRICE), count(*) + count(1) FROM orders o GROUP BY note, Note")
    assert found.key_names == ("note",)
    assert [call.function for call in found.calls] == ["sum", "count_star"]


def test_having_filters_groups_and_may_use_aliases_keys_and_new_aggregates() -> None:
    bound = view("""SELECT customer AS c, sum(price) AS total FROM orders GROUP BY customer
                    HAVING total > 5 AND c < 3 AND max(id) > 2""")
    assert isinstance(bound.relation, Project) and isinstance(bound.relation.input, Filter)
    assert isinstance(bound.relation.input.input, GroupBy)
    assert [call.function for call in bound.relation.input.input.calls] == ["sum", "max"]


@pytest.mark.parametrize(
    "query, meant",
    [
        ("SELECT max(customer) AS id FROM orders GROUP BY id HAVING id = 1", "id"),
        ("SELECT id AS customer FROM orders GROUP BY id, customer HAVING customer = 1", "customer"),
        ("SELECT max(id) AS id FROM orders GROUP BY customer HAVING id = 1", "max(id)"),
        ("SELECT max(id) AS id FROM orders GROUP BY id + 1 HAVING id = 1", "max(id)"),
    ],
)
def test_a_name_in_having_is_first_a_column_that_is_grouped_by_and_then_an_alias(query: str, meant: str) -> None:
    bound = view(query)
    assert isinstance(bound.relation, Project) and isinstance(bound.relation.input, Filter)
    column = bound.relation.input.predicate.children()[0]
    assert isinstance(column, ColumnRef)
    assert bound.relation.input.columns[column.index].name == meant


def test_a_key_expression_is_recognised_within_larger_ones() -> None:
    bound = view("SELECT (id + 1) * 2 AS x, -(ID + 1) AS y FROM orders o GROUP BY O.id + 1")
    assert isinstance(bound.relation, Project)
    assert all(list(parts_of(output, ColumnRef))[0].index == 0 for output in bound.relation.outputs)


def parts_of(expression: Expression, kind: type[ColumnRef]) -> list[ColumnRef]:
    below = [part for child in expression.children() for part in parts_of(child, kind)]
    return [expression, *below] if isinstance(expression, kind) else below


def test_order_by_takes_names_numbers_and_hidden_expressions() -> None:
    query = query_of(
        SHOP, "SELECT note AS n, price FROM orders ORDER BY 2 DESC, n, id + 1 DESC NULLS FIRST LIMIT 5 OFFSET 2"
    )
    assert query.order == (Order(1, False, False), Order(0, True, True), Order(2, False, True))
    assert (query.visible, len(query.relation.columns), query.limit, query.offset) == (2, 3, 5, 2)


def test_order_by_in_a_grouped_query_takes_aggregates_that_are_not_shown() -> None:
    query = query_of(SHOP, "SELECT note FROM orders GROUP BY note ORDER BY count(*) DESC, note")
    assert query.order == (Order(1, False, False), Order(0, True, True))
    assert (query.visible, len(query.relation.columns)) == (1, 2)


def test_a_long_condition_and_a_long_list_are_bound() -> None:
    tests = " OR ".join(f"customer = {i}" for i in range(2000))
    values = ", ".join(map(str, range(5000)))
    assert len(list(condition(tests).children())) == 2000
    assert len(list(condition(f"customer IN ({values})").children())) == 5001


def test_what_is_nested_too_deep_is_refused() -> None:
    assert "nested too deep" in str(refusal("SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM orders"))
    assert "nested more than 100 levels deep" in str(refusal("SELECT " + "1+" * 150 + "1 FROM orders"))
    assert len(view("SELECT " + "1+" * 90 + "1 AS x FROM orders").columns) == 1


def test_a_script_of_thousands_of_views_is_read_quickly() -> None:
    script = ";\n".join(f"CREATE VIEW v{i} AS SELECT * FROM orders WHERE customer = {i}" for i in range(1000))
    start = time.process_time()
    bound = [bind_view(SHOP, statement) for statement in parse_script(script) if isinstance(statement, CreateView)]
    assert len({b.name for b in bound}) == 1000 and {b.columns for b in bound} == {bound[0].columns}
    assert time.process_time() - start < 5


def test_types_of_constants_beside_columns() -> None:
    assert [c.type for c in view("SELECT 1 AS a, 5L AS b, TIMESTAMP '2026-01-01' AS c FROM orders").columns] == [
        INT, BIGINT, TIMESTAMP,
    ]  # fmt: skip


@pytest.mark.parametrize("order", ["id", "price + 1 DESC, id NULLS LAST", "2, id"])
def test_the_order_of_a_views_query_says_nothing_about_its_rows(order: str) -> None:
    """A view is a bag; outputs that only ORDER BY needs are not there."""
    plain = view("SELECT id, note FROM orders")
    ordered = view(f"SELECT id, note FROM orders ORDER BY {order}")
    within = view(f"SELECT id, note FROM (SELECT id, note, price FROM orders ORDER BY {order}) o")
    assert (ordered.columns, ordered.key, ordered.reads) == (plain.columns, plain.key, plain.reads)
    assert (within.columns, within.key) == (plain.columns, plain.key)
