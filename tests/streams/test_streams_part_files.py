"""A part file gives back the parts that were written, whole or by hash, and never passes for whole when it is not."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from state_disk import StateDisk, disk_in
from viewkeeper.catalog.types import (
    logical_type,
)  # fmt: skip
from viewkeeper.errors import Damaged
from viewkeeper.streams import part_files
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_files import (
    PartWriter,
    Selection,
    close_part_files_except,
    narrowed,
    read_part,
    read_piece,
    to_table,
    verify_part_file,
)  # fmt: skip
from viewkeeper.streams.work import GREATEST_HASH, Piece
from viewkeeper.trace.receipt import FileRef
from written_parts import COLUMNS, NUMBER, all_types, write


def numbered(hashes: Sequence[int], first: int = 0) -> Block:
    return Block([pa.array(range(first, first + len(hashes)), pa.int64())], np.array(hashes, dtype=np.uint64))


def rows_of(block: Block) -> list[tuple[int, int]]:
    return list(zip(block.hashes.tolist(), block.columns[0].to_pylist(), strict=True))


def same_bits(one: pa.Array, other: pa.Array) -> bool:
    return one.type == other.type and repr(one.to_pylist()) == repr(other.to_pylist())


@pytest.mark.parametrize("grouped", [False, True])
def test_every_type_comes_back_bit_for_bit(tmp_path: Path, grouped: bool) -> None:
    """Values of all types, NULLs, NaN, -0.0, extremes and names of any letters are read as they were written."""
    blocks = {-3: all_types(7), 4: all_types(5), 9: all_types(1)}
    _, pieces = write(tmp_path, blocks, COLUMNS, grouped)
    assert list(pieces) == [-3, 4, 9]
    for part, block in blocks.items():
        read = read_piece(disk_in(tmp_path), pieces[part], COLUMNS, grouped=grouped)
        assert all(same_bits(*pair) for pair in zip(read.columns, block.columns, strict=True))
        chosen = read_part(disk_in(tmp_path), [pieces[part]], COLUMNS, wanted=[15, 0], grouped=grouped)
        assert [column.to_pylist() for column in chosen.columns] == [block.columns[i].to_pylist() for i in (15, 0)]


def test_a_table_has_the_types_that_users_see(tmp_path: Path) -> None:
    """Readers get the declared columns in logical types, timestamps in the database's zone, and no hidden column."""
    _, pieces = write(tmp_path, {1: all_types(3), 2: all_types(2)}, COLUMNS, grouped=False)
    table = to_table(disk_in(tmp_path), list(pieces.values()), COLUMNS, "Europe/Berlin")
    assert table.schema == pa.schema([(c.name, logical_type(c.type, "Europe/Berlin")) for c in COLUMNS])
    assert table.num_rows == 5
    assert table["text"].to_pylist()[3:] == to_table(disk_in(tmp_path), [pieces[2]], COLUMNS, "UTC")["text"].to_pylist()
    assert to_table(disk_in(tmp_path), [], COLUMNS, "Europe/Berlin").schema == table.schema


def test_the_file_is_plain_parquet_with_the_hidden_columns(tmp_path: Path) -> None:
    """Any reader of Parquet sees the declared columns, then the part and the hash as a signed number."""
    write(tmp_path, {5: numbered([3, 2**64 - 1]), 6: numbered([2**63])})
    assert pq.read_table(tmp_path / "a").to_pydict() == {
        "n": [0, 1, 0], "__part": [5, 5, 6], "__group": [3, -1, -(2**63)]}  # fmt: skip


def test_no_columns_and_no_rows(tmp_path: Path) -> None:
    """Rows without columns are counted; a part without rows has no piece, and a file without rows does not exist."""
    _, pieces = write(tmp_path, {1: Block([], np.array([7, 5], dtype=np.uint64)), 2: Block.empty([])}, ())
    assert pieces == {1: Piece("a", 0, 2, 5, 7)}
    assert read_piece(disk_in(tmp_path), pieces[1], (), grouped=True).hashes.tolist() == [5, 7]
    assert len(read_piece(disk_in(tmp_path), pieces[1], ())) == 2
    assert to_table(disk_in(tmp_path), [pieces[1]], (), "UTC").num_rows == 2
    assert PartWriter(disk_in(tmp_path), "b", NUMBER, "UTC", True).finish() == (None, {})
    assert len(read_part(disk_in(tmp_path), [], NUMBER, grouped=True)) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_order_of_parts_is_kept(tmp_path: Path) -> None:
    """Parts ascend; a part without groups may come in several blocks, a grouped one comes at once."""
    _, pieces = write(tmp_path, {1: numbered([0, 0])}, grouped=False)
    writer = PartWriter(disk_in(tmp_path), "b", NUMBER, "UTC", False)
    for part, first in ((1, 0), (1, 10), (2, 20)):
        writer.add(part, numbered([0, 0], first))
    _, pieces = writer.finish()
    assert read_piece(disk_in(tmp_path), pieces[1], NUMBER).columns[0].to_pylist() == [0, 1, 10, 11]
    for grouped, second in ((False, 0), (True, 1)):
        writer = PartWriter(disk_in(tmp_path), "c", NUMBER, "UTC", grouped)
        writer.add(1, numbered([0]))
        with pytest.raises(ValueError, match="part"):
            writer.add(second, numbered([0]))


hashes = st.lists(
    st.one_of(st.integers(0, 3), st.integers(2**64 - 3, 2**64 - 1), st.integers(2**63 - 2, 2**63 + 2),
              st.integers(0, 2**64 - 1)), max_size=30)  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(hashes, min_size=1, max_size=5), st.data(), st.integers(1, 4), st.integers(1, 12))
def test_any_interval_and_any_set_of_hashes_is_found(
    parts: list[list[int]], data: st.DataObject, group_rows: int, shared_rows: int
) -> None:
    """Whatever the row groups, reading by interval, by set of hashes and by both gives exactly those rows."""
    known = sorted({h for part in parts for h in part} | {0, 2**63, GREATEST_HASH})
    low, high = sorted([data.draw(st.sampled_from(known)), data.draw(st.sampled_from(known))])
    touched = sorted(set(data.draw(st.lists(st.sampled_from(known), max_size=4))))
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_files, "ROW_GROUP_ROWS", group_rows)
        patch.setattr(part_files, "SHARED_ROWS", shared_rows)
        folder = Path(name)
        writer = PartWriter(disk_in(folder), "a", NUMBER, "UTC", True)
        for part, values in enumerate(parts):
            writer.add(part, numbered(values, 100 * part))
        ref, pieces = writer.finish()
        for part, values in enumerate(parts):
            expected = sorted(zip(values, range(100 * part, 100 * part + len(values)), strict=True), key=lambda r: r[0])
            own = [pieces[part]] if part in pieces else []
            array = np.array(touched, dtype=np.uint64)
            assert rows_of(read_part(disk_in(folder), own, NUMBER, grouped=True)) == expected
            inside = [row for row in expected if low <= row[0] <= high]
            found = read_part(disk_in(folder), own, NUMBER, Selection(low, high), grouped=True)
            assert rows_of(found) == inside
            chosen = read_part(disk_in(folder), own, NUMBER, Selection(low=low, high=high, touched=array), grouped=True)
            assert rows_of(chosen) == [row for row in inside if row[0] in touched]
            for piece in own:
                cut = narrowed(disk_in(folder), piece, low, high)
                assert (cut is None) == (not inside)
                if cut is not None:
                    assert rows_of(read_piece(disk_in(folder), cut, NUMBER, grouped=True)) == inside
                    assert (cut.low, cut.high) == (inside[0][0], inside[-1][0])


def test_reading_one_hash_touches_its_row_group_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many row groups only those are read that can hold what is asked for."""
    monkeypatch.setattr(part_files, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(part_files, "SHARED_ROWS", 10)
    _, pieces = write(tmp_path, {1: numbered(range(5)), 2: numbered(range(0, 1000, 10)), 3: numbered(range(100))})
    read: list[int] = []
    whole = part_files.PartFile.read
    monkeypatch.setattr(
        part_files.PartFile, "read", lambda self, groups, names: read.extend(groups) or whole(self, groups, names)
    )
    wanted = np.array([250, 255, 610], dtype=np.uint64)
    assert rows_of(read_piece(disk_in(tmp_path), pieces[2], NUMBER, Selection(touched=wanted), grouped=True)) == [
        (250, 25), (610, 61)]  # fmt: skip
    assert len(read_piece(disk_in(tmp_path), pieces[1], NUMBER, grouped=True)) == 5
    assert read == [3, 7, 0]


def test_several_pieces_are_one_part(tmp_path: Path) -> None:
    """A part of pieces from several files is sorted by hash over all of them."""
    (_, one), (_, two) = (write(tmp_path, {1: numbered(h, f)}, name=n) for n, h, f in (("a", [9, 1], 0), ("b", [5], 5)))
    assert rows_of(read_part(disk_in(tmp_path), [one[1], two[1]], NUMBER, grouped=True)) == [
        (1, 1),
        (5, 5),
        (9, 0),
    ]


def test_a_flipped_byte_anywhere_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever byte of a file changes, reading it raises an error that names the file."""
    monkeypatch.setattr(part_files, "ROW_GROUP_ROWS", 2)
    ref, pieces = write(tmp_path, {1: numbered([1, 2, 3])}, name="a.parquet")
    path = tmp_path / "a.parquet"
    whole = path.read_bytes()
    assert len(whole) == ref.length
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        close_part_files_except(disk_in(tmp_path), ())
        with pytest.raises(Damaged, match=r"a\.parquet: "):
            read_piece(disk_in(tmp_path), pieces[1], NUMBER, grouped=True)
        with pytest.raises(Damaged, match=r"a\.parquet: "):
            verify_part_file(disk_in(tmp_path), ref)
    path.write_bytes(whole)
    verify_part_file(disk_in(tmp_path), ref)


def test_a_cut_file_and_another_file_are_refused(tmp_path: Path) -> None:
    """A file that ends early, or is not the one that the manifest speaks of, raises an error that names it."""
    ref, pieces = write(tmp_path, {1: numbered([1, 2, 3])})
    path = tmp_path / "a"
    whole = path.read_bytes()
    other = FileRef("a", ref.length, ref.checksum ^ 1)
    with pytest.raises(Damaged, match="a: is another file"):
        read_piece(disk_in(tmp_path), pieces[1], NUMBER, grouped=True, file=other)
    assert len(read_piece(disk_in(tmp_path), pieces[1], NUMBER, grouped=True, file=ref)) == 3
    with pytest.raises(Damaged, match="a: has 3 rows, not 4"):
        read_piece(disk_in(tmp_path), Piece("a", 2, 2), NUMBER, grouped=True)
    for keep in range(0, len(whole), 7):
        path.write_bytes(whole[:keep])
        close_part_files_except(disk_in(tmp_path), ())
        with pytest.raises(Damaged, match="^a: "):
            read_piece(disk_in(tmp_path), pieces[1], NUMBER, grouped=True)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_piece(disk_in(tmp_path), pieces[1], NUMBER, grouped=True)


def test_files_are_published_once_whole_and_names_are_never_used_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishing comes when every byte is written; a second file of the same name is refused."""
    seen = []
    monkeypatch.setattr(StateDisk, "upload", lambda disk, file, name: seen.append((name, file.stat().st_size)))
    writer = PartWriter(disk_in(tmp_path), "a", NUMBER, "UTC", True)
    writer.add(1, numbered([1]))
    ref, _ = writer.finish()
    assert ref is not None and seen == [("state/a", ref.length)]
    verify_part_file(disk_in(tmp_path), ref)
    with pytest.raises(FileExistsError):
        write(tmp_path, {1: numbered([1])})


def test_few_files_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files are read, no more than the bound are held open, and all can be read again."""
    monkeypatch.setattr(part_files, "FILES_OPEN", 3)
    close_part_files_except(disk_in(tmp_path), ())
    pieces = [write(tmp_path, {1: numbered([i])}, name=str(i))[1][1] for i in range(10)]
    for _ in range(2):
        assert [read_piece(disk_in(tmp_path), piece, NUMBER, grouped=True).hashes[0] for piece in pieces] == list(
            range(10)
        )
        assert len(part_files._OPEN._files) <= 3


def test_a_file_that_is_gone_is_mapped_no_more(tmp_path: Path) -> None:
    """Of files that were read and deleted since nothing is mapped when one looks again; what is there stays open."""
    pieces = [write(tmp_path, {1: numbered([i])}, name=f"{i}.parquet")[1][1] for i in range(10)]

    def mapped() -> set[str]:
        lines = Path("/proc/self/maps").read_text().splitlines()
        return {line.partition(f"{tmp_path}/")[2] for line in lines if f"{tmp_path}/" in line}

    for piece in pieces:
        read_piece(disk_in(tmp_path), piece, NUMBER, grouped=True)
    assert len(mapped()) == 10
    for piece in pieces[1:]:
        (tmp_path / piece.file).unlink()
    part_files.close_deleted_part_files()
    assert mapped() == {"0.parquet"}
