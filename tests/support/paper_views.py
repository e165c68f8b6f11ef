"""The ViewDFs of paper 003 with their slips mended: join conditions written out, COALESCE for missing previous rows."""

from __future__ import annotations

STREAMS = """
CREATE STREAM M (ts TIMESTAMP NOT NULL, src STRING, dest STRING, loss INT) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE STREAM N (ts TIMESTAMP NOT NULL, src STRING, dest STRING, delay INT) TIMESTAMP BY ts PARTITION LENGTH 60;
"""

HELPER = """
CREATE VIEW Helper AS
INITIALIZE Helper[i] AS
  SELECT src, dest, 1 AS ct, loss AS sum_loss
  FROM M[i]
  WHERE loss>10
UPDATE Helper[j] AS
  SELECT src, dest, COALESCE(ct, 0)+1, COALESCE(sum_loss, 0)+loss
  FROM (
    SELECT New.src AS src,
           New.dest AS dest,
           Prev.ct AS ct,
           Prev.sum_loss AS sum_loss,
           New.loss AS loss
    FROM M[j] AS New
    LEFT OUTER JOIN Helper[j-1] AS Prev
    ON New.src = Prev.src AND New.dest = Prev.dest
    WHERE New.loss>10 )
PARTITION LENGTH 60;
"""

VIEW2 = """
CREATE VIEW View2 AS
INITIALIZE View2[i] AS
  SELECT src, dest, ct, sum_loss
  FROM Helper[i]
  WHERE ct >= 4
UPDATE View2[j] AS
  SELECT src, dest, ct, sum_loss
  FROM Helper[j]
  WHERE ct >= 4
PARTITION LENGTH 60;
"""

VIEW3 = """
CREATE VIEW View3 AS
INITIALIZE View3[i] AS
  SELECT src, dest, sum(loss) as sum_loss
  FROM M[i*60-59 .. i*60]
  GROUP BY src, dest
UPDATE View3[j] AS
  SELECT src, dest, sum(loss)
  FROM M[j*60-59 .. j*60]
  GROUP BY src, dest
PARTITION LENGTH 3600;
"""

JOIN = """
CREATE VIEW J AS
INITIALIZE J[i] AS
  SELECT M.src, M.dest, loss, delay
  FROM M[i] JOIN N[i] ON M.src = N.src AND M.dest = N.dest
UPDATE J[j] AS
  SELECT M.src, M.dest, loss, delay
  FROM M[j] JOIN N[j] ON M.src = N.src AND M.dest = N.dest
PARTITION LENGTH 60;
"""

VIEW4 = """
CREATE VIEW States AS
INITIALIZE States[i] AS
  SELECT New.src AS src, New.dest AS dest,
  New.loss AS sum_loss, 1 AS ct, 1 AS state
  FROM M[i] AS New WHERE New.loss > 10
UPDATE States[j] AS
  SELECT New.src, New.dest,
  COALESCE(Prev.sum_loss, 0) + New.loss, 1 + COALESCE(ct, 0),
  CASE WHEN COALESCE(state, 0) < 4 THEN COALESCE(state, 0) + 1
       ELSE state
  END
  FROM M[j] AS New
  LEFT OUTER JOIN States[j-1] AS Prev ON New.src = Prev.src AND New.dest = Prev.dest
  WHERE New.loss > 10
PARTITION LENGTH 60;
CREATE VIEW View4 AS
INITIALIZE View4[i] AS
  SELECT src, dest, ct, sum_loss
  FROM States[i]
  WHERE state=4
UPDATE View4[j] AS
  SELECT src, dest, ct, sum_loss
  FROM States[j]
  WHERE state=4
PARTITION LENGTH 60;
"""

VIEW5 = """
CREATE VIEW Greatest AS
INITIALIZE Greatest[i] AS
  SELECT src, max(loss) as max_loss
  FROM M[i]
  GROUP BY src
UPDATE Greatest[j] AS
  SELECT src, max(loss)
  FROM M[j]
  GROUP BY src
PARTITION LENGTH 60;
CREATE VIEW View5 AS
INITIALIZE View5[i] AS
  SELECT src, max(max_loss) as max_loss
  FROM Greatest[i-5+1..i]
  GROUP BY src
  HAVING max(max_loss) > 10
UPDATE View5[j] AS
  SELECT src, max(max_loss)
  FROM Greatest[j-5+1..j]
  GROUP BY src
  HAVING max(max_loss) > 10
PARTITION LENGTH 60;
"""

VIEW6 = """
CREATE VIEW Sums AS
INITIALIZE Sums[i] AS
  SELECT src, sum(loss) AS sum_loss
  FROM M[i]
  GROUP BY src
UPDATE Sums[j] AS
  SELECT src, sum(Temp_Sum) AS sum_loss
  FROM (
    SELECT src, sum(loss) AS Temp_Sum
    FROM M[j]
    GROUP BY src
    UNION ALL
    SELECT src, sum_loss AS Temp_Sum
    FROM Sums[j-1]
  ) AS Temp
  GROUP BY src
PARTITION LENGTH 60;
CREATE VIEW View6 AS
INITIALIZE View6[i] AS
  SELECT Temp.src, sum(Temp.Temp_Sum) AS sum_loss
  FROM (
    SELECT src, sum_loss AS Temp_Sum
    FROM Sums[i]
    UNION ALL
    SELECT src, sum_loss*(-1) AS Temp_Sum
    FROM Sums[i-5]
  ) AS Temp
  GROUP BY Temp.src
  HAVING sum(Temp.Temp_Sum)>0
UPDATE VIEW View6[j] AS
  SELECT Temp.src, sum(Temp.Temp_Sum) AS sum_loss
  FROM (
    SELECT src, sum_loss AS Temp_Sum
    FROM Sums[j]
    UNION ALL
    SELECT src, sum_loss*(-1) AS Temp_Sum
    FROM Sums[j-5]
  ) AS Temp
  GROUP BY Temp.src
  HAVING sum(Temp.Temp_Sum)>0
PARTITION LENGTH 60;
"""

VIEWS = HELPER + VIEW2 + VIEW3 + JOIN + VIEW4 + VIEW5 + VIEW6
