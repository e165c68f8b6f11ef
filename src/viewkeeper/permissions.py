"""Who may read what a database holds: its folder is its owner's alone, and whatever is made in a folder is for those
whom the folder is for.

So the permissions are the owner's to choose: `chmod -R g+rwX` on the database's folder lets a group in, and what is
made from then on follows.  The umask has no say.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

OWNER_ONLY = 0o700
_RIGHTS = 0o777


def make_root(folder: Path) -> None:
    """Make the folder of a database, and what is missing above it; one that is there is its owner's alone then."""
    folder.mkdir(OWNER_ONLY, parents=True, exist_ok=True)
    if folder.stat().st_uid == os.geteuid():  # another's folder stays as its owner wants it
        folder.chmod(OWNER_ONLY)


def make_folder(folder: Path) -> None:
    """Make `folder`, for those whom the folder around it is for; harmless where it is there."""
    above = folder.parent.stat().st_mode
    try:
        folder.mkdir(OWNER_ONLY)
    except FileExistsError:
        return
    _set(folder, above & (_RIGHTS | stat.S_ISGID))


def open_new(path: Path | str, flags: int = os.O_WRONLY) -> int:
    """The descriptor of the new file `path`, for those whom its folder is for; raises FileExistsError."""
    wanted = file_rights(Path(path).parent)
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, wanted)
    try:
        if os.fstat(descriptor).st_mode & _RIGHTS != wanted:  # the umask took something away
            os.fchmod(descriptor, wanted)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_shared(path: Path) -> int:
    """The descriptor, to read and write, of a file that several processes use, made if absent."""
    try:
        return open_new(path, os.O_RDWR)
    except FileExistsError:
        return os.open(path, os.O_RDWR)


def file_rights(folder: Path) -> int:
    """The permissions of files in `folder`."""
    return folder.stat().st_mode & 0o666


def settle_file(path: Path) -> None:
    """Give a file that something else has made the permissions of its folder's files."""
    found, wanted = path.stat(), file_rights(path.parent)
    if found.st_mode & _RIGHTS != wanted and found.st_uid == os.geteuid():
        path.chmod(wanted)


def _set(folder: Path, wanted: int) -> None:
    if folder.stat().st_mode & (_RIGHTS | stat.S_ISGID) != wanted:
        folder.chmod(wanted)
