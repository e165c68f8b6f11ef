"""Rows of dropped tables leave the store.

Nothing has to be remembered for that: ids are never given twice, so rows of a table that no catalog has are those of a
dropped one, whoever wrote them and when, also a writer that did not know of the drop yet.
"""

from __future__ import annotations

import contextlib
import shutil

from viewkeeper.errors import NotFound
from viewkeeper.pipeline.term import Term
from viewkeeper.stores.contract import Store

FOLLOWS = "follow"
"""In the database's folder: by table id, the checkpoints of Spark streams that tables follow (`views.table_follow`)."""


def forget_dropped(term: Term, store: Store, seconds: float) -> bool:
    """Removes rows of dropped tables, and what they followed, for about so long; whether it is to be called again soon.

    Tables of versions that somebody holds stay: their rows may still be compared with them.
    """
    catalog = term.snapshot.catalog
    # Greater ids may be those of tables that a later driver has made, of which this one does not know.
    follows = term.storage.root / FOLLOWS
    followed = [int(each.name) for each in follows.iterdir()] if follows.is_dir() else []
    dropped = {id_ for id_ in {*store.stored_tables(), *followed} if id_ < catalog.next_id}
    dropped -= {table.id for table in catalog.tables}
    for number in term.storage.held() if dropped else ():
        with contextlib.suppress(NotFound):
            dropped -= {table.id for table in term.storage.at(number).catalog.tables}
    for id_ in dropped & set(followed):
        shutil.rmtree(follows / str(id_), ignore_errors=True)
    return bool(dropped) and store.forget(dropped, seconds)
