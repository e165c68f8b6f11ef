"""A process that catches up once, in small steps, and may be killed on its way: the folder of the database is given."""

from __future__ import annotations

import sys

import viewkeeper
from local_maintenance import catch_up
from viewkeeper.pipeline import adopting
from viewkeeper.stores.outside import targets
from viewkeeper.stores.outside.delta import row_files

if __name__ == "__main__":
    targets.ROWS_AT_ONCE = row_files.ROWS_A_FILE = adopting.ROWS_AT_ONCE = 8
    with viewkeeper.connect(sys.argv[1], durability="process") as database:
        catch_up(database)
