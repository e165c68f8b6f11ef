"""Kinds of operations on base tables (`changes.operations`)."""

PUT, DELETE, DELETE_COLUMNS = 0, 1, 2
"""Set the named columns; delete the row; make the named columns NULL."""

UPDATE = 3
"""Of cells with timestamps alone: a put that does not make the row, which is there as long as a column of it has a
value."""

FROM, BEHIND, TO, BEFORE = 4, 5, 6, 7
"""Of cells with timestamps alone: the ends of a range of keys whose rows are deleted, two operations with one node and
sequence, and nothing else has these: FROM a key (it included) or BEHIND it, then TO a key (it included) or BEFORE it.
They carry the key; of its columns behind the partition key `set` names those that the end speaks of, the first so many:
of the others it holds any value.  An end that names none of them is that of the partition."""
