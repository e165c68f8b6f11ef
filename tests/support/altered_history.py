"""Random histories of ALTER TABLE and writes by two databases on one folder, beside a model in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import viewkeeper
from local_maintenance import catch_up
from pipeline_database import term_of
from viewkeeper import Database, DeclarationError, InputError
from viewkeeper.catalog.model import Table
from viewkeeper.checker.check import Judge, check_views
from viewkeeper.errors import LayoutChanged
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline.driver import Maintainer, caught_up
from viewkeeper.pipeline.fills import unfilled
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.logs import Logs

VALUES: dict[str, tuple[Any, ...]] = {
    "INT": (None, 0, 1, 2), "STRING": (None, "", "a", "bé"), "DECIMAL(20,2)": (None, Decimal("1.50"), Decimal("-2.00")),
}  # fmt: skip


@dataclass
class ModelColumn:
    """A column as the model knows it: `before` is what rows of before it have."""

    id: int
    name: str
    type: str
    default: Any = None
    before: Any = None


@dataclass
class ModelView:
    """`shown` are the ids of the columns that it shows, in their order; `used` those that its query names."""

    name: str
    kind: str
    shown: list[int]
    used: set[int]


@dataclass
class History:
    """One history: `run` takes so many steps; whatever differs from the model is an AssertionError."""

    root: Path
    seed: int
    keyed: bool
    coverage: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.rows: dict[int, dict[int, Any]] = {}
        self.columns = [ModelColumn(0, "id", "INT"), ModelColumn(1, "c1", "INT", 7), ModelColumn(2, "c2", "STRING")]
        self.next_id, self.next_row = 3, 1000
        self.views: list[ModelView] = []
        self.index: int | None = None
        self.held: list[tuple[Any, dict[str, Counter[Any]]]] = []
        self.dbs = [self.open(), self.open()]
        key = ", PRIMARY KEY (id)" if self.keyed else ""
        self.db.sql(f"CREATE TABLE t (id INT NOT NULL, c1 INT DEFAULT 7, c2 STRING{key})")
        self.stale: Table = self.dbs[1].table("t")._table()
        self.stale_columns = [ModelColumn(**vars(column)) for column in self.columns]

    def open(self) -> Database:
        return viewkeeper.connect(self.root / "db", nodes=2, durability="process")

    @property
    def db(self) -> Database:
        return self.random.choice(self.dbs)

    def run(self, steps: int, judge: Judge | None = None) -> None:
        ways: list[tuple[int, Callable[[], None]]] = [
            (6, self.put), (4, self.put_many), (3, self.delete), (2, self.update), (2, self.insert),
            (3, self.put_stale), (4, self.add), (3, self.drop), (2, self.rename), (1, self.set_default),
            (3, self.create_view), (1, self.drop_view), (4, self.maintain), (1, self.reopen),
            (1, self.make_index), (2, self.hold), (2, self.clear), (2, self.merge),
        ]  # fmt: skip
        for _ in range(steps):
            (way,) = self.random.choices([way for _, way in ways], [often for often, _ in ways])
            way()
        self.maintain()
        self.require_right(judge)
        for snapshot, _ in self.held:
            snapshot.close()
        for db in self.dbs:
            db.close()

    # Writes

    def put(self) -> None:
        row = self.some_row(self.columns)
        self.db.table("t").put(row)
        self.written([row], self.columns, "put")

    def put_many(self) -> None:
        names = self.random.random() < 0.5
        chosen = self.chosen(self.columns)
        rows = [self.some_row(self.columns, chosen if names else None) for _ in range(self.random.randint(1, 5))]
        self.db.table("t").put_many(rows)
        self.written(rows, self.columns, "put_many alike" if names else "put_many")

    def put_stale(self) -> None:
        """By the form that the table had: it is taken as long as nobody has written by a later one on the node."""
        row = self.some_row(self.stale_columns)
        altered = [c.id for c in self.stale_columns] != [c.id for c in self.columns]
        try:
            self.dbs[1]._store.put(self.stale, row)
        except LayoutChanged:
            self.coverage["stale put refused"] += 1
            self.refresh()
            return
        self.written([row], self.stale_columns, "stale put taken" if altered else "put by a form that is the newest")

    def refresh(self) -> None:
        self.stale = self.dbs[1].table("t")._table()
        self.stale_columns = [ModelColumn(**vars(column)) for column in self.columns]

    def written(self, rows: list[dict[str, Any]], columns: list[ModelColumn], what: str) -> None:
        self.coverage[what] += 1
        by_name = {column.name: column for column in columns}
        for row in rows:
            key = row["id"] if self.keyed else self.next_row
            self.next_row += 1
            if key not in self.rows:
                known = {column.id: column.default for column in columns}
                self.rows[key] = {c.id: known.get(c.id, c.before) for c in self.columns}
            named = {by_name[name].id: value for name, value in row.items()}
            self.rows[key] |= {id_: value for id_, value in named.items() if id_ in self.rows[key]}

    def delete(self) -> None:
        if self.keyed:
            key = self.random.randrange(6)
            self.db.table("t").delete(key)
            self.coverage["delete"] += key in self.rows
            self.rows.pop(key, None)
        elif self.rows:
            key = self.random.choice(list(self.rows))
            old = self.rows.pop(key)
            assert self.db.table("t").delete({c.name: old[c.id] for c in self.columns})
            self.coverage["delete of an equal row"] += 1

    def clear(self) -> None:
        column = self.random.choice(self.columns)
        if self.keyed and column.id:
            key = self.random.randrange(6)
            self.db.table("t").delete(key, columns=[column.name])
            if key in self.rows:
                self.rows[key][column.id] = None
                self.coverage["delete of a column"] += 1

    def update(self) -> None:
        column, key = self.random.choice(self.columns), self.random.randrange(6)
        if column.id:
            default = self.random.random() < 0.3
            value = column.default if default else self.random.choice(VALUES[column.type])
            self.db.sql(f"UPDATE t SET {column.name} = {'DEFAULT' if default else ':v'} WHERE id = {key}",
                        **({} if default else {"v": value}))  # fmt: skip
            changed = [row for row in self.rows.values() if row[0] == key]
            for row in changed:
                row[column.id] = value
            self.coverage["update"] += bool(changed)

    def insert(self) -> None:
        row = self.some_row(self.columns)
        names = ", ".join(row)
        values = ", ".join(f":{name}" for name in row)
        try:
            self.db.sql(f"INSERT INTO t ({names}) VALUES ({values})", **row)
        except InputError:
            assert self.keyed and row["id"] in self.rows
            return
        self.written([row], self.columns, "insert")

    def some_row(self, columns: list[ModelColumn], chosen: list[ModelColumn] | None = None) -> dict[str, Any]:
        picked = self.chosen(columns) if chosen is None else chosen
        return {c.name: self.random.choice(VALUES[c.type]) if c.id else self.random.randrange(6) for c in picked}

    def chosen(self, columns: list[ModelColumn]) -> list[ModelColumn]:
        return [column for column in columns if not column.id or self.random.random() < 0.6]

    # Declarations

    def add(self) -> None:
        if len(self.columns) > 7:
            return
        added = []
        for _ in range(self.random.choice([1, 1, 2])):
            type_ = self.random.choice(list(VALUES))
            value = self.random.choice(VALUES[type_])
            added.append(ModelColumn(self.next_id, f"c{self.next_id}", type_, value, value))
            self.next_id += 1
        taken = {column.name for column in self.columns}
        free = [f"c{i}" for i in range(1, self.next_id) if f"c{i}" not in taken and i < self.next_id - len(added)]
        if free and len(added) == 1 and self.random.random() < 0.5:  # the name of one that was dropped
            added[0].name = self.random.choice(free)
        self.db.sql("ALTER TABLE t ADD COLUMNS (" + ", ".join(
            f"{c.name} {c.type} DEFAULT {literal(c.default)}" for c in added) + ")")  # fmt: skip
        self.columns = [*self.columns, *added]
        for row in self.rows.values():
            row.update({column.id: column.before for column in added})
        self.coverage["add column"] += 1

    def drop(self) -> None:
        column = self.random.choice(self.columns[1:]) if len(self.columns) > 1 else None
        if column is None:
            return
        used = self.users(column.id) or self.index == column.id
        try:
            self.db.sql(f"ALTER TABLE t DROP COLUMN {column.name}")
        except DeclarationError as error:
            assert used and (not self.users(column.id) or self.users(column.id)[0] in str(error)), error
            self.coverage["drop column refused"] += 1
            return
        assert not used
        self.columns = [each for each in self.columns if each is not column]
        for row in self.rows.values():
            del row[column.id]
        self.coverage["drop column"] += 1

    def users(self, id_: int) -> list[str]:
        return [view.name for view in self.views if id_ in view.used]

    def rename(self) -> None:
        column = self.random.choice(self.columns)
        name = f"r{self.next_id}_{self.random.randrange(100)}"
        if not column.id or name in {each.name for each in self.columns}:
            return
        try:
            self.db.sql(f"ALTER TABLE t RENAME COLUMN {column.name} TO {name}")
        except DeclarationError as error:
            assert self.users(column.id), error
            self.coverage["rename column refused"] += 1
            return
        assert not self.users(column.id)
        column.name = name
        self.coverage["rename column"] += 1

    def set_default(self) -> None:
        column = self.random.choice(self.columns)
        if column.id:
            column.default = self.random.choice(VALUES[column.type])
            self.db.sql(f"ALTER TABLE t ALTER COLUMN {column.name} SET DEFAULT {literal(column.default)}")
            self.coverage["set default"] += 1

    def create_view(self) -> None:
        if len(self.views) > 4:
            return
        name, ids = f"v{len(self.views)}_{self.random.randrange(10_000)}", [column.id for column in self.columns]
        column = self.random.choice(self.columns)
        made = sum(often for what, often in self.coverage.items() if what.startswith("view:"))
        kind = ("star", "some", "groups", "join", "union")[made % 5]
        other = column.name
        text, shown, used = {
            "star": ("SELECT * FROM t", ids, ids),
            "some": (f"SELECT id, {other} AS x FROM t", [0, column.id], [0, column.id]),
            "groups": (f"SELECT {other} AS x, count(*) AS n FROM t GROUP BY {other}", [column.id], [column.id]),
            "join": ("SELECT l.*, r.id AS rid FROM t AS l JOIN t AS r ON l.id = r.id + 1", ids, ids),
            "union": (f"SELECT id AS x FROM t UNION ALL SELECT {self.columns[-1].id} AS x FROM t WHERE {other} IS NULL",
                      [0, column.id], [0, column.id]),
        }[kind]  # fmt: skip
        self.db.sql(f"CREATE VIEW {name} AS {text}")
        self.views.append(ModelView(name, kind, list(shown), set(used)))
        self.views[-1].shown += [self.columns[-1].id] * (kind == "union")
        self.coverage[f"view: {kind}"] += 1

    def drop_view(self) -> None:
        if self.views:
            view = self.views.pop(self.random.randrange(len(self.views)))
            self.db.sql(f"DROP VIEW {view.name}")

    def make_index(self) -> None:
        if self.index is None:
            column = self.random.choice(self.columns)
            self.db.sql(f"CREATE INDEX by_it ON t ({column.name})")
            self.index = column.id
        else:
            self.db.sql("DROP INDEX by_it")
            self.index = None

    def maintain(self) -> None:
        catch_up(self.db)
        self.coverage["maintain"] += 1
        assert self.shown(self.db) == self.expected()
        if self.index is not None:
            column = next(each for each in self.columns if each.id == self.index)
            for value in VALUES[column.type]:
                found = Counter(tuple(row.items()) for row in self.db.table("t").get(value, index="by_it"))
                assert found == Counter(tuple((c.name, row[c.id]) for c in self.columns)
                                        for row in self.rows.values() if row[column.id] == value)  # fmt: skip

    def merge(self) -> None:
        """Brings everything in, a few operations a batch, and merges all there is to merge."""
        store = EmbeddedStore(self.root / "db", durability="process")
        driver = Maintainer(term_of(self.root / "db", 5.0), Logs.of(store), LocalExecutor(), self.random.randint(5, 40))
        ends, ids = store.ends(), unfilled(driver.term.snapshot.catalog)
        while not caught_up(driver.term.snapshot, ends, ids):
            if not driver.step():
                driver.wait()
        while driver.merging.step(driver.term, idle=True, barriers=[]):
            driver.wait()
        driver.close()
        store.close()
        assert self.shown(self.db) == self.expected()
        self.coverage["merge"] += 1

    def reopen(self) -> None:
        which = self.random.randrange(2)
        if which == 0:
            self.dbs[0].close()
            self.dbs[0] = self.open()

    def hold(self) -> None:
        """A snapshot that is read again and again, whatever comes behind it."""
        catch_up(self.db)
        if len(self.held) < 3:
            self.held.append((self.db.snapshot(), self.expected()))
        for snapshot, expected in self.held:
            assert self.shown(snapshot, expected) == expected
        self.coverage["snapshot of before"] += len(self.held) > 1

    # What is to be seen

    def shown(self, source: Any, names: Iterable[str] | None = None) -> dict[str, Counter[Any]]:
        wanted = ["t", *(view.name for view in self.views)] if names is None else names
        return {name: Counter(tuple(row.values()) for row in source.sql(f"SELECT * FROM {name}")) for name in wanted}

    def expected(self) -> dict[str, Counter[Any]]:
        rows = list(self.rows.values())
        found = {"t": Counter(tuple(row[c.id] for c in self.columns) for row in rows)}
        for view in self.views:
            found[view.name] = self.answer(view, rows)
        return found

    def answer(self, view: ModelView, rows: list[dict[int, Any]]) -> Counter[Any]:
        if view.kind == "groups":
            return Counter(Counter(row[view.shown[0]] for row in rows).items())
        if view.kind == "union":
            first, column, constant = view.shown
            return Counter([(row[first],) for row in rows] + [(constant,) for row in rows if row[column] is None])
        shown = [(row[0], tuple(row[id_] for id_ in view.shown)) for row in rows]
        if view.kind == "join":
            return Counter((*left, row[0]) for id_, left in shown for row in rows if id_ == row[0] + 1)
        return Counter(row for _, row in shown)

    def require_right(self, judge: Judge | None) -> None:
        """DELTA is what store and log say, each view what its query does."""
        names = [view.name for view in self.views]
        with self.dbs[0]._newest.held() as version:
            reports = check_views(DatabaseEvidence(version, self.dbs[0]._logs), names, judge)
        assert all(report.ok for report in reports), [str(report) for report in reports]


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)
