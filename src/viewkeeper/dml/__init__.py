"""Statements that change rows: INSERT, UPDATE, DELETE and MERGE, each one atomic step (docs/sql.md).

`run_change` is where one begins: it binds the statement (compiler/bind_changes.py), computes what is to be done from
rows as they are written (`rows_read`), by the operators of a SELECT, and makes operations of it (`row_operations`),
which the store does if what was read still holds then (`Store.change`).
"""
