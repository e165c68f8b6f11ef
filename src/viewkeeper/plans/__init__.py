"""What the catalog holds beside declarations: queries as bound, and the plan of each kind of view.  Plain data.

Importing this package makes all its classes known to the codec, so that who reads one view need not know what the plans
of all others are made of.
"""

from viewkeeper.catalog import codec
from viewkeeper.catalog.model import Catalog
from viewkeeper.plans import (
    expressions,
    maintenance,
    match,
    outside,
    pattern,
    references,
    relations,
    subqueries,
    viewdf,
    window,
)  # fmt: skip

__all__ = [
    "expressions", "maintenance", "match", "outside", "pattern", "read_catalog", "references", "relations",
    "subqueries", "viewdf", "window",
]  # fmt: skip


def read_catalog(data: bytes) -> Catalog:
    """A catalog, with whatever it holds, as `codec.dumps` wrote it."""
    catalog = codec.loads(data)
    assert isinstance(catalog, Catalog)
    return catalog
