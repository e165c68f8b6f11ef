"""Views as Delta tables: a writing is one commit, its marker included (docs/decisions/100-views-in-delta-tables.md).

The marker is numbers that Delta keeps by names, those of applications' transactions (`viewkeeper.version` ...): they
are in the commit itself, outlive the log's clean-up, and another program's commits, such as OPTIMIZE, leave them.  A
commit is done only as the one behind the version that was read: what others have done meanwhile makes it fail.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake._internal import TableFeatures
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from viewkeeper.catalog.outside_store import Target
from viewkeeper.errors import Error, InputError
from viewkeeper.stores.outside.delta.commits import read_transactions
from viewkeeper.stores.outside.delta.compared_rows import LakeRows
from viewkeeper.stores.outside.delta.folder import LakeFolder, check_place, metadata_of
from viewkeeper.stores.outside.delta.row_files import OURS, RowFile, RowFiles, Staged
from viewkeeper.stores.outside.delta.schema import FEED
from viewkeeper.stores.outside.delta.view_form import ViewForm
from viewkeeper.stores.outside.options import choice
from viewkeeper.stores.outside.targets import (
    Begun,
    Deviation,
    LaterEpoch,
    Marker,
    Mending,
    RowForm,
    TargetTaken,
    ViewTarget,
    Written,
)
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.rows import Rows

PACE, PACE_SECONDS, PACE_MAX = "every_seconds", 1.0, 600.0
"""The option that says how long after a commit the next one is done, at least; each is a file of the log, and more.
The version that the table has is kept here for so long."""

QUIET_PAUSES, QUIET_SECONDS = 10, 10.0
"""A version in which nothing changed is told after so many pauses, or so many seconds: a commit of its own."""

_PROPERTIES = {name.lower(): name for name in (
    FEED, "delta.logRetentionDuration", "delta.deletedFileRetentionDuration", "delta.checkpointInterval"
)}  # fmt: skip
"""Of the table, given when it is made."""

_PARTS = ("database", "view", "state", "version", "manifest", "identity", "epoch", "attempt")
_NAMES = tuple(f"viewkeeper.{part}" for part in _PARTS)


class DeltaTarget(ViewTarget):
    """A view's rows in a Delta table of their own."""

    what: ClassVar[str] = "a Delta table"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        options = dict(target.options)
        self._folder = LakeFolder(options)
        self.pause_seconds = float(options.get(PACE, PACE_SECONDS))
        self._properties = {_PROPERTIES[name]: value for name, value in options.items() if name in _PROPERTIES}
        self._form: ViewForm | None = None
        self._store: RowFiles | None = None
        self._mine: Marker | None = None
        self._attempt: int | None = None
        self._base: tuple[DeltaTable, int] | None = None
        self._staged: Staged | None = None
        self._replaced = False
        self._told: Marker | None = None
        self._told_at = 0.0
        self._untold: Marker | None = None

    @classmethod
    def check(cls, options: Mapping[str, str]) -> None:
        check_place(options, (PACE, *_PROPERTIES))
        choice(options, FEED.lower(), ("true", "false"), "false")
        patterns = {PACE: r"\d+(\.\d+)?", "delta.checkpointinterval": r"[1-9]\d*"}
        for name in options.keys() & {PACE, *_PROPERTIES} - {FEED.lower()}:
            pattern = patterns.get(name, r"interval \d+ (second|minute|hour|day|week)s?")
            if not re.fullmatch(pattern, options[name]):
                example = "interval 7 days" if name not in patterns else "10"
                raise InputError(f"OPTIONS ({name} {options[name]!r}): such as '{example}'")
        if float(options.get(PACE, PACE_SECONDS)) > PACE_MAX:
            raise InputError(f"OPTIONS ({PACE} {options[PACE]!r}): at most {PACE_MAX:g}")

    @classmethod
    def collide(cls, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
        first, second = sorted((_place(one), _place(other)), key=len)
        return second.startswith(first)

    def prepare(self, form: RowForm) -> None:
        if self._form is None or not self._form.is_of(form):
            self._form = ViewForm(form)
            self._store = RowFiles(self._folder, self._form)

    def marker(self) -> Marker | None:
        opened = self._look()
        if opened is None:
            return None
        found, attempt = self._heard(opened)
        return self._untold if self._untold and (found, attempt) == (self._told, self._attempt) else found

    def begin(self, mine: Marker, *, force: bool = False) -> Marker | None:
        self._mine, self._staged, self._replaced, self._attempt = mine, None, False, None
        self._told, self._untold = None, None
        opened = self._look()
        if opened is None:
            return None
        was, _ = self._heard(opened)
        if was.database != mine.database:
            raise self._taken(f"rows of another database ({was.database})")
        if was.epoch > mine.epoch and not force:
            raise LaterEpoch(f"it was written in epoch {was.epoch}, and this is {mine.epoch}")
        attempt = _new_attempt()
        self._commit(opened, was._replace(epoch=mine.epoch), attempt)
        self._attempt = attempt
        return was

    def write(self, form: RowForm, at: Written, came: Rows, gone: Rows) -> None:
        with self._folder.translated():
            self._begun().write(came, gone)

    def complete(self, marker: Marker) -> None:
        if self._mine is None:
            raise Begun("nothing was begun")
        if self._form is None:
            opened = self._look_again()
            if opened is not None:  # else there is nothing to say it of
                self._commit(opened, marker, self._attempt)
            return
        staged = self._begun()
        with self._folder.translated():
            actions = staged.actions()
        if not actions and not staged.replaced and self._is_quiet(marker):
            self._untold = marker
            self._staged = None
            return
        if self._base is None:
            self._create(marker, actions)
        else:
            opened, version = self._base
            if opened.version() != version:
                raise Begun("others have written the table meanwhile")
            self._commit(opened, marker, self._attempt, actions, staged.replaced)
        staged.done()
        self._staged, self._replaced = None, False
        self._told, self._told_at, self._untold = marker, time.monotonic(), None

    def deviations(self, form: RowForm, rows: Iterable[Rows]) -> Iterator[tuple[list[Deviation], Mending]]:
        prepared, store = self._prepared(form)
        opened, files = self._look(), list[RowFile]()
        if opened is not None:
            wrong = self._misfit(opened, prepared)
            if wrong is not None:  # all of it is written, as another table
                self._replaced = True
                yield [Deviation("its columns", prepared.shown_columns(), dict(wrong))], []
            else:
                files = RowFiles.of(opened)
        with self._folder.translated():
            compared = LakeRows(store, files)
        for block in chain(rows, (None,)):
            with self._folder.translated():
                found = list(compared.left() if block is None else [compared.compared(block)])
            yield from ((each.deviations, [each.came, each.gone]) for each in found)

    def mend(self, at: Written, mending: Mending) -> None:
        with self._folder.translated():
            staged = self._begun()
            if mending:
                staged.write(*mending)

    def clear(self) -> None:
        assert self._mine is not None, "it has begun"
        opened = self._look_again()
        if opened is not None:
            with self._folder.translated():
                gone = [file.removed() for file in RowFiles.of(opened)]
            self._commit(opened, Marker(self._mine.database, 0, 0, epoch=self._mine.epoch), self._attempt, gone)

    def get(self, form: RowForm, key: Rows) -> list[dict[str, Any]]:
        prepared, store = self._prepared(form)
        opened = self._look()
        if opened is None:
            return []
        self._require_fit(opened, prepared)
        keys = [canonical(column) for column in key.columns]
        with self._folder.translated():
            for file in RowFiles.of(opened):
                found = store.having(file, keys, hash_columns(keys, 1))
                if found is not None:
                    rows = prepared.rows(found[0].slice(int(found[1][0]), 1))
                    return prepared.values(rows) * int(rows.weights[0])
        return []

    def close(self) -> None:
        self._folder.close()
        self._form, self._store, self._staged = None, None, None

    def _look(self) -> DeltaTable | None:
        """The table; None where there is none, and it can be made."""
        with self._folder.translated():
            try:
                return self._folder.newest()
            except TableNotFoundError:
                pass
            other = next(filter(self._is_others, self._folder.names()), None)
        if other is not None:
            raise self._taken(f"what is no Delta table, such as {other!r}")
        return None

    def _look_again(self) -> DeltaTable | None:
        """The table, as it has been begun to write it; raises Begun."""
        opened = self._look()
        if (None if opened is None else self._heard(opened)[1]) != self._attempt:
            raise Begun("another writer has begun, or the table is not the one that was written")
        return opened

    def _heard(self, opened: DeltaTable) -> tuple[Marker, int]:
        """What the table says of itself, and which attempt that was."""
        with self._folder.translated():
            said: dict[str, int | None] = {**read_transactions(self._folder.files, opened.version())}
            if any(name not in said for name in _NAMES):  # another program's commit
                said = {name: opened.transaction_version(name) for name in _NAMES}
        found = [number for name in _NAMES if (number := said[name]) is not None]
        if len(found) < len(_NAMES):
            raise self._taken("a table that is not viewkeeper's")
        database, view, state, version, manifest, identity, epoch, attempt = found
        return Marker(_text(database), view, state, Written(version, manifest, _text(identity)), epoch), attempt

    def _begun(self) -> Staged:
        """What is being written, on top of what is there now."""
        if self._staged is not None:
            return self._staged
        if self._mine is None:
            raise Begun("nothing was begun")
        assert self._form is not None, "it is prepared"
        assert self._store is not None, "it is prepared"
        opened = self._look_again()
        if opened is None:
            self._folder.make()
        elif self._replaced:
            opened = self._made_able(opened, self._form)
        else:
            self._require_fit(opened, self._form)
        with self._folder.translated():
            committed = [] if opened is None else RowFiles.of(opened)
        self._base = None if opened is None else (opened, opened.version())
        self._staged = Staged(self._store, committed, self._replaced)
        return self._staged

    def _is_quiet(self, marker: Marker) -> bool:
        """Whether what the table says of itself, as this process has had it say, may stay, though it is also there as
        of `marker`."""
        if self._told is None or self._told._replace(at=marker.at) != marker:
            return False
        longest = max(self.pause_seconds, min(QUIET_PAUSES * self.pause_seconds, QUIET_SECONDS))
        return time.monotonic() - self._told_at < longest

    def _made_able(self, opened: DeltaTable, form: ViewForm) -> DeltaTable:
        """The table, which can have the columns of `form` afterwards: a commit of its own."""
        able = opened.protocol().writer_features or []
        if not form.has_local_times or "timestampNtz" in able:
            return opened
        with self._folder.translated():
            opened.alter.add_feature([TableFeatures.TimestampWithoutTimezone], allow_protocol_versions_increase=True)
        again = self._look_again()
        if again is None:
            raise Begun("the table is gone")
        return again

    def _create(self, marker: Marker, actions: list[AddAction | RemoveAction]) -> None:
        assert self._form is not None, "it is prepared"
        attempt = _new_attempt()
        added = [action for action in actions if isinstance(action, AddAction)]
        with self._folder.translated():
            try:
                create_table_with_add_actions(
                    self._folder.path, Schema.from_arrow(self._form.schema), added, configuration=self._properties,
                    storage_options=self._folder.storage, commit_properties=_said(marker, attempt),
                )  # fmt: skip
            except DeltaError as error:
                if not DeltaTable.is_deltatable(self._folder.path, self._folder.storage):
                    raise
                raise Begun("another writer has made the table") from error
        self._attempt = attempt

    def _commit(
        self, opened: DeltaTable, marker: Marker, attempt: int | None, actions: Sequence[AddAction | RemoveAction] = (),
        replaced: bool = False,
    ) -> None:  # fmt: skip
        """Does it as the commit behind the version that is open, or raises Begun."""
        if not self._folder.is_still(opened):
            raise Begun("the table is not the one that was written")
        mode, schema = ("append", opened.schema()) if not replaced else ("overwrite", self._schema())
        with self._folder.translated():
            try:
                opened.create_write_transaction(list(actions), mode, schema, commit_properties=_said(marker, attempt))
            except CommitFailedError as error:
                raise Begun(f"others have written the table meanwhile ({error})") from error

    def _schema(self) -> Schema:
        assert self._form is not None, "it is prepared"
        return Schema.from_arrow(self._form.schema)

    def _prepared(self, form: RowForm) -> tuple[ViewForm, RowFiles]:
        self.prepare(form)
        assert self._form is not None, "it is prepared"
        assert self._store is not None, "it is prepared"
        return self._form, self._store

    def _misfit(self, opened: DeltaTable, form: ViewForm) -> dict[str, str] | None:
        """The columns that are there, where they are not those of the view; raises Error where it cannot be read."""
        metadata = metadata_of(opened)
        why = metadata.unreadable or ("it is partitioned" if metadata.partitioned_by else None)
        if why is not None:
            raise Error(f"{self._folder.path} was changed by others: {why}; delete it, and it is made again")
        return form.misfit(metadata)

    def _require_fit(self, opened: DeltaTable, form: ViewForm) -> None:
        wrong = self._misfit(opened, form)
        if wrong is not None:
            listed = ", ".join(f"{name} {type_}" for name, type_ in wrong.items())
            raise Error(f"{self._folder.path} was changed by others: it has the columns {listed}; viewkeeper check "
                        "--repair mends it")  # fmt: skip

    def _is_others(self, name: str) -> bool:
        """Whether what is there by this name, without a table, is not left of a writing that was cut off."""
        if name == "_delta_log":
            return any(each.endswith((".json", ".parquet")) for each in self._folder.names(name))
        return not name.startswith(OURS)

    def _taken(self, what: str) -> TargetTaken:
        return TargetTaken(f"{self._folder.path} holds {what}; take another path, or delete what is there")


def _place(options: Mapping[str, str]) -> str:
    return options["path"].removeprefix("file://").rstrip("/") + "/"


def _number(identity: str) -> int:
    """16 hexadecimal digits, or none, as a number of 64 bits with a sign."""
    return int.from_bytes(bytes.fromhex(identity.rjust(16, "0")), signed=True)


def _text(number: int) -> str:
    return number.to_bytes(8, signed=True).hex() if number else ""


def _new_attempt() -> int:
    return secrets.randbits(62)


def _said(marker: Marker, attempt: int | None) -> CommitProperties:
    """The marker, as a commit says it."""
    assert attempt is not None, "there is a table"
    at = marker.at
    numbers = (_number(marker.database), marker.view, marker.state, at.version, at.manifest, _number(at.identity),
               marker.epoch, attempt)  # fmt: skip
    shown = f"viewkeeper: view {marker.view} of database {marker.database}, version {at.version}"
    return CommitProperties({"userMetadata": shown}, 0, list(map(Transaction, _NAMES, numbers)))
