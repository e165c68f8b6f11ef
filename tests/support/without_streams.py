"""What a check is shown of a database without streams."""

from __future__ import annotations

import pyarrow as pa

from viewkeeper.catalog.model import InParts, View


class WithoutStreams:
    """The part of `checker.check.Evidence` that is about streams."""

    def rows_of_parts(self, of: InParts) -> pa.Table:
        raise AssertionError(f"there is no stream {of.name}")

    def beyond(self, view: View) -> str:
        return ""
