"""The demo: a whole small run, what Ctrl-C leaves, and that its made-up business is consistent."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pytest
from rich.console import Console

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import demo
from viewkeeper.demo import stores, streams
from viewkeeper.demo.changes import OrderBook, OrderChange
from viewkeeper.demo.outcome import DemoOutcome, ViewOutcome, show
from viewkeeper.demo.process import Process
from viewkeeper.demo.streams.network import Network
from viewkeeper.demo.tpch import SCHEMA, generate
from viewkeeper.demo.views import INDEX, VIEWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def apply(orders: set[int], items: set[tuple[int, int]], change: OrderChange) -> None:
    """What the tables' keys are after `change`."""
    if len(change.orders):
        orders.update(change.orders["o_orderkey"].to_pylist())
        items.update(zip(*(change.lines[name].to_pylist() for name in ("l_orderkey", "l_linenumber")), strict=True))
    assert orders.issuperset(change.cancelled_orders) and items.issuperset(change.cancelled_lines)
    orders.difference_update(change.cancelled_orders)
    items.difference_update(change.cancelled_lines)


def test_every_order_has_line_items_and_every_line_item_an_order() -> None:
    """Whatever comes in, changes or goes, no line item is without its order, no order without line items."""
    book = OrderBook(np.array([1, 5, 7]), np.array([2, 1, 3]), customers=10, parts=10, seed=3)
    orders, items = {1, 5, 7}, {(1, 1), (1, 2), (5, 1), (7, 1), (7, 2), (7, 3)}
    for _ in range(50):
        for make in (OrderBook.receive, OrderBook.amend, OrderBook.cancel):
            apply(orders, items, make(book, 4))
            assert {order for order, _ in items} == orders


def test_nothing_is_cancelled_where_there_is_nothing() -> None:
    """An order book without orders has none to change or to cancel."""
    book = OrderBook(np.array([1]), np.array([1]), customers=10, parts=10, seed=3)
    assert book.cancel(100).cancelled_orders == [1]
    assert not book.cancel(100).cancelled_orders
    assert not len(book.amend(100).orders)


def test_the_writer_ends_when_its_parent_is_gone(tmp_path: Path) -> None:
    """A process of the demo ends, without an error, when its standard input does."""
    with viewkeeper.connect(tmp_path / "shop", durability="process") as db:
        db.sql(SCHEMA)
        db.table("customer").put({"c_custkey": 1})
        db.table("part").put({"p_partkey": 1})
        db.table("orders").put({"o_orderkey": 1, "o_custkey": 1})
        db.table("lineitem").put({"l_orderkey": 1, "l_linenumber": 1})
        catch_up(db)
    with Process("writer", tmp_path / "shop", "1000") as writer:
        writer.wait_until_ready()
        assert writer.stop()["operations"] >= 0


def test_a_folder_that_is_taken_is_refused(tmp_path: Path) -> None:
    """The demo writes over nobody's files."""
    (tmp_path / "tpch").mkdir()
    with pytest.raises(viewkeeper.Error, match="is there already"):
        demo.run(folder=tmp_path, scale=0.001, seconds=1, as_json=True)


def test_where_nothing_makes_its_data_it_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data generator is no part of what everyone installs."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(viewkeeper.Error, match=re.escape("pip install 'viewkeeper[demo]'")):
        generate(0.001, tmp_path)


def test_a_wrong_view_is_named_and_fails_the_run() -> None:
    """Where a view is not Spark's answer, the outcome is not well, and its story says which view it is."""
    views = [ViewOutcome("fine", "sum", 3, "right", 0.5), ViewOutcome("broken", "join", 4, "wrong", 0.7)]
    writer = {"received": 1, "amended": 2, "cancelled": 3}
    reader = {"reads": 5, "read_us_p50": 8.0, "read_us_p99": 90.0, "own_writes": 2, "fresh_s_p50": 0.2,
              "fresh_s_max": 0.4, "agreed": 2}  # fmt: skip
    outcome = DemoOutcome(0.1, 866_602, 60.0, 300_000, 250, 0.7, 9.0, 120.0, writer, reader, views)
    console = Console(width=80, record=True, file=io.StringIO())
    show(console, outcome)
    assert not outcome.ok and not json.loads(outcome.to_json())["ok"]
    assert "Not what Spark computes from the base tables: broken." in console.export_text()


@pytest.mark.spark
def test_a_small_run_finds_every_view_right(
    tmp_path: Path, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    """The demo loads, maintains, reads and checks; its views are right, and its database stays where it was told."""
    assert demo.run(folder=tmp_path, scale=0.001, seconds=2, as_json=True)
    told = json.loads(capfd.readouterr().out)
    assert told["ok"] and {view["name"] for view in told["views"]} == {view.name for view in VIEWS}
    assert told["operations"] >= told["writer"]["operations"] > 0
    assert told["reader"]["reads"] > 0 and told["reader"]["own_writes"] == told["reader"]["agreed"] > 0
    with viewkeeper.connect(tmp_path / "tpch") as db:
        orders = db.view("customer_spend").get(0)["orders"]
        assert orders == len(db.table("orders").get(0, index=INDEX)) == told["reader"]["own_writes"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_small_run_of_streams_finds_every_part_right(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measurements come, some late; views are built and repaired, and all their parts are what Spark computes."""
    monkeypatch.setattr(streams, "SECONDS_A_MINUTE", 0.25)
    assert streams.run(folder=tmp_path, scale=0.02, seconds=5, as_json=True)
    told = json.loads(capfd.readouterr().out)
    views = {view["name"]: view for view in told["views"]}
    assert told["ok"] and set(views) == {view.name for view in streams.VIEWS}
    assert told["late_rows"] > 0 and views["site_loss"]["repaired"] > 0
    # the part that was open when the feeder began, and one a minute
    assert views["high_loss"]["built"] == told["minutes"] + 1 > 1
    with viewkeeper.connect(tmp_path / "streams") as db:
        assert len(list(db.view("outages").rows())) == views["outages"]["rows"] > 0


@pytest.mark.stores
@pytest.mark.usefixtures("spark")
def test_a_small_run_of_stores_has_the_rows_of_three_in_a_fourth(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Orders come to Cassandra, products to Kafka, customers here; Redis has what their own clients' rows give."""
    assert stores.run(folder=tmp_path, scale=0.02, seconds=5, as_json=True)
    told = json.loads(capfd.readouterr().out)
    assert told["ok"] and told["rows"] > len(stores.shop.NATIONS)
    assert min(told["written"].values()) > 0


def test_measurements_are_the_same_each_time_and_none_is_lost() -> None:
    """Whoever makes the network again goes on where the history ended; a silent host's rows come late, once."""
    one, other = Network(100), Network(100)
    assert one.history().equals(other.history())
    minutes = [one.next() for _ in range(20)]
    assert all(minute.rows.equals(again.rows) and minute.late.equals(again.late)
               for minute, again in zip(minutes, (other.next() for _ in range(20)), strict=True))  # fmt: skip
    rows = sum(len(minute.rows) + len(minute.late) for minute in minutes)
    assert rows == 20 * one.pairs and any(len(minute.late) for minute in minutes)


@pytest.mark.spark
def test_ctrl_c_leaves_neither_files_nor_processes(tmp_path: Path) -> None:
    """Interrupted while orders change, the demo ends all its processes and deletes all its files."""
    command = [str(Path(sys.executable).with_name("viewkeeper")), "demo", "--scale", "0.001", "--seconds", "600"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    # Where the tests run in the background of a shell, Ctrl-C is ignored, by their children too.
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
    assert running.stdout is not None
    for line in running.stdout:
        if "operations in the views" in line:
            break
    children = psutil.Process(running.pid).children(recursive=True)
    assert len(children) >= 3, "the writer, the reader, Java"
    os.kill(running.pid, signal.SIGINT)
    rest = running.stdout.read()
    assert running.wait(60) == 128 + signal.SIGINT
    assert "Nothing is left behind" in rest
    assert psutil.wait_procs(children, timeout=20)[1] == []
    assert [path.name for path in tmp_path.iterdir() if path.name != "hsperfdata_root"] == []
