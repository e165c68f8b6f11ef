"""What a database answers by Spark, in whatever environment: the tests run it here, and in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import viewkeeper

SETTINGS = {
    "parser.escapedStringLiterals": "true", "parser.quotedRegexColumnNames": "true", "groupByOrdinal": "false",
    "orderByOrdinal": "false", "groupByAliases": "false", "decimalOperations.allowPrecisionLoss": "false",
    "caseSensitive": "true", "ansi.enabled": "false", "ansi.doubleQuotedIdentifiers": "true",
    "session.timeZone": "Asia/Tokyo", "timestampType": "TIMESTAMP_NTZ", "legacy.timeParserPolicy": "LEGACY",
    "legacy.sizeOfNull": "false", "legacy.exponentLiteralAsDecimal.enabled": "true",
    "legacy.literal.pickMinimumPrecision": "false", "legacy.setopsPrecedence.enabled": "true",
    "legacy.charVarcharAsString": "true", "legacy.interval.enabled": "true", "legacy.bangEqualsNot": "true",
    "legacy.consecutiveStringLiterals.enabled": "true", "mapKeyDedupPolicy": "LAST_WIN",
    "function.concatBinaryAsString": "true", "function.eltOutputAsString": "true", "storeAssignmentPolicy": "LEGACY",
    "legacy.statisticalAggregate": "true", "legacy.percentileDiscCalculation": "true",
    "parquet.inferTimestampNTZ.enabled": "false", "parquet.binaryAsString": "true", "files.ignoreMissingFiles": "true",
    "optimizer.maxIterations": "1", "runSQLOnFiles": "true", "variable.substitute": "true",
    "execution.arrow.useLargeVarTypes": "true", "lateralColumnAlias.enableImplicitResolution": "false",
}  # fmt: skip
"""Each is another one than Spark's own, and can change an answer."""

DECLARED = """
CREATE TABLE t (id BIGINT, x STRING, d DECIMAL(38,18), at TIMESTAMP, b BINARY, PRIMARY KEY (id));
CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING, d DECIMAL(38,18)) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE VIEW texts AS SELECT ID, 'a\\tb' AS tab, 'it''s' AS quote, "twice" AS twice, 'a' 'b' AS ab FROM T;
CREATE VIEW grouped AS SELECT x AS letter, count(*) AS n FROM t GROUP BY letter;
CREATE VIEW numbers AS SELECT id, d * d AS squared, d / 3 AS third, 1e3 AS thousand, 0.5 * d AS half FROM t;
CREATE VIEW moments AS SELECT id, at FROM t WHERE at < TIMESTAMP '2024-07-01 12:30:00';
CREATE VIEW plain AS SELECT UPPER(SRC) AS src, 'a\\tb' AS tab, src RLIKE '^\\\\w$' AS word, d * d AS squared,
  1e3 AS thousand, date_format(ts, 'yyyy-MM-dd HH') AS hour, ts < TIMESTAMP '2015-01-01 00:30:00' AS early,
  size(CAST(NULL AS ARRAY<INT>)) AS sized, concat(X'41', X'42') AS bytes, lower('TITLE') AS small,
  CAST(TIMESTAMP '2015-07-01 00:00:00' AS STRING) AS moment, "twice" AS twice, 'a' 'b' AS ab FROM m;
"""
QUERIES = (
    "SELECT x, count(*) AS n, '\\n' AS line, 'a' 'b' AS ab FROM t GROUP BY 1 ORDER BY 1",
    "SELECT ID + 1 AS i, i * 2 AS j, D / 3 AS third, TIMESTAMP '2024-07-01 00:00:00' AS m, at FROM T ORDER BY 1",
    "SELECT typeof(d * d) AS a, typeof(0.5 * d) AS b, typeof(1e3) AS c, concat(b, b) AS e, '${x}' AS g FROM t",
    "SELECT count(DISTINCT PART_TIMESTAMP) AS n, min(date_format(ts, 'EEEE MMMM HH')) AS day FROM m",
    "SELECT 1 AS a UNION SELECT 2 INTERSECT SELECT 2 ORDER BY 1",
    "SELECT CAST('x' AS INT) FROM t",
    "SELECT upper('i') AS i, lower('I') AS j, initcap('ii') AS k, format_number(1234.5, 1) AS n FROM t",
)


def answers(folder: Path) -> list[Any]:
    """All that Spark has a hand in: views, `check`, queries, DataFrames."""
    with viewkeeper.connect(folder, zone="Europe/Berlin", durability="process") as db:
        db.sql(DECLARED)
        db.table("t").put({"id": 1, "x": "q", "d": "1.000000000000000003", "at": "2024-07-01 12:00", "b": b"\xff"})
        db.stream("m").append([{"ts": f"2015-01-01 00:{minute:02}", "src": "a", "d": "1.000000000000000003"}
                               for minute in (1, 31, 59)])  # fmt: skip
        db.catch_up(timeout=120)
        reports = db.check_all()
        found: list[Any] = [
            db.view("plain").to_arrow().to_pylist(), db.view("moments").to_spark().toArrow().to_pylist(),
            db.view("numbers").to_spark().dtypes, [(report.view, report.verdict) for report in reports],
            [str(report) for report in reports if not report.ok],
        ]  # fmt: skip
        for query in QUERIES:
            try:
                found.append(list(db.sql(query, engine="spark")))
            except Exception as error:  # noqa: BLE001 - whatever it is, it must be the same
                found.append(str(error).split("]")[0])
        return json.loads(json.dumps(found, default=str))  # type: ignore[no-any-return]


if __name__ == "__main__":
    print(json.dumps(answers(Path(sys.argv[1]))))
