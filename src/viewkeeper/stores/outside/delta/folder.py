"""The folder of a Delta table: how it is reached, and the newest version of the table in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from viewkeeper.errors import Error, InputError, StoreAway
from viewkeeper.stores.outside.delta.commits import commit_path
from viewkeeper.stores.outside.delta.schema import Metadata
from viewkeeper.stores.outside.options import filled_in, require_known

_STORAGE = "storage."


def check_place(options: Mapping[str, str], optional: Collection[str] = ()) -> None:
    """Raises InputError, naming the option, where no Delta table can be at such a place."""
    require_known("delta", options, ("path",), optional, _STORAGE)
    for name in options:
        if name.startswith(_STORAGE) and name.endswith("_key"):
            raise InputError(f"OPTIONS ({name} ...): a secret is not kept in the catalog; name the environment "
                             f"variable that has it, {name}_env '...', or a file, {name}_file '...'")  # fmt: skip
    if "://" not in (path := options["path"]) and not path.startswith("/"):
        raise InputError(f"OPTIONS (path {path!r}): several processes read it; say the whole path, or a URI")


class LakeFolder:
    """A folder with a Delta table, or for one; for one thread at a time.  `said` makes a message of what is wrong."""

    def __init__(self, options: Mapping[str, str], said: Callable[[str], str] = str) -> None:
        given = filled_in(options)
        self.path = given["path"]
        self._storage = {name.removeprefix(_STORAGE): value for name, value in given.items()
                         if name.startswith(_STORAGE)}  # fmt: skip
        self._said = said
        self._newest: DeltaTable | None = None
        self._mark: tuple[int, int] | None = None
        self._files: pa.fs.FileSystem | None = None

    @property
    def is_local(self) -> bool:
        return "://" not in self.path or self.path.startswith("file:")

    @property
    def storage(self) -> dict[str, str]:
        """`storage_options` as `deltalake` has them."""
        return dict(self._storage)

    @property
    def files(self) -> pa.fs.FileSystem:
        """The folder's files, by their paths in it; raises TableNotFoundError where there is no such folder here."""
        if self._files is None:
            self._files = pa.fs.PyFileSystem(DeltaStorageHandler(self.path, self.storage))
        return self._files

    def newest(self) -> DeltaTable:
        """The table in its newest version.  It is opened anew where the commit that was the newest is not there any
        more, or is another one: the table was made anew.  Raises TableNotFoundError where there is none."""
        opened, self._newest = self._newest, None
        if opened is not None and self._mark_of(opened) == self._mark:
            opened.update_incremental()
        else:
            opened = DeltaTable(self.path, storage_options=self.storage)
        self._mark = self._mark_of(opened)
        self._newest = opened
        return opened

    def is_still(self, opened: DeltaTable) -> bool:
        """Whether what `newest` gave is there as it was, though others may have come after it."""
        return opened is self._newest and self._mark_of(opened) == self._mark

    def at(self, version: int) -> DeltaTable:
        """The table in an earlier version."""
        return DeltaTable(self.path, version, self.storage)

    def make(self) -> None:
        """Has a folder for a table that is to be made."""
        if self.is_local:
            Path(self.path.removeprefix("file://")).mkdir(parents=True, exist_ok=True)

    def names(self, under: str = "") -> list[str]:
        """The paths of what is in it, at its top or in the folder `under`; empty where that is not there."""
        try:
            found = self.files.get_file_info(pa.fs.FileSelector(under, allow_not_found=True))
        except TableNotFoundError:
            return []
        return [info.path for info in found]

    def close(self) -> None:
        """Gives up what is held of it."""
        self._newest, self._files = None, None

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raises Error where there is no table, StoreAway where its storage does not answer."""
        try:
            yield
        except TableNotFoundError as error:
            raise Error(self._said(f"there is no Delta table at {self.path}")) from error
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise StoreAway(self._said(f"{self.path} cannot be read: {' '.join(str(error).split())}")) from error

    def _mark_of(self, opened: DeltaTable) -> tuple[int, int]:
        try:
            found = self.files.get_file_info(commit_path(opened.version()))
        except TableNotFoundError:
            return 0, 0
        return found.mtime_ns or 0, found.size or 0


def metadata_of(opened: DeltaTable) -> Metadata:
    """What the table says of itself."""
    found = opened.metadata()
    return Metadata.made(str(found.id), opened.schema().to_json(), found.partition_columns, found.configuration)
