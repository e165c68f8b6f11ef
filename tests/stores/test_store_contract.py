"""The contract of `stores.contract`: every store passes these, less what its traits leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import examples
from memory_store import MemoryStore
from store_model import (
    BAG,
    ORDERS,
    PAIRS,
    Model,
    apply_put,
    as_dicts,
    in_order,
    make_table,
    read_all,
    read_range,
    replay,
    stored_rows,
)
from viewkeeper.catalog.types import BIGINT, DOUBLE, STRING
from viewkeeper.changes.positions import Token
from viewkeeper.errors import InputError
from viewkeeper.stores.contract import Store
from viewkeeper.stores.embedded import EmbeddedStore

FACTORIES: dict[str, Callable[[Path], Store]] = {
    "embedded, 2 nodes": lambda folder: EmbeddedStore(folder, nodes=2, durability="process"),
    "embedded, 3 nodes, synced": lambda folder: EmbeddedStore(folder, nodes=3, durability="sync"),
    "in memory": lambda folder: MemoryStore(),
}

SMALL = st.integers(0, 3)
TEXT = st.sampled_from(["", "a", "ab", "é", "\0"])
PUT = st.fixed_dictionaries(
    {"id": SMALL}, optional={"customer": st.none() | SMALL, "note": st.none() | TEXT, "n": SMALL}
)
STEP = st.one_of(
    st.tuples(st.just("put"), PUT),
    st.tuples(st.just("put_many"), st.lists(PUT, max_size=6)),
    st.tuples(st.just("delete"), SMALL),
    st.tuples(st.just("delete_many"), st.lists(SMALL, max_size=4)),
    st.tuples(st.just("clear"), st.tuples(SMALL, st.sampled_from([["note"], ["NOTE", "customer"]]))),
)


@pytest.fixture(params=FACTORIES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = FACTORIES[request.param](tmp_path / "store")
    yield made
    made.close()


def step(store: Store, model: Model, kind: str, given_: Any) -> None:
    """One step on the store and on the model; both refuse, or neither."""
    after, refused = dict(model), False
    try:
        if kind in ("put", "put_many"):
            for row in [given_] if kind == "put" else given_:
                apply_put(after, ORDERS, row)
        elif kind in ("delete", "delete_many"):
            for key in [given_] if kind == "delete" else given_:
                after.pop((key,), None)
        elif (given_[0],) in after:
            after[(given_[0],)] = {**after[(given_[0],)], **{name.lower(): None for name in given_[1]}}
    except InputError:
        refused = True
    if refused and not store.traits.refuses_in_transaction:
        return
    call = (lambda: store.delete(ORDERS, *given_)) if kind == "clear" else lambda: getattr(store, kind)(ORDERS, given_)
    if refused:
        with pytest.raises(InputError, match="column n, which is NOT NULL"):
            call()
    else:
        call()
        model.clear()
        model.update(after)


class TestRows:
    """When a row exists, and what is in it."""

    @settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(steps=st.lists(STEP, max_size=15))
    def test_any_history_gives_the_models_rows_and_its_log_replays_to_them(
        self, store: Store, steps: list[Any]
    ) -> None:
        """After every step get, scan and the log replayed by plain code agree with a dictionary."""
        store.delete_many(ORDERS, range(4))
        start, model = store.ends(), {}
        for kind, given_ in steps:
            step(store, model, kind, given_)
            assert all(store.get(ORDERS, key) == model.get((key,)) for key in range(4))
        assert in_order(stored_rows(store, ORDERS)) == in_order(model.values())
        assert replay(ORDERS, read_all(store, ORDERS, after=start)) == model

    def test_a_put_of_the_key_alone_makes_a_row(self, store: Store) -> None:
        """A row exists from the first put of its key, all else NULL; keys are in the declared key's order."""
        store.put(PAIRS, {"b": "x", "a": 1})
        assert store.get(PAIRS, (1, "x")) == {"b": "x", "v": None, "a": 1} and store.get(PAIRS, (2, "x")) is None

    def test_a_put_after_a_delete_starts_from_an_empty_row(self, store: Store) -> None:
        """A deleted row's values do not come back (traps G83, I117)."""
        store.put(ORDERS, {"id": 1, "customer": 3, "n": 1})
        store.delete(ORDERS, 1)
        store.put(ORDERS, {"id": 1, "n": 2})
        assert store.get(ORDERS, 1) == {"id": 1, "customer": None, "note": None, "n": 2}

    def test_columns_that_a_put_does_not_name_keep_their_values(self, store: Store) -> None:
        """A partial put leaves a large value alone, and the log does not claim to set it (traps G79, G81)."""
        store.put(ORDERS, {"id": 1, "note": "x" * 10_000, "n": 1})
        token = store.put(ORDERS, {"id": 1, "n": 2})
        assert store.get(ORDERS, 1) == {"id": 1, "customer": None, "note": "x" * 10_000, "n": 2}
        last = as_dicts(ORDERS, read_all(store, ORDERS))[-1]
        assert last["values"]["note"] is None and last["set"] == bytes([0b1001]) and token.covered_by(store.ends())

    def test_equal_writes_are_as_many_operations(self, store: Store) -> None:
        """Two rows of one call never share a sequence, and a repeated write is one more (traps G75, G77)."""
        store.put_many(ORDERS, [{"id": 1, "n": 2}, {"id": 3, "n": 4}])
        store.put_many(ORDERS, [{"id": 1, "n": 2}, {"id": 3, "n": 4}])
        placed = [(row["node"], row["sequence"]) for row in as_dicts(ORDERS, read_all(store, ORDERS))]
        assert len(set(placed)) == 4 and len(stored_rows(store, ORDERS)) == 2

    def test_a_row_inserted_and_changed_in_one_call_has_the_later_value(self, store: Store) -> None:
        """Later operations of one call win, in order, column by column (trap E59)."""
        store.put_many(
            ORDERS, [{"id": 1, "n": 1, "note": "a"}, {"id": 1, "n": 2}, {"id": 1, "customer": 5, "note": None}]
        )
        assert store.get(ORDERS, 1) == {"id": 1, "customer": 5, "note": None, "n": 2}

    def test_deleting_all_keys_empties_the_table(self, store: Store) -> None:
        """What stands for TRUNCATE leaves no row (trap G87), and one large delete is one call (trap I115)."""
        store.put_many(ORDERS, [{"id": i, "n": i} for i in range(3000)])
        store.delete_many(ORDERS, range(3000))
        assert stored_rows(store, ORDERS) == [] and replay(ORDERS, read_all(store, ORDERS)) == {}

    def test_deleting_columns_of_a_row_that_is_not_there_does_nothing(self, store: Store) -> None:
        store.delete(ORDERS, 9, columns=["note"])
        assert store.get(ORDERS, 9) is None and replay(ORDERS, read_all(store, ORDERS)) == {}

    @pytest.mark.parametrize("column", ["id", "n"])
    def test_a_column_that_cannot_be_null_cannot_be_deleted(self, store: Store, column: str) -> None:
        store.put(ORDERS, {"id": 1, "n": 1})
        with pytest.raises(InputError, match=column):
            store.delete(ORDERS, 1, columns=[column])
        assert store.get(ORDERS, 1) == {"id": 1, "customer": None, "note": None, "n": 1}

    def test_composite_keys_do_not_run_together(self, store: Store) -> None:
        """('d4', '12') and ('d41', '2') are two keys (trap I123)."""
        table = make_table(30, "t", [("p", STRING), ("q", STRING), ("v", BIGINT)], "p q")
        store.put_many(table, [{"p": "d4", "q": "12", "v": 1}, {"p": "d41", "q": "2", "v": 2}])
        store.put(table, {"p": "d41", "q": "2", "v": 3})
        assert store.get(table, ("d4", "12")) == {"p": "d4", "q": "12", "v": 1}
        assert store.get(table, ("d41", "2")) == {"p": "d41", "q": "2", "v": 3}

    def test_signed_zeros_and_nans_are_one_key_each(self, store: Store) -> None:
        """Keys are canonical in rows and log alike (trap C43)."""
        table = make_table(31, "t", [("x", DOUBLE), ("v", BIGINT)], "x")
        nans = [float("nan"), -float("nan")]
        store.put_many(table, [{"x": x, "v": i} for i, x in enumerate([0.0, -0.0, *nans])])
        store.put(table, {"x": -0.0, "v": 7})
        assert store.get(table, 0.0) == store.get(table, -0.0) == {"x": 0.0, "v": 7}
        assert store.get(table, nans[0])["v"] == 3 and len(stored_rows(store, table)) == 2
        assert {str(row["values"]["x"]) for row in as_dicts(table, read_all(store, table))} == {"0.0", "nan"}

    def test_names_are_taken_in_any_case(self, store: Store) -> None:
        store.put(ORDERS, {"ID": 1, "Customer": 2, "n": 3})
        store.put_many(ORDERS, [{"iD": 1, "NOTE": "x"}])
        assert store.get(ORDERS, 1) == {"id": 1, "customer": 2, "note": "x", "n": 3}


class TestManyRows:
    """All forms in which many rows are given."""

    ROWS = ({"id": 1, "customer": 2, "note": "x", "n": 3}, {"id": 4, "customer": None, "note": None, "n": 5})

    @pytest.mark.parametrize(
        "form",
        [list, iter, lambda rows: pa.Table.from_pylist(list(rows)), lambda rows: pa.RecordBatch.from_pylist(list(rows)),
         lambda rows: pa.Table.from_pylist(list(rows)).to_reader(), lambda rows: pd.DataFrame(list(rows))],
        ids=["list", "iterator", "Arrow table", "Arrow batch", "Arrow reader", "pandas"],
    )  # fmt: skip
    def test_all_forms_give_the_same_rows(self, store: Store, form: Callable[[Any], Any]) -> None:
        token = store.put_many(ORDERS, form(self.ROWS))
        assert in_order(stored_rows(store, ORDERS)) == in_order(self.ROWS)
        assert token.covered_by(store.ends()) and replay(ORDERS, read_all(store, ORDERS)).keys() == {(1,), (4,)}

    def test_no_rows_write_nothing(self, store: Store) -> None:
        assert store.put_many(ORDERS, []) == Token() and set(store.ends().values()) == {0}

    @pytest.mark.parametrize("bad", [{"n": "x"}, {"n": None}, {"id": None}, {"nn": 1}, {"n": 2**31}])
    def test_one_bad_row_refuses_the_whole_call_and_names_it(self, store: Store, bad: dict[str, Any]) -> None:
        rows = [{"id": i, "n": i} for i in range(10)]
        rows[7] |= bad
        with pytest.raises(InputError, match=r"rows\[7\].*(column n|column id|'nn')"):
            store.put_many(ORDERS, rows)
        assert stored_rows(store, ORDERS) == [] and set(store.ends().values()) == {0}

    def test_a_key_over_the_limit_is_refused_with_the_limit(self, store: Store) -> None:
        """A long key is a clear error, and nothing else stops (trap I113)."""
        table = make_table(32, "t", [("k", STRING), ("v", BIGINT)], "k")
        longer = "x" * (store.traits.key_bytes_max + 1)
        for call in (
            lambda: store.put(table, {"k": longer}),
            lambda: store.put_many(table, [{"k": "a"}, {"k": longer}]),
        ):
            with pytest.raises(InputError, match=str(store.traits.key_bytes_max)):
                call()
        store.put(table, {"k": "x" * (store.traits.key_bytes_max - 4)})
        assert len(stored_rows(store, table)) == 1


def refuses_bags(store: Store) -> bool:
    """Whether the store keeps no tables without a key; then it must say so."""
    if not store.traits.keyless_tables:
        with pytest.raises(InputError, match="primary key"):
            store.put(BAG, {"x": 1})
    return not store.traits.keyless_tables


class TestWithoutKey:
    """Tables without a primary key are bags."""

    @settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(st.tuples(st.booleans(), st.none() | st.integers(0, 2), st.none() | TEXT), max_size=20))
    def test_any_history_gives_the_models_bag(self, store: Store, steps: list[tuple[bool, Any, Any]]) -> None:
        """Equal rows are kept as often as put; delete takes one of them, and says False where there is none."""
        if refuses_bags(store):
            return
        for row in stored_rows(store, BAG):
            store.delete(BAG, row)
        bag: list[dict[str, Any]] = []
        for put, x, s in steps:
            row = {"x": x, "s": s}
            if put:
                store.put(BAG, row)
                bag.append(row)
            else:
                assert bool(store.delete(BAG, row)) == (row in bag)
                if row in bag:
                    bag.remove(row)
        assert in_order(stored_rows(store, BAG)) == in_order(bag)
        assert in_order(replay(BAG, read_all(store, BAG)).values()) == in_order(bag)

    def test_many_rows_get_ids_of_their_own(self, store: Store) -> None:
        if refuses_bags(store):
            return
        store.put_many(BAG, [{"x": i % 3} for i in range(1000)])
        ids = [row["row id"] for row in as_dicts(BAG, read_all(store, BAG))]
        assert len(set(ids)) == 1000 and len(stored_rows(store, BAG)) == 1000

    def test_reading_by_key_is_refused(self, store: Store) -> None:
        with pytest.raises(InputError, match="no primary key"):
            store.get(BAG, 1)


class TestPositions:
    """Sequences, cuts, tokens, trimming."""

    def test_sequences_are_dense_and_count_operations(self, store: Store) -> None:
        for i in range(20):
            store.put_many(ORDERS, [{"id": j, "n": j} for j in range(i)])
        operations = as_dicts(ORDERS, read_all(store, ORDERS))
        for node, end in store.ends().items():
            assert sorted(row["sequence"] for row in operations if row["node"] == node) == list(range(1, end + 1))

    def test_a_batch_after_batch_reads_everything_once(self, store: Store) -> None:
        """Following cuts to the end gives each operation exactly once, whatever the limit."""
        for i in range(30):
            store.put_many(ORDERS, [{"id": j, "n": i} for j in range(i)])
        for limit in (1, 17, 200, 10_000):
            positions: dict[int, int] = {}
            seen = 0
            while (cut := store.log.cut(limit, positions)).operations:
                seen += cut.operations
                assert all(cut.positions[node] >= at for node, at in positions.items())
                assert cut.backlog == (cut.positions != store.ends())
                positions = cut.positions
            assert seen == sum(range(30)) and positions == store.ends()

    def test_scan_agrees_with_its_positions(self, store: Store) -> None:
        """Rows and positions of a scan are of one moment: the log up to there replays to just those rows."""
        store.put_many(ORDERS, [{"id": i, "n": i} for i in range(100)])
        with store.scan(ORDERS) as scan:
            store.put_many(ORDERS, [{"id": i, "n": -1} for i in range(50, 150)])
            rows = [row for batch in scan.batches for row in batch.to_pylist()]
        upto = [read_range(store, node, 0, end, {ORDERS.id: ORDERS}) for node, end in scan.positions.items()]
        assert in_order(rows) == in_order(replay(ORDERS, [o for batch in upto for o in batch.operations]).values())

    def test_trimming_keeps_what_is_behind_the_positions_and_the_numbering(self, store: Store) -> None:
        for i in range(100):
            store.put(ORDERS, {"id": i, "n": i})
        cut = store.log.cut(60, {})
        assert store.log.forget(cut.positions, older_than_seconds=3600) == 0
        assert store.log.forget(cut.positions, older_than_seconds=-1) > 0
        rest = as_dicts(ORDERS, read_all(store, ORDERS, after=cut.positions))
        assert len(rest) == 100 - cut.operations
        ends = store.ends()
        store.log.forget(ends, older_than_seconds=-1)
        token = store.put(ORDERS, {"id": 1, "n": 0})
        assert store.ends() == {**ends, **token.positions} and all(
            token.positions[n] == ends[n] + 1 for n in token.positions
        )

    def test_operations_of_tables_that_are_not_declared_are_counted(self, store: Store) -> None:
        store.put_many(ORDERS, [{"id": i, "n": i} for i in range(10)])
        store.put(PAIRS, {"a": 1, "b": "x"})
        batches = [read_range(store, node, 0, end, {PAIRS.id: PAIRS}) for node, end in store.ends().items()]
        assert sum(batch.skipped.get(ORDERS.id, 0) for batch in batches) == 10
        assert sum(len(rows) for batch in batches for _, rows in batch.operations) == 1

    def test_tokens_merge_and_travel_as_text(self) -> None:
        a, b = Token({0: 5, 1: 2}), Token({1: 7, 2: 1})
        assert a | b == Token({0: 5, 1: 7, 2: 1}) and Token.parse(str(a | b)) == a | b
        assert a.covered_by({0: 5, 1: 3}) and not a.covered_by({0: 4, 1: 3}) and Token().covered_by({})
        with pytest.raises(InputError, match="not a token"):
            Token.parse("0:x")
