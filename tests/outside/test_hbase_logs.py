"""Files of write-ahead logs and the cells in them, without a server."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from folded_cells import FoldedCells
from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.catalog.operation_kinds import UPDATE
from viewkeeper.changes.operations import TableForm
from viewkeeper.changes.positions import logs_of
from viewkeeper.errors import LogLost
from viewkeeper.pipeline.declare_script import run
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.logs import require_no_less
from viewkeeper.stores.outside.contract import LogEnds, PartRange, ReadPart
from viewkeeper.stores.outside.hbase import wal_files
from viewkeeper.stores.outside.hbase.description import Family, newest_description, read_families
from viewkeeper.stores.outside.hbase.hbase_table import HBaseTable
from viewkeeper.stores.outside.hbase.log_cells import CellDecoder, NoFollowing
from viewkeeper.stores.outside.hbase.mapping import CellMapping
from viewkeeper.stores.outside.hbase.wal import Entries, LogUnreadable, first_entry, walk, without_trailer
from viewkeeper.stores.outside.hbase.wal_files import CLOSED, LogFileGone, LogFiles, position
from wal_bytes import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_FAMILY_VERSION,
    DELETE_VERSION,
    TRAILER,
    Cell,
    entry,
    header,
    message,
)

START = 1_700_000_000_000
SERVER = f"host.example,16020,{START}"
COLUMNS = "(id BIGINT, customer INT, price DECIMAL(15,2), note STRING, PRIMARY KEY (id))"
OPTIONS = {"key": "long", "columns": "customer=f:customer:int, price=f:price:text, note=g:note:text"}


def put(id_: int, qualifier: str, value: bytes, stamp: int = 1, family: bytes = b"f") -> Cell:
    return Cell(id_.to_bytes(8, "big"), family, qualifier.encode(), stamp, value)


def walked(data: bytes, table: bytes | None = b"t", at: int | None = None) -> tuple[Entries, int]:
    found = Entries()
    begin = first_entry(data) if at is None else at
    assert begin is not None
    return found, walk(data, begin, table, found)


def test_a_file_is_read_entry_by_entry_up_to_what_is_whole() -> None:
    cells = [put(1, "customer", b"\0\0\0\1"), put(2, "customer", b"\0\0\0\2")]
    first, second, last = entry(b"t", 7, cells), entry(b"other", 8, cells[:1]), entry(b"t", 300, cells[1:], 5)
    data = header() + first + second + last
    whole, end = walked(data)
    assert end == len(data)
    assert (whole.sequences, whole.times, whole.counts) == ([7, 300], [1_700_000_000_000, 5], [2, 1])
    assert whole.ends == [len(header() + first), len(data)]
    for length in range(len(header()), len(data)):
        found, end = walked(data[:length])
        whole_ones = [each for each in (len(header()), *np.cumsum([len(header()), len(first), len(second)])[1:])
                      if each <= length]  # fmt: skip
        assert end == whole_ones[-1]
        assert found.cells == whole.cells[: len(found.cells)] and sum(found.counts) == len(found.cells)
    assert walked(data, None)[0].cells == []
    assert walked(data, b"no")[1] == len(data)


def test_a_header_that_is_not_there_yet_is_waited_for() -> None:
    whole = header()
    for length in range(len(whole)):
        assert first_entry(whole[:length]) is None
    assert first_entry(whole) == first_entry(whole + b"more") == len(whole)


@pytest.mark.parametrize(("head", "why"), [
    (b"SEQ\6abcd", "not as a write-ahead log"),
    (header((1, 1)), "compressed"), (header((2, b"key")), "encrypted"), (header((6, 1)), "compressed"),
    (header((5, b"org.apache.hadoop.hbase.regionserver.wal.SecureWALCellCodec")), "SecureWALCellCodec"),
])  # fmt: skip
def test_what_is_not_written_plainly_is_refused_by_name(head: bytes, why: str) -> None:
    with pytest.raises(LogUnreadable, match=why):
        first_entry(head)


def test_fields_that_nobody_knows_are_passed_over() -> None:
    more: Sequence[tuple[int, int | bytes]] = [(8, b"cluster"), (9, 5), (10, 1 << 60), (12, b"x" * 300), (4000, 3)]
    head = header((1, 0), (5, b"org.apache.hadoop.hbase.regionserver.wal.WALCellCodec"), (99, b"new"), (100, 1))
    fixed = message((3, 5)) + bytes([9 << 3 | 1]) + b"8 bytes." + bytes([10 << 3 | 5]) + b"four"
    key = message((2, b"t")) + fixed + message((7, 0))
    found, end = walked(data := head + entry(b"t", 1, [put(1, "a", b"b")], more=more) + bytes([len(key)]) + key)
    assert end == len(data) and found.counts == [1, 0] and found.sequences == [1, 5]


def test_a_trailer_is_no_entry() -> None:
    data = header() + entry(b"t", 1, [put(1, "a", b"b")])
    assert walked(data + TRAILER)[1] == len(data)
    assert without_trailer((data + TRAILER)[-8:], len(data) + 8) == len(data)
    assert without_trailer(b"\0\0\0\3LAWP", len(data) + 11) == len(data)
    assert without_trailer(data[-8:], len(data)) == len(data)
    assert without_trailer(b"\x7f\0\0\0LAWP", 100) == 100
    assert without_trailer(b"PWAL", 4) == 4


def test_a_broken_cell_is_told() -> None:
    broken = bytearray(entry(b"t", 1, [put(1, "a", b"b")]))
    at = len(broken) - len(b"b") - 9 - 1 - 1 - 1 - 8 - 2 - 8 - 4
    broken[at : at + 4] = (5).to_bytes(4, "big")
    with pytest.raises(LogUnreadable, match="a cell of 5 bytes"):
        walked(header() + broken)


def declared(columns: str, options: dict[str, str]) -> Table:
    given = {"thrift": "localhost:1", "wal": "file:///x", "table": "t", **options}
    listed = ", ".join(f"{name} '{value}'" for name, value in given.items())
    table = run(Catalog(), f"CREATE TABLE t {columns} USING hbase OPTIONS ({listed})").catalog.find("t")
    assert isinstance(table, Table)
    return table


class Decoding:
    """Reads entries for a table that is declared with `columns` and `options`."""

    def __init__(self, columns: str = COLUMNS, options: dict[str, str] = OPTIONS, versions: int = 1) -> None:
        self.form = TableForm(declared(columns, options))
        intake = TableIntake(self.form, "UTC")
        self.decoder = CellDecoder(intake, CellMapping(intake, options), lambda family: versions)

    def read(self, *entries: bytes) -> ReadPart:
        found = ReadPart()
        data = header() + b"".join(entries)
        self.decoder.read(data, walked(data)[0], found)
        return found

    def rows(self, *entries: bytes) -> dict[int, tuple[object, ...]]:
        found = self.read(*entries)
        assert not found.bad
        folded = FoldedCells(self.form)
        folded.add(found.operations)
        return {key[0]: tuple(row.values()) for key, row in folded.rows.items()}


def test_cells_become_rows() -> None:
    five = (5).to_bytes(4, "big", signed=True)
    rows = Decoding().rows(
        entry(b"t", 1, [put(1, "customer", five), put(1, "price", b"19.9"), put(1, "note", "é".encode(), 1, b"g"),
                        put(2, "customer", five), put(2, "other", b"!"), put(3, "other", b"!"),
                        put(-1 & (1 << 64) - 1, "price", b"-1")]),
        entry(b"t", 2, [put(1, "price", b"20.00", 2), put(2, "price", b"1", 0)]),
        entry(b"t", 3, [put(1, "price", b"21.00", 1)]),
    )  # fmt: skip
    assert rows == {1: (5, Decimal("20.00"), "é"), 2: (5, Decimal("1.00"), None), -1: (None, Decimal("-1.00"), None)}


def test_of_cells_with_one_timestamp_the_later_counts_and_deletes_before_all() -> None:
    decoding = Decoding()
    twice = entry(b"t", 5, [put(1, "price", b"1"), put(1, "price", b"2"), put(2, "price", b"7"), put(1, "price", b"3")])
    assert decoding.rows(twice) == {1: (None, Decimal(3), None), 2: (None, Decimal(7), None)}
    earlier = entry(b"t", 4, [put(1, "price", b"9"), put(2, "price", b"9")])
    assert decoding.rows(twice, earlier) == decoding.rows(earlier, twice) == decoding.rows(twice)
    gone = entry(b"t", 3, [put(1, "price", b"", 1)._replace(type=DELETE_COLUMN)])
    assert decoding.rows(twice, gone) == decoding.rows(gone, twice) == {2: (None, Decimal(7), None)}


def test_families_columns_and_versions_are_deleted_as_hbase_means_it() -> None:
    decoding = Decoding()
    given = entry(
        b"t", 1, [put(1, "price", b"1", 5), put(1, "customer", b"\0\0\0\7", 6), put(1, "note", b"x", 7, b"g")]
    )

    def after(type_: int, stamp: int, family: bytes = b"f", qualifier: bytes = b"") -> tuple[object, ...] | None:
        gone = Cell((1).to_bytes(8, "big"), family, qualifier, stamp, b"", type_)
        return decoding.rows(given, entry(b"t", 2, [gone])).get(1)

    assert after(DELETE_FAMILY, 5) == (7, None, "x")
    assert after(DELETE_FAMILY, 6) == (None, None, "x")
    assert after(DELETE_FAMILY, 9, b"g") == (7, Decimal(1), None)
    assert after(DELETE_FAMILY, 9, b"h") == after(DELETE_FAMILY, 4) == (7, Decimal(1), "x")
    assert after(DELETE_COLUMN, 6, b"f", b"customer") == (None, Decimal(1), "x")
    assert after(DELETE_COLUMN, 6, b"f", b"customers") == (7, Decimal(1), "x")
    assert after(DELETE_VERSION, 5, b"f", b"price") == (7, None, "x")
    both = [put(1, "", b"", 9, family)._replace(type=DELETE_FAMILY) for family in (b"f", b"g")]
    assert decoding.rows(given, entry(b"t", 2, both)) == {}


def test_deletes_that_need_older_versions_are_rejected() -> None:
    gone = put(1, "price", b"")._replace(type=DELETE_VERSION)
    (bad,) = Decoding(versions=3).read(entry(b"t", 2, [put(1, "price", b"1"), gone])).bad
    assert bad.reason.startswith("it deletes one version of a cell of which 3 are kept")
    assert (bad.sequence, bad.stamp) == ((2 << 20) + 1, 1_700_000_000_000_000)
    family = put(1, "", b"")._replace(type=DELETE_FAMILY_VERSION)
    (bad,) = Decoding().read(entry(b"t", 2, [family])).bad
    assert bad.reason.startswith("it deletes one version of a whole family")
    assert not Decoding().read(entry(b"t", 2, [family._replace(family=b"other")])).bad


def test_cells_that_are_no_values_are_rejected_and_their_neighbours_kept() -> None:
    found = Decoding().read(
        entry(b"t", 1, [put(1, "customer", b"\0\0\7"), put(1, "price", b"1"), put(2, "price", b"1.999"),
                        put(3, "note", b"\xff", 1, b"g"), Cell(b"short", b"f", b"price", 1, b"1")]),
    )  # fmt: skip
    assert [each.reason for each in found.bad[:3]] == [
        "column customer: 3 bytes, and int has 4", found.bad[1].reason, r"column note: '\xFF' is no UTF-8",
    ]  # fmt: skip
    assert found.bad[1].reason.startswith("column price: ")
    assert found.bad[3].reason == "key column id: 5 bytes, and long has 8"
    assert found.bad[3].data == b"short f:price 1"
    ((operations, _, _),) = found.operations
    assert operations.columns[0].to_pylist() == [1] and operations.columns[2].to_pylist() == [100]


def test_writes_of_all_columns_name_them() -> None:
    cells = [put(1, "customer", b"\0\0\0\1"), put(1, "price", b"1"), put(1, "note", b"x", 1, b"g")]
    decoding = Decoding()
    ((operations, sequences, stamps),) = decoding.read(entry(b"t", 1, cells)).operations
    form = decoding.form
    kind, mask = form.as_rows(operations, 0, sequences, stamps).columns[len(form.types) : len(form.types) + 2]
    assert (kind.to_pylist(), mask.to_pylist()) == ([UPDATE], [form.everything.tobytes()])


def test_an_empty_cell_is_null_where_no_value_is_empty() -> None:
    found = Decoding().read(
        entry(b"t", 1, [put(1, "customer", b""), put(1, "price", b""), put(1, "note", b"", 1, b"g")])
    )
    ((operations, _, _),) = found.operations
    assert [column.to_pylist() for column in operations.columns] == [[1], [None], [None], [""]]
    assert not found.bad


def test_a_cell_that_expires_is_rejected() -> None:
    tags = (9).to_bytes(2, "big") + b"\x08" + (1000).to_bytes(8, "big")
    found = Decoding().read(entry(b"t", 1, [put(1, "price", b"1")._replace(tags=tags), put(2, "price", b"2")]))
    assert [each.reason for each in found.bad] == ["it expires (a TTL of its own), which no log tells"]
    assert [len(operations) for operations, _, _ in found.operations] == [1]
    other = (5).to_bytes(2, "big") + b"\x01user"
    assert not Decoding().read(entry(b"t", 1, [put(1, "price", b"1")._replace(tags=other)])).bad


def test_markers_are_no_cells_and_some_stop_the_table() -> None:
    opened = Cell(b"0123", b"METAFAMILY", b"HBASE::REGION_EVENT::REGION_OPEN", 1, b"...")
    assert Decoding().rows(entry(b"t", 9, [opened]), entry(b"t", 10, [put(1, "price", b"1")])) == {
        1: (None, Decimal(1), None)
    }
    with pytest.raises(NoFollowing, match="a region of it has begun anew"):
        Decoding().read(entry(b"t", 3, [opened]))
    with pytest.raises(NoFollowing, match="bulk load"):
        Decoding().read(entry(b"t", 9, [opened._replace(qualifier=b"HBASE::BULK_LOAD")]))


class Logs:
    """A root folder with logs."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        (folder / "WALs").mkdir()
        (folder / "oldWALs").mkdir()
        self.files = LogFiles(folder, b"t")

    def path(self, time: int, server: str = SERVER) -> Path:
        return self.root / "WALs" / server / f"{server.replace(',', '%2C')}.{START + time}"

    def write(self, time: int, data: bytes, server: str = SERVER) -> Path:
        path = self.path(time, server)
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
        return path

    def archive(self, path: Path) -> None:
        path.rename(self.root / "oldWALs" / path.name)

    def sequences(self, after: int, upto: int, part: str = SERVER, files: LogFiles | None = None) -> list[int]:
        return [each for _, entries in (files or self.files).pieces(part, after, upto) for each in entries.sequences]


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def of(sequence: int, table: bytes = b"t", cells: int = 1) -> bytes:
    return entry(table, sequence, [put(id_, "price", b"1.00" * (sequence % 5)) for id_ in range(cells)])


def test_the_end_of_a_part_is_behind_the_last_entry_of_the_table(logs: Logs) -> None:
    assert logs.files.look() == {}
    logs.write(10, header())
    assert logs.files.look() == {SERVER: position(10, 0)}
    logs.write(10, of(1) + of(2))
    assert logs.files.look() == {SERVER: (end := position(10, len(header() + of(1) + of(2))))}
    logs.write(10, of(3, b"other") + of(4)[:-1])
    assert logs.files.look() == {SERVER: end}
    logs.write(10, of(4)[-1:] + of(5, b"other"))
    assert logs.files.look() == LogFiles(logs.root, b"t").look() == {
        SERVER: (more := position(10, len(header() + of(1) + of(2) + of(3, b"other") + of(4))))
    }  # fmt: skip
    assert logs.sequences(0, more) == [1, 2, 4] and logs.sequences(end, more) == [4]
    assert logs.sequences(0, end) == [1, 2] and logs.sequences(more, more) == []


def test_a_new_file_counts_when_nothing_is_written_to_the_one_before_it_any_more(logs: Logs) -> None:
    logs.write(10, header() + of(1))
    logs.write(20, header())
    assert logs.files.look() == {SERVER: position(10, len(header() + of(1)))}
    logs.write(10, of(2))
    first = position(10, len(header() + of(1) + of(2)))
    assert logs.files.look() == {SERVER: first}
    logs.write(20, of(3, b"other"))
    assert logs.files.look() == {SERVER: position(20, 0)}
    assert logs.sequences(first, position(20, 0)) == [] and logs.sequences(0, position(20, 0)) == [1, 2]
    logs.write(30, header())
    assert logs.files.look() == {SERVER: position(20, 0)}
    logs.write(20, TRAILER)
    assert logs.files.look() == {SERVER: position(30, 0)}
    logs.archive(logs.path(30))
    logs.write(40, header() + of(4))
    assert logs.sequences(first, logs.files.look()[SERVER]) == [4]


def test_a_server_that_is_gone_has_a_finished_part_and_one_that_came_back_another(logs: Logs) -> None:
    path = logs.write(10, header() + of(1) + of(2)[:-3])
    begun = logs.files.look()[SERVER]
    folder = path.parent.rename(path.parent.with_name(f"{SERVER}-splitting"))
    assert logs.files.look() == {SERVER: begun}
    logs.archive(folder / path.name)
    folder.rmdir()
    again = SERVER.replace(str(START), str(START + 5))
    logs.write(30, header() + of(3), again)
    ends = logs.files.look()
    assert ends == {SERVER: position(10, CLOSED), again: position(25, len(header() + of(3)))}
    assert logs.sequences(begun, ends[SERVER]) == [] and logs.sequences(0, ends[SERVER]) == [1]
    assert logs.sequences(0, ends[again], again) == [3]


def test_a_server_that_lives_long_has_several_parts(logs: Logs) -> None:
    late = 3 * wal_files.SPAN + 7
    logs.write(10, header() + of(1))
    logs.write(late, header() + of(2))
    ends = logs.files.look()
    assert ends == {SERVER: position(10, CLOSED), f"{SERVER}/3": position(7, len(header() + of(2)))}
    assert max(ends.values()) < 1 << 63
    assert logs.sequences(0, ends[f"{SERVER}/3"], f"{SERVER}/3") == [2]


def test_files_that_are_none_of_the_table_are_passed_over(logs: Logs) -> None:
    logs.write(10, header() + of(1))
    folder = logs.path(10).parent
    for name in (f"{logs.path(10).name}.meta", "pv2-00000000000000000001.log"):
        (folder / name).write_bytes(b"nothing of ours")
    (logs.root / "oldWALs" / "host%2C1%2C2.3$masterlocalwal$").write_bytes(b"")
    assert logs.files.look().keys() == {SERVER}


def test_a_file_that_is_gone_or_cut_off_before_it_was_read_is_missed(logs: Logs) -> None:
    path = logs.write(10, header() + of(1) + of(2))
    after = position(10, len(header() + of(1)))
    logs.write(20, header() + of(3))
    upto = logs.files.look()[SERVER]
    assert logs.sequences(after, upto) == [2, 3]
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    with pytest.raises(LogFileGone):
        logs.sequences(0, position(10, len(data)))
    path.unlink()
    with pytest.raises(LogFileGone):
        logs.sequences(after, upto)
    assert logs.sequences(position(20, 0), upto) == [3]


def test_any_pieces_of_a_part_are_the_whole(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the pieces, through files that move, and by whoever knows nothing of it."""
    monkeypatch.setattr(wal_files, "CHUNK_BYTES", 700)
    chance, sequence = random.Random(1), 0
    for time in range(10, 60, 10):
        logs.write(time, header())
        for _ in range(20):
            sequence += 1
            logs.write(time, of(sequence, chance.choice([b"t", b"other"]), chance.choice([1, 2, 30])))
        if time < 40:
            logs.write(time, TRAILER)
            logs.archive(logs.path(time))
    end = logs.files.look()[SERVER]
    whole = logs.sequences(0, end)
    assert whole == sorted(set(whole)) and len(whole) > 20
    for _ in range(20):
        cuts = sorted({position(chance.randrange(10, 51, 10), chance.randrange(9000)) for _ in range(5)})
        cuts = [cut for cut in cuts if cut < end and _is_there(logs, cut)]
        found: list[int] = []
        for after, upto in zip([0, *cuts], [*cuts, end], strict=True):
            found += logs.sequences(after, upto, files=chance.choice([logs.files, LogFiles(logs.root, b"t")]))
        assert found == whole
    counts = [logs.files.operations(low, high) for _, low, high in logs.files.sizes(0, end, SERVER)]
    assert len(counts) == 5 and min(counts) > 0


def _is_there(logs: Logs, cut: int) -> bool:
    time, offset = wal_files.placed(cut)
    return any(
        file.time == time and Path(file.path).stat().st_size >= offset for log in logs.files.logs for file in log.files
    )


def family(name: bytes, **attributes: str) -> tuple[int, bytes]:
    pairs = [(2, message((1, key.encode()), (2, value.encode()))) for key, value in attributes.items()]
    return 3, message((1, name), *pairs, (3, message((1, b"x"), (2, b"y"))))


def test_how_families_are_declared_is_read_from_the_newest_description(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        newest_description(tmp_path)
    for number, ttl in ((9, "9"), (10, "2147483647")):
        given = message((1, message((1, b"default"), (2, b"t"))), family(b"f", VERSIONS="3", TTL=ttl), family(b"g"))
        (tmp_path / f".tableinfo.{number:010}.{len(given) + 4}").write_bytes(b"PBUF" + given)
    found = newest_description(tmp_path).read_bytes()
    assert read_families(found) == {b"f": Family(3, None, False), b"g": Family(1, None, False)}
    other = b"PBUF" + message(family(b"f", TTL="100", NEW_VERSION_BEHAVIOR="TRUE"))
    assert read_families(other) == {b"f": Family(1, 100, True)}
    for broken in (b"", b"PBU", found[:-1], b"XXXX" + found[4:]):
        with pytest.raises(ValueError):
            read_families(broken)


def test_a_part_that_is_gone_had_been_read_if_it_was_finished(logs: Logs) -> None:
    described = logs.root / "data" / "default" / "t" / ".tabledesc"
    described.mkdir(parents=True)
    given = message(family(b"f"), family(b"g"))
    (described / f".tableinfo.0000000001.{len(given) + 4}").write_bytes(b"PBUF" + given)
    (logs.root / "hbase.id").write_bytes(b"cluster")
    with closing(HBaseTable(declared(COLUMNS, {**OPTIONS, "wal": logs.root.as_uri()}), "UTC")) as opened:
        path = logs.write(10, header() + of(5))
        seen = opened.ends()
        (written,) = logs_of(opened.table.id, seen.positions).items()
        logs.archive(path)
        path.parent.rmdir()
        (finished,) = logs_of(opened.table.id, opened.ends().positions).items()
        assert opened.estimate(seen.positions[SERVER], finished[1]) == 1
        (logs.root / "oldWALs" / path.name).unlink()
        gone = opened.ends()
        assert gone == LogEnds({}, {})
        require_no_less(opened, dict([finished]), gone)
        with pytest.raises(LogLost, match=r"its log host.example,16020,\d+ is gone, and was read up to"):
            require_no_less(opened, dict([written]), gone)
        (logs.root / "hbase.id").write_bytes(b"another")
        logs.write(10, header() + of(5))
        assert opened.ends().identities != seen.identities
        with pytest.raises(LogLost, match="is not the one that was read before"):
            opened.read(PartRange(opened.table.id, SERVER, 0, seen.positions[SERVER], seen.identities[SERVER]))
