"""SQL materialized views over key-value stores, kept incrementally up to date and provably consistent.

The way in is `connect`; `docs/life-of-an-operation.md` and `docs/life-of-a-view.md` walk through the rest.  The parts,
in the order in which data flows; each imports only those before it:

- `errors`, `settings`, `files`
- `catalog`      tables, views, column types
- `plans`        queries as bound, and how each kind of view is kept
- `evaluation`   values of expressions, on columns
- `compiler`     SQL text to relations
- `trace`        state: runs, merges, manifests, commit
- `jobs`         what view servers share, and how rows cross between them
- `maintenance`  relations to a plan of operators, and what they compute
- `changes`      operations and the logs they stand in
- `stores`       where base tables live
- `pipeline`     batches, fills, merges, on Spark
- `views`        reading
- `dml`          INSERT, UPDATE, DELETE, MERGE
- `checker`      is it right
- `database`, `commands`, `cli`   what users hold
"""

from importlib import import_module
from typing import TYPE_CHECKING

from viewkeeper.errors import (
    Busy,
    CheckFailed,
    Damaged,
    DeclarationError,
    Error,
    Fenced,
    InputError,
    NotFound,
    NotReady,
    NotSupported,
    StorageError,
    Timeout,
    ViewBroken,
)

if TYPE_CHECKING:
    from viewkeeper.changes.positions import Token
    from viewkeeper.database import Database, connect

__all__ = [
    "Busy", "CheckFailed", "Damaged", "Database", "DeclarationError", "Error", "Fenced", "InputError", "NotFound",
    "NotReady", "NotSupported", "StorageError", "Timeout", "Token", "ViewBroken", "connect",
]  # fmt: skip

_LATER = {"connect": "database", "Database": "database", "Token": "changes.positions"}


def __getattr__(name: str) -> object:
    # Imported when first used: view servers are started often, and need neither the compiler nor the facade.
    if name not in _LATER:
        raise AttributeError(f"module 'viewkeeper' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"viewkeeper.{_LATER[name]}"), name)
    return value
