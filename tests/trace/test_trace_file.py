"""A zone file gives back what was written, and never passes for whole when it is not."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from state_disk import disk_in
from viewkeeper.catalog.model import Column, StateSpec
from viewkeeper.catalog.types import BIGINT, DOUBLE, INT, STRING, decimal
from viewkeeper.errors import Damaged
from viewkeeper.trace.file import FOOTER, ZoneFile
from viewkeeper.trace.receipt import FileRef, Receipt
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import Run, close_files_except
from viewkeeper.trace.trace import Trace

WIDE = StateSpec(
    3, "keyed",
    (Column("k", BIGINT), Column("s", STRING), Column("d", decimal(38, 2)), Column("x", DOUBLE)), 1,
)  # fmt: skip
BAG = StateSpec(4, "weighted", (Column("a", INT), Column("b", STRING)), 2)


def rows(n: int = 50) -> Rows:
    columns = [
        pa.array(range(n), pa.int64()),
        pa.array([None if i % 5 == 0 else "x" * i for i in range(n)], pa.large_string()),
        pa.array([Decimal(i) * 10**30 for i in range(n)], pa.decimal128(38, 2)),
        pa.array([None if i % 7 == 0 else i / 4 for i in range(n)], pa.float64()),
    ]
    return Rows(columns, (np.arange(n) % 3 > 0).astype(np.int64))


def numbered(n: int, weight: int = 1) -> Rows:
    texts = pa.array([str(i) for i in range(n)], pa.large_string())
    return Rows([pa.array(np.arange(n, dtype=np.int32)), texts], np.full(n, weight))


def write(folder: Path, name: str = "a.zone") -> Receipt:
    writer = ZoneFile.writer(disk_in(folder), name)
    writer.add(WIDE, rows())
    writer.add(BAG, numbered(10, 300))
    return writer.finish()


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    close_files_except(disk_in(path.parent), ())


def test_all_runs_of_a_file_read_back(tmp_path: Path) -> None:
    receipt = write(tmp_path)
    wide, bag_run = (Run.open(disk_in(tmp_path), ref, receipt.file) for ref in receipt.runs)
    assert len(wide) == 50 and len(bag_run) == 10
    assert sorted(zip(*(c.to_pylist() for c in wide.columns), wide.weights().tolist(), strict=True)) == sorted(
        zip(*(c.to_pylist() for c in rows().columns), rows().weights.tolist(), strict=True)
    )
    assert Trace(BAG, [bag_run]).get([3, "3"]) == [((3, "3"), 300)]
    assert [(ref.low, ref.high) for ref in receipt.runs] == [(run.low, run.high) for run in (wide, bag_run)]
    wide.verify()


def test_every_buffer_is_aligned_and_none_is_copied(tmp_path: Path) -> None:
    receipt = write(tmp_path)
    run = Run.open(disk_in(tmp_path), receipt.runs[0])
    addresses = [buffer.address for column in run.columns for buffer in column.buffers() if buffer]
    addresses += [run.words.ctypes.data, run.table.ctypes.data]
    assert all(address % 64 == 0 for address in addresses)
    assert max(addresses) - min(addresses) < receipt.runs[0].bytes


def test_a_flipped_byte_in_any_region_is_noticed_and_named(tmp_path: Path) -> None:
    receipt = write(tmp_path)
    path, whole = tmp_path / "a.zone", (tmp_path / "a.zone").read_bytes()
    file = ZoneFile(disk_in(tmp_path), "a.zone")
    assert list(file.sections[0].parts) == ["words", "weights", "table", *(f"column {i}" for i in range(4))]
    for number, section in enumerate(file.sections):
        for part in section.parts.values():
            for at in (part.span[0], part.span[1] - 1):  # the last byte is padding
                flip(path, at)
                damaged = Run.open(disk_in(tmp_path), receipt.runs[number], receipt.file)
                with pytest.raises(Damaged, match=f"a.zone: section {number}, {part.name}: "):
                    damaged.verify()
                path.write_bytes(whole)
    start = FOOTER.unpack(whole[-FOOTER.size :])[0]
    for region, begin, end in (("header", 0, 64), ("directory", start, len(whole) - FOOTER.size)):
        for at in (begin, (begin + end) // 2, end - 1):
            flip(path, at)
            with pytest.raises(Damaged, match=f"a.zone: the {region}"):
                Run.open(disk_in(tmp_path), receipt.runs[0], receipt.file)
            path.write_bytes(whole)
    for at in range(len(whole) - FOOTER.size, len(whole)):
        flip(path, at)
        with pytest.raises(Damaged, match="a.zone: the (footer|directory)"):
            Run.open(disk_in(tmp_path), receipt.runs[0])
        path.write_bytes(whole)


def test_checksums_cover_every_byte_of_a_section(tmp_path: Path) -> None:
    write(tmp_path)
    spans = [part.span for section in ZoneFile(disk_in(tmp_path), "a.zone").sections for part in section.parts.values()]
    size = (tmp_path / "a.zone").stat().st_size
    assert spans[0][0] == 64
    assert all(one[1] == other[0] for one, other in zip(spans, spans[1:], strict=False))
    assert spans[-1][1] == FOOTER.unpack((tmp_path / "a.zone").read_bytes()[-FOOTER.size :])[0] < size


@pytest.mark.parametrize("keep", [0, 10, 100, -1])
def test_a_cut_file_is_refused(tmp_path: Path, keep: int) -> None:
    receipt = write(tmp_path)
    os.truncate(tmp_path / "a.zone", keep if keep >= 0 else receipt.file.length - 1)  # type: ignore[union-attr]
    for file in (receipt.file, None):
        with pytest.raises(Damaged, match="a.zone"):
            Run.open(disk_in(tmp_path), receipt.runs[0], file)


def test_another_file_of_the_same_name_and_length_is_refused(tmp_path: Path) -> None:
    """The manifest's checksum is that of the directory, which holds those of the contents."""
    receipt = write(tmp_path)
    assert receipt.file
    with pytest.raises(Damaged, match="directory"):
        Run.open(disk_in(tmp_path), receipt.runs[0], FileRef("a.zone", receipt.file.length, receipt.file.checksum ^ 1))


def test_a_run_that_the_file_does_not_hold_is_refused(tmp_path: Path) -> None:
    ref = write(tmp_path).runs[1]
    for wrong in (replace(ref, section=0), replace(ref, section=2), replace(ref, rows=9)):
        with pytest.raises(Damaged, match=f"a.zone: section {wrong.section} is not the run"):
            Run.open(disk_in(tmp_path), wrong)


def test_a_name_is_never_used_twice(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(FileExistsError):
        write(tmp_path)


def test_nothing_written_is_no_file(tmp_path: Path) -> None:
    writer = ZoneFile.writer(disk_in(tmp_path), "a.zone")
    writer.add(BAG, numbered(0))
    writer.add(BAG, Rows.concat([numbered(5), numbered(5, -1)]))
    assert writer.finish() == Receipt(None, ())
    assert not list(tmp_path.iterdir())


def test_weights_of_one_take_no_room_and_others_little(tmp_path: Path) -> None:
    for name, weight, kind in (("a", 1, None), ("b", -128, "int8"), ("c", 300, "int16"), ("d", 2**40, "int64")):
        writer = ZoneFile.writer(disk_in(tmp_path), name)
        writer.add(BAG, numbered(10, weight))
        run = Run.open(disk_in(tmp_path), writer.finish().runs[0])
        assert (run.stored_weights.dtype.name if run.stored_weights is not None else None) == kind
        assert run.weights().tolist() == [weight] * 10 and run.weights().dtype == np.int64


def test_slices_are_written_as_what_they_show(tmp_path: Path) -> None:
    """Arrays that are a part of larger ones, as Arrow's are after a slice."""
    part = Rows([column.slice(20, 10) for column in rows().columns], np.ones(10, dtype=np.int64))
    writer = ZoneFile.writer(disk_in(tmp_path), "a.zone")
    writer.add(WIDE, part)
    read = Trace(WIDE, [Run.open(disk_in(tmp_path), writer.finish().runs[0])]).scan()
    index = np.argsort(read.columns[0].to_numpy())
    assert [column.to_pylist() for column in read.take(index).columns] == [c.to_pylist() for c in part.columns]


def test_the_bytes_of_the_runs_are_nearly_the_whole_file(tmp_path: Path) -> None:
    """Otherwise a file of many small runs would seem half empty and be rewritten for ever."""
    writer = ZoneFile.writer(disk_in(tmp_path), "a.zone")
    for i in range(100):
        writer.add(StateSpec(i, "weighted", BAG.columns, 2), numbered(1))
    receipt = writer.finish()
    assert receipt.file
    assert receipt.file.length - 200 <= sum(run.bytes for run in receipt.runs) <= receipt.file.length


def test_a_run_stays_readable_after_its_file_is_deleted_and_let_go(tmp_path: Path) -> None:
    receipt = write(tmp_path)
    run = Run.open(disk_in(tmp_path), receipt.runs[1])
    assert Run.open(disk_in(tmp_path), receipt.runs[1]) is run, "open runs are shared"
    (tmp_path / "a.zone").unlink()
    close_files_except(disk_in(tmp_path), {"b.zone"})
    assert Trace(BAG, [run]).get([3, "3"]) == [((3, "3"), 300)]
    with pytest.raises(FileNotFoundError):
        Run.open(disk_in(tmp_path), receipt.runs[1])


def test_the_directory_is_as_the_format_document_says(tmp_path: Path) -> None:
    write(tmp_path)
    whole = (tmp_path / "a.zone").read_bytes()
    start, length, _, version, magic = FOOTER.unpack(whole[-FOOTER.size :])
    assert (whole[:8], magic, version) == (b"VKZONE\r\n", b"VKZONE\r\n", 1)
    first, second = json.loads(whole[start : start + length])
    assert {key: first[key] for key in ("state", "rows", "start", "bits")} == {
        "state": 3, "rows": 50, "start": 64, "bits": 4}  # fmt: skip
    assert [part[:2] + part[3:] for part in first["parts"]] == [
        ["words", "uint64", [400]], ["weights", "int8", [50]], ["table", "uint32", [68]],
        ["column 0", "int64", [-1, 400]], ["column 1", "large_string", [7, 408, 1000]],
        ["column 2", "decimal128(38, 2)", [-1, 800]], ["column 3", "double", [7, 400]],
    ]  # fmt: skip
    words = np.frombuffer(whole, np.uint64, 50, 64)
    assert (np.diff(words.astype(object)) > 0).all()
    assert second["start"] % 64 == 0
