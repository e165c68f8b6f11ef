"""The stream of the demo and its views: one of each class, and how Spark SQL would compute all their parts at once."""

from __future__ import annotations

from typing import NamedTuple

STREAM = """
CREATE TABLE hosts (name STRING, site STRING, PRIMARY KEY (name));
CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING, dest STRING, loss INT)
  TIMESTAMP BY ts PARTITION LENGTH 60 HORIZON INTERVAL 1 HOUR
"""


class DemoStreamView(NamedTuple):
    """A view; `again` computes it anew from the table `m` (with the column `part`), the part first.

    `again` may name `first` and `last`, the stream's first and newest part.
    """

    name: str
    kind: str
    query: str
    again: str


HIGH_LOSS = DemoStreamView(
    "high_loss", "PATTERN [a, b, c, d+]",
    """SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss FROM m PATTERN [a, b, c, d+]
    WHERE a.loss > 10 AND b.loss > 10 AND c.loss > 10 AND d.loss > 10 GROUP BY src, dest""",
    """WITH high AS (
      SELECT *, part - row_number() OVER (PARTITION BY src, dest ORDER BY part) AS run FROM m WHERE loss > 10
    ), runs AS (
      SELECT part, src, dest, count(*) OVER so_far AS ct, sum(loss) OVER so_far AS sum_loss FROM high
      WINDOW so_far AS (PARTITION BY src, dest, run ORDER BY part)
    )
    SELECT * FROM runs WHERE ct >= 4""",
)  # fmt: skip

SITE_LOSS = DemoStreamView(
    "site_loss", "[WINDOW 10 MINUTES], a join",
    """SELECT site, max(loss) AS most, sum(loss) AS total, count(*) AS n
    FROM m [WINDOW 10 MINUTES] JOIN hosts ON src = name GROUP BY site""",
    """SELECT ends AS part, site, max(loss), sum(loss), count(*)
    FROM (SELECT *, explode(sequence(part, part + 9)) AS ends FROM m) JOIN hosts ON src = name
    WHERE ends BETWEEN {first} + 9 AND {last} GROUP BY ends, site""",
)  # fmt: skip

QUARTERS = DemoStreamView(
    "quarters", "a ViewDF, 15 minutes a part",
    """INITIALIZE quarters[i] AS
      SELECT src, sum(loss) AS loss, count(*) AS n FROM m[i*15..i*15+14] GROUP BY src
    UPDATE quarters[j] AS
      SELECT src, sum(loss), count(*) FROM m[j*15..j*15+14] GROUP BY src
    PARTITION LENGTH 900""",
    """SELECT part DIV 15 AS part, src, sum(loss), count(*) FROM m
    WHERE part >= ({first} + 14) DIV 15 * 15 AND part < ({last} + 1) DIV 15 * 15 GROUP BY part DIV 15, src""",
)  # fmt: skip

OUTAGES = DemoStreamView(
    "outages", "MATCH_RECOGNIZE",
    """SELECT * FROM m MATCH_RECOGNIZE (
      PARTITION BY src, dest ORDER BY ts
      MEASURES first(bad.ts) AS since, count(*) AS minutes
      PATTERN (bad+ good) DEFINE bad AS loss > 10, good AS loss <= 10)""",
    """WITH numbered AS (
      SELECT *, count_if(loss <= 10) OVER (PARTITION BY src, dest ORDER BY ts
                                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS run FROM m
    )
    SELECT max(part) AS part, src, dest, min(ts), count(*) FROM numbered
    GROUP BY src, dest, run HAVING count(*) > 1 AND count_if(loss <= 10) = 1""",
)  # fmt: skip

VIEWS = (HIGH_LOSS, SITE_LOSS, QUARTERS, OUTAGES)

DECLARATIONS = ";\n".join([STREAM, *(f"CREATE VIEW {view.name} AS {view.query}" for view in VIEWS)])
