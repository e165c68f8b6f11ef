"""Scalar functions of SQL: one file and one entry each, found by name in `registry`."""
