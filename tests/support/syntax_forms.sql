-- select lists
s01: SELECT ALL id, n FROM t
s02: SELECT DISTINCT g, n FROM t
s03: SELECT t.*, n + 1 AS more FROM t
s04: SELECT * EXCEPT (tags, m, st) FROM t
s05: SELECT t.* EXCEPT (tags, m, st, g) FROM t
s06: SELECT id AS `a b`, n `c``d` FROM t
s07: SELECT id a, n AS b, a + b AS c FROM t
s08: SELECT `t`.`id`, t.`g` FROM t
s09: SELECT t.st.a, st.b, t.st.b AS b2 FROM t
s10: SELECT n AS "quoted" FROM t
s11: SELECT id, struct(*) AS r FROM (SELECT id, n FROM t)
s12: SELECT /* a /* nested */ comment */ id FROM t -- to the end
s13: SELECT /*+ BROADCAST(s) */ t.id, s.n FROM t JOIN s ON t.id = s.k
s14: SELECT /*+ REPARTITION(3), COALESCE(2) */ id FROM t
s15: FROM t SELECT id, n WHERE n > 1
s16: TABLE s
s17: SELECT 1 AS one
s18: SELECT id FROM t AS q WHERE q.n > 1
s19: SELECT id, (SELECT max(n) FROM s) AS top FROM t
s20: SELECT EXISTS (SELECT 1 FROM s WHERE s.k = t.id) AS there, id FROM t
s22: SELECT array_agg(n) AS ns FROM t WHERE id = 1
s23: SELECT * EXCEPT (id) FROM s JOIN (SELECT id FROM t) ON k = id
s24: SELECT coalesce(*) AS c FROM (SELECT n, n2 FROM (SELECT n, n + 1 AS n2 FROM t))
s25: SELECT count(*), count(DISTINCT g, n) AS d FROM (SELECT g, n FROM t) AS t
-- literals
l01: SELECT 'it''s' AS a, 'a' 'b' AS b, 'x\ny\t\\\u00e9' AS c, "double" AS d FROM s
l02: SELECT r'a\nb' AS a, R"c\d" AS b FROM s
l03: SELECT 1L AS a, 1S AS b, 1Y AS c, 1.5BD AS d, 1.5D AS e, 1.5F AS f, 1e3 AS g, 1e3BD AS h, .5 AS i, 5. AS j FROM s
l04: SELECT X'1F' AS a, x'ab' AS b FROM s
l05: SELECT DATE '2024-02-29' AS a, TIMESTAMP '2024-01-01 12:00:00' AS b, TIMESTAMP_NTZ '2024-01-01' AS c, TIMESTAMP_LTZ '2024-01-01' AS d FROM s
l06: SELECT DATE '2024' AS a, DATE '2024-2' AS b, TIMESTAMP '2024-01-01T00:00:00Z' AS c FROM s
l07: SELECT INTERVAL 1 DAY AS a, INTERVAL '1' DAY AS b, INTERVAL '1-2' YEAR TO MONTH AS c, INTERVAL '1 02:03:04.5' DAY TO SECOND AS d FROM s
l08: SELECT INTERVAL 1 YEAR 2 MONTHS AS a, INTERVAL '1 day 2 hours' AS b, INTERVAL 3 weeks AS c FROM s
l09: SELECT at + INTERVAL -3 DAY AS a, at - INTERVAL '-1' HOUR AS b, day + INTERVAL +2 DAY AS c FROM t
l10: SELECT TRUE AS a, false AS b, NULL AS c, CAST(NULL AS INT) AS d FROM s WHERE k = 1
l11: SELECT -1 AS a, - -1 AS b, +1 AS c, -(2) AS d, 2147483648 AS e, -2147483648 AS f, 9223372036854775808 AS g FROM s
l12: SELECT TIMESTAMP '2024-01-01 12:00:00 Europe/Berlin' AS a, TIMESTAMP '2024-01-01 12:00:00+02:00' AS b FROM s
l13: SELECT INTERVAL '3' MONTH AS a, INTERVAL '10' SECOND AS b, INTERVAL '1:2' HOUR TO MINUTE AS c FROM s
l14: SELECT TIME '12:00:00' < TIME '13:00:00' AS a FROM s
l16: SELECT '' AS a, '\'' AS b, '\0' IS NULL AS c, 'a\%b' AS d FROM s
l18: SELECT 1_000 AS a FROM s
l19: SELECT array(1, 2, 3) AS a, map('k', 1) AS b, named_struct('x', 1) AS c, struct(1 AS x, 2 AS y) AS d FROM s
l20: SELECT binary 'a' AS a FROM s
-- operators
o01: SELECT n DIV 2 AS a, n % 3 AS b, n / 2 AS c, mod(n, 2) AS d FROM t
o02: SELECT id FROM t WHERE g <=> 'a' OR g IS NOT DISTINCT FROM 'b' OR n IS DISTINCT FROM 1
o03: SELECT id FROM t WHERE g LIKE ANY ('a%', 'b%') OR g LIKE SOME ('c%')
o04: SELECT id FROM t WHERE g LIKE ALL ('a%', '%b') AND g NOT LIKE ALL ('x%')
o05: SELECT id FROM t WHERE g ILIKE 'A%' OR g ILIKE ANY ('b%', 'C_') OR g NOT ILIKE 'd'
o06: SELECT id FROM t WHERE g RLIKE '^a' OR g REGEXP 'b$' OR NOT g RLIKE 'c'
o07: SELECT id FROM t WHERE n BETWEEN 1 AND 3 OR n NOT BETWEEN 5 AND 7
o08: SELECT id FROM t WHERE n BETWEEN SYMMETRIC 3 AND 1
o09: SELECT id FROM t WHERE n IN (1, 2, NULL) OR (g, n) IN (('a', 2), ('b', 4)) OR n NOT IN (5)
o10: SELECT id FROM t WHERE (id, n) IN (SELECT k, n FROM s) OR id NOT IN (SELECT k FROM s WHERE k IS NOT NULL)
o11: SELECT id FROM t WHERE n > ANY (SELECT n FROM s)
o12: SELECT id FROM t WHERE n = 1 OR n == 2 OR n != 3 OR n <> 4 OR n !> 5 OR n !< 1
o13: SELECT id, n & 3 AS a, n | 4 AS b, n ^ 1 AS c, ~n AS d, n << 1 AS e, n >> 1 AS f, n >>> 1 AS g FROM t
o14: SELECT id, g || '-' || n AS a FROM t
o15: SELECT id FROM t WHERE ok IS TRUE OR ok IS NOT FALSE OR ok IS UNKNOWN OR (n > 1) IS NOT TRUE
o16: SELECT id FROM t WHERE NOT ok AND ! ok
o17: SELECT id, n::STRING AS a, n::DECIMAL(5, 1) AS b, '1'::INT + 1 AS c FROM t
o18: SELECT CASE WHEN n > 1 THEN 'a' WHEN n > 0 THEN 'b' ELSE 'c' END AS a, CASE n WHEN 1 THEN 2 END AS b FROM t
o19: SELECT tags[0] AS a, m['k'] AS b, st.a AS c, array(1, 2)[1] AS d FROM t WHERE size(tags) > 0 AND map_contains_key(m, 'k')
o20: SELECT id FROM t WHERE g = 'a' COLLATE UTF8_LCASE
o21: SELECT id FROM t WHERE g IS NULL OR n IS NOT NULL AND NOT (n = 1 OR n = 2)
o22: SELECT id FROM t WHERE g LIKE 'a!%' ESCAPE '!'
o23: SELECT id FROM t WHERE EXISTS (SELECT * FROM s WHERE s.k = t.id) AND NOT EXISTS (SELECT * FROM s WHERE s.n = t.n)
o24: SELECT day - DATE '2024-01-01' AS a, at - TIMESTAMP '2024-01-01' AS b, day + 1 AS c, day - 1 AS d, 1 + day AS e FROM t
o25: SELECT id, j:ref::STRING AS a FROM (SELECT id, parse_json(j) AS j FROM t WHERE id < 0)
o26: SELECT CAST(n AS BIGINT) AS a, TRY_CAST(g AS INT) AS b, CAST(day AS TIMESTAMP) AS c, CAST(id AS STRING) AS d, CAST(n AS DEC(4)) AS e, CAST(n AS NUMERIC(4,1)) AS f, CAST(n AS LONG) AS g, CAST(n AS REAL) AS h FROM t
o27: SELECT CAST(tags AS ARRAY<BINARY>) AS a, CAST(st AS STRUCT<a: BIGINT, b: STRING>) AS b, CAST(m AS MAP<STRING, BIGINT>) AS c, id FROM t
o28: SELECT id FROM t WHERE n % 2 = 0 XOR ok
-- functions with words of their own
f01: SELECT EXTRACT(YEAR FROM day) AS a, EXTRACT(DOW FROM day) AS b, EXTRACT(HOUR FROM at) AS c, EXTRACT(WEEK FROM at) AS d, EXTRACT(SECOND FROM at) AS e FROM t
f02: SELECT POSITION('a' IN g) AS a, position('a', g) AS b, position('a', g, 2) AS c FROM t
f03: SELECT SUBSTRING(g FROM 2) AS a, SUBSTRING(g FROM 2 FOR 1) AS b, substr(g, 2, 1) AS c, SUBSTR(g FROM 1 FOR 2) AS d FROM t
f04: SELECT TRIM(g) AS a, TRIM(BOTH FROM g) AS b, TRIM(LEADING 'x' FROM g) AS c, TRIM(TRAILING FROM g) AS d, TRIM('x' FROM g) AS e, TRIM(BOTH 'x' FROM g) AS f FROM t
f05: SELECT OVERLAY(g PLACING '__' FROM 2) AS a, OVERLAY(g PLACING '__' FROM 2 FOR 1) AS b, overlay(g, 'x', 1) AS c FROM t
f06: SELECT TIMESTAMPADD(DAY, 1, at) AS a, DATEADD(MONTH, 1, day) AS b, DATE_ADD(day, 1) AS c, DATEADD(HOUR, 2, at) AS d FROM t
f07: SELECT TIMESTAMPDIFF(DAY, at, TIMESTAMP '2024-06-01') AS a, DATEDIFF(MONTH, day, DATE '2024-06-01') AS b, DATEDIFF(day, DATE '2024-01-01') AS c FROM t
f08: SELECT FIRST(n) IGNORE NULLS AS a, LAST(n, true) AS b, first_value(n) AS c FROM t WHERE id = 1
f09: SELECT CEIL(d) AS a, FLOOR(d, 1) AS b, ceil(d, -1) AS c, CEILING(x) AS d FROM t
f10: SELECT IF(n > 1, 'a', 'b') AS a FROM t
f11: SELECT nvl(n, 0) AS a, nvl2(n, 1, 2) AS b, ifnull(n, 1) AS c, nullif(n, 1) AS d, zeroifnull(n) AS e, nullifzero(n) AS f FROM t
f12: SELECT IF(n > 1, 'a', 'b') AS a, iff FROM (SELECT n, 1 AS iff FROM t)
f13: SELECT transform(tags, x -> upper(x)) AS a, filter(tags, x -> x > 'a') AS b, aggregate(array(1, 2), 0, (acc, x) -> acc + x) AS c, exists(tags, x -> x = 'a') AS d, id FROM t
f14: SELECT transform(tags, (x, i) -> concat(x, CAST(i AS STRING))) AS a, zip_with(tags, tags, (x, y) -> x || y) AS b, map_filter(m, (k, v) -> v > 1) AS c, id FROM t
f15: SELECT mask(g, lowerChar => 'q', otherChar => 'o') AS a, id FROM t
f16: SELECT count_min_sketch(n, 0.5d, 0.5d, 1) IS NULL AS a FROM t
f17: SELECT CHAR_LENGTH(g) AS a, CHARACTER_LENGTH(g) AS b, OCTET_LENGTH(g) AS c, len(g) AS d FROM t
f18: SELECT to_json(named_struct('a', n)) AS a, from_json(j, 'a INT') AS b, get_json_object(j, '$.a') AS c, id FROM t
f19: SELECT concat_ws(',', tags) AS a, array_contains(tags, 'a') AS b, sort_array(tags) AS c, id FROM t
f20: SELECT date(at) AS a, timestamp(day) AS b, string(n) AS c, int('1') AS d, decimal(n) AS e FROM t
f21: SELECT left(g, 1) AS a, right(g, 1) AS b, replace(g, 'a') AS c, translate(g, 'a', 'b') AS d FROM t
f22: SELECT make_interval(1, 2) AS a FROM s
f23: SELECT convert_timezone('UTC', 'Europe/Berlin', CAST(at AS TIMESTAMP_NTZ)) AS a, id FROM t
f24: SELECT cast(n AS string) AS a, `upper`(g) AS b, `sum`(n) OVER () AS c, id FROM t
f25: SELECT system.builtin.upper(g) AS a, id FROM t
f26: SELECT date_part('YEAR', day) AS a, date_trunc('MONTH', at) AS b, trunc(day, 'MM') AS c FROM t
f27: SELECT CURRENT_DATE AS d, id FROM t
f28: SELECT rand() AS r, id FROM t
f29: SELECT parse_url(u, 'HOST') AS a, try_parse_url(u, 'QUERY', 'x') AS b, id FROM t
f30: SELECT schema_of_json('{"a": 1}') AS a, typeof(n) AS b, id FROM t
-- FROM
r01: SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v (x, y)
r02: SELECT * FROM VALUES 1, 2, 3 AS v (x)
r03: SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v (x, y)
r04: VALUES (1, 'a'), (2, 'b')
r05: SELECT col1, col2 FROM VALUES (1, 2)
r06: SELECT id FROM range(5)
r07: SELECT id * 2 AS a FROM range(1, 10, 3) AS r
r08: SELECT r.id, t.n FROM range(0, 3, 1, 2) r JOIN t ON r.id = t.id
r09: SELECT * FROM explode(array(1, 2, 3))
r10: SELECT * FROM explode(array(1, 2, 3)) AS e (x)
r11: SELECT * FROM posexplode(array('a', 'b')) AS e (p, x)
r12: SELECT * FROM inline(array(struct(1, 'a'), struct(2, 'b')))
r13: SELECT * FROM stack(2, 1, 2, 3, 4) AS s2 (a, b)
r14: SELECT t.id, e.* FROM t, LATERAL explode(tags) AS e (tag)
r15: SELECT t.id, e.tag FROM t LEFT JOIN LATERAL explode(tags) AS e (tag) ON true
r16: SELECT id, tag FROM t LATERAL VIEW explode(tags) e AS tag
r17: SELECT id, p, tag FROM t LATERAL VIEW OUTER posexplode(tags) e AS p, tag
r18: SELECT id, k, v FROM t LATERAL VIEW explode(m) e AS k, v
r19: SELECT id, a, b FROM t LATERAL VIEW json_tuple(j, 'a', 'b') e AS a, b
r20: SELECT id, json_tuple(j, 'a', 'b') AS (a, b) FROM t
r21: SELECT id, explode(tags) AS tag FROM t
r22: SELECT id, posexplode(tags) AS (p, tag) FROM t
r23: SELECT id, inline(array(st)) FROM t
r24: SELECT id, stack(2, n, n + 1) AS v FROM t
r25: SELECT t.id, l.* FROM t, LATERAL (SELECT s.n AS sn FROM s WHERE s.k = t.id) AS l
r26: SELECT t.id, l.x FROM t JOIN LATERAL (SELECT max(n) AS x FROM s WHERE s.k < t.id) l
r27: SELECT * FROM (SELECT id, n FROM t) WHERE n > 1
r28: SELECT a.x, a.y FROM (SELECT id, n FROM t) AS a (x, y)
r29: SELECT a.x FROM s AS a (x, y, z)
r30: SELECT (SELECT count(*) FROM sql_keywords()) > 100 AS many
r31: SELECT * FROM t TABLESAMPLE (50 PERCENT)
r32: SELECT id FROM t TABLESAMPLE (5 ROWS)
r33: SELECT id FROM t TABLESAMPLE (BUCKET 1 OUT OF 2) REPEATABLE (1)
r34: SELECT * FROM explode(collection => array(1, 2))
r35: SELECT id FROM spark_catalog.default.t
r36: SELECT id, k FROM (t JOIN s ON t.id = s.k)
r37: SELECT id, e.col FROM t LATERAL VIEW explode(tags) e
r38: SELECT id, tag, tag2 FROM t LATERAL VIEW explode(tags) AS tag LATERAL VIEW explode(tags) e2 AS tag2
r39: SELECT id, v.key, v.value FROM t, LATERAL variant_explode(parse_json(j)) AS v WHERE id < 0
r40: SELECT * FROM VALUES (1, 2), (3) AS v (a, b)
r41: SELECT ids.id FROM VALUES (1), (2) ids (id)
r42: SELECT * FROM (VALUES (1), (2)) v
-- joins
j01: SELECT t.id, s.n FROM t INNER JOIN s ON t.id = s.k
j02: SELECT t.id, s.n FROM t LEFT OUTER JOIN s ON t.id = s.k
j03: SELECT t.id, s.n FROM t RIGHT JOIN s ON t.id = s.k AND s.n > 1
j04: SELECT t.id, s.n FROM t FULL OUTER JOIN s ON t.id = s.k
j05: SELECT t.id FROM t LEFT SEMI JOIN s ON t.id = s.k
j06: SELECT t.id FROM t LEFT ANTI JOIN s ON t.id = s.k
j07: SELECT t.id FROM t SEMI JOIN s ON t.id = s.k
j08: SELECT t.id FROM t ANTI JOIN s ON t.id = s.k
j09: SELECT t.id, s.k FROM t CROSS JOIN s
j10: SELECT t.id, s.k FROM t, s WHERE t.id = s.k
j11: SELECT g, t.id, s.k FROM t JOIN s USING (g)
j12: SELECT g, n, id, k FROM t FULL JOIN s USING (g, n)
j13: SELECT * FROM (SELECT id, g FROM t) NATURAL JOIN s
j14: SELECT g, k FROM (SELECT id, g FROM t) NATURAL LEFT JOIN s
j15: SELECT t.id, s.k FROM t JOIN s
j16: SELECT t.id, s.k FROM t JOIN s ON t.n > s.n
j17: SELECT t.id, a.k, b.k AS k2 FROM t JOIN s a ON t.id = a.k JOIN s b ON b.n = a.n
j18: SELECT t.id, a.k FROM t JOIN (s a JOIN s b ON a.k = b.n) ON t.id = b.k
j19: SELECT t.id, s.k FROM t LEFT JOIN s ON t.n <=> s.n
j20: SELECT * FROM (SELECT id FROM t) JOIN (SELECT k FROM s) ON id = k
j21: SELECT t.g FROM t LEFT SEMI JOIN s USING (g)
j22: SELECT t.id, s.k FROM t INNER JOIN s ON true
j23: SELECT t.g, s.g AS sg FROM t LEFT JOIN s USING (g)
-- grouping
g01: SELECT g, count(*) AS c FROM t GROUP BY g HAVING count(*) > 1
g02: SELECT g, sum(n) AS c FROM t GROUP BY 1 HAVING c > 1
g03: SELECT g, n, count(*) AS c FROM t GROUP BY ALL
g04: SELECT g AS grp, count(*) AS c FROM t GROUP BY grp
g05: SELECT g, n, count(*) AS c FROM t GROUP BY GROUPING SETS ((g, n), (g), ())
g06: SELECT g, n, count(*) AS c, grouping(g) AS a, grouping_id() AS b, grouping_id(g, n) AS d FROM t GROUP BY CUBE (g, n)
g07: SELECT g, n, count(*) AS c FROM t GROUP BY g, n WITH ROLLUP
g08: SELECT g, n, count(*) AS c FROM t GROUP BY g, n WITH CUBE
g09: SELECT g, n, count(*) AS c FROM t GROUP BY g, ROLLUP (n)
g10: SELECT g, n, count(*) AS c FROM t GROUP BY g, n GROUPING SETS ((g), (n))
g11: SELECT g, n, ok, count(*) AS c FROM t GROUP BY ROLLUP (g, (n, ok))
g12: SELECT g, n, count(*) AS c FROM t GROUP BY GROUPING SETS (ROLLUP (g), CUBE (n), ())
g13: SELECT g, n, ok, count(*) AS c FROM t GROUP BY CUBE (g), ROLLUP (n, ok)
g14: SELECT count(*) AS c FROM t HAVING count(*) > 0
g15: SELECT max(n) AS top FROM t GROUP BY GROUPING SETS (())
g16: SELECT g, count(*) FILTER (WHERE n > 1) AS a, sum(DISTINCT n) AS b, count(DISTINCT n, ok) AS c FROM t GROUP BY g
g17: SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS a, percentile_disc(0.5) WITHIN GROUP (ORDER BY n DESC) AS b, mode() WITHIN GROUP (ORDER BY n) AS c FROM t
g18: SELECT listagg(g, ',') WITHIN GROUP (ORDER BY g) AS a, string_agg(DISTINCT g, '-') WITHIN GROUP (ORDER BY g) AS b FROM t
g19: SELECT upper(g) AS u, count(*) AS c FROM t GROUP BY upper(g)
g20: SELECT g, sum(n) AS c FROM t GROUP BY g ORDER BY c DESC, g LIMIT 2
g21: SELECT g FROM t GROUP BY g
g22: SELECT sum(n + 1) / count(*) AS a, any_value(g) AS b FROM t WHERE id = 1
g23: SELECT g, count(*) AS c FROM t GROUP BY DISTINCT g
g24: SELECT count(n) + sum(n) * 2 AS a, every(ok) AS b, some(ok) AS c FROM t
g25: SELECT ANY(ok) AS a, bool_or(ok) AS b, count(ALL n) AS c, sum(ALL n) AS d FROM t
g26: SELECT g, sum(n) AS a FROM t WHERE true GROUP BY g HAVING sum(n) > (SELECT min(n) FROM s)
-- windows
w01: SELECT id, row_number() OVER (PARTITION BY g ORDER BY n, id) AS r FROM t
w02: SELECT id, sum(n) OVER w AS a, avg(n) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS b FROM t WINDOW w AS (PARTITION BY g ORDER BY id)
w03: SELECT id, sum(n) OVER w AS a FROM t WINDOW w AS (PARTITION BY g ORDER BY id), v AS (ORDER BY id)
w04: SELECT id, rank() OVER (ORDER BY n DESC NULLS LAST) AS r FROM t QUALIFY r <= 3
w05: SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY id) = 1
w06: SELECT id, sum(n) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a FROM t
w07: SELECT id, sum(n) OVER (ORDER BY id ROWS 2 PRECEDING) AS a, sum(n) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS b FROM t
w08: SELECT id, lag(n) IGNORE NULLS OVER (ORDER BY id) AS a, lead(n, 1, 0) OVER (ORDER BY id) AS b, nth_value(n, 2) OVER (ORDER BY id) AS c FROM t
w09: SELECT id, count(*) OVER () AS a, max(n) OVER (PARTITION BY g) AS b FROM t
w10: SELECT id, sum(n) FILTER (WHERE ok) OVER (PARTITION BY g) AS a FROM t
w11: SELECT g, sum(n) AS c, rank() OVER (ORDER BY sum(n) DESC) AS r FROM t GROUP BY g
w12: SELECT id, sum(n) OVER (DISTRIBUTE BY g SORT BY id) AS a FROM t
w13: SELECT id, avg(n) OVER (PARTITION BY g ORDER BY day RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND CURRENT ROW) AS a FROM t
w14: SELECT id, n FROM t QUALIFY n = max(n) OVER (PARTITION BY g)
w15: SELECT id, first_value(n) RESPECT NULLS OVER (ORDER BY id) AS a, last_value(n) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS b FROM t
w16: SELECT id, sum(sum(n)) OVER (ORDER BY id) AS a FROM t GROUP BY id
w17: SELECT g, count(*) AS c FROM t GROUP BY g QUALIFY row_number() OVER (ORDER BY c DESC, g) = 1
-- set operations
u01: SELECT id FROM t UNION SELECT k FROM s
u02: SELECT id FROM t UNION ALL SELECT k FROM s
u03: SELECT id FROM t UNION DISTINCT SELECT k FROM s
u04: SELECT id FROM t INTERSECT SELECT k FROM s
u05: SELECT id FROM t INTERSECT ALL SELECT k FROM s
u06: SELECT id FROM t EXCEPT SELECT k FROM s
u07: SELECT id FROM t EXCEPT ALL SELECT k FROM s
u08: SELECT id FROM t MINUS SELECT k FROM s
u09: SELECT id FROM t MINUS ALL SELECT k FROM s
u10: (SELECT id FROM t) UNION ALL (SELECT k FROM s EXCEPT SELECT n FROM s)
u11: SELECT id, n FROM t UNION BY NAME SELECT n, k AS id FROM s
u12: SELECT id, n FROM t UNION ALL BY NAME SELECT n, k AS id FROM s
u13: SELECT id FROM t UNION SELECT k FROM s INTERSECT SELECT 1
u14: SELECT id FROM t UNION ALL VALUES (7), (8)
u15: SELECT id FROM t UNION ALL TABLE ks
u16: (SELECT id FROM t ORDER BY id LIMIT 2) UNION ALL (SELECT k FROM s ORDER BY k LIMIT 1)
u17: SELECT id FROM t UNION ALL SELECT k FROM s ORDER BY id LIMIT 3
u18: FROM t SELECT id UNION ALL FROM s SELECT k
u19: SELECT * FROM (SELECT id FROM t UNION SELECT k FROM s) AS q WHERE id > 1
-- WITH
c01: WITH a AS (SELECT id FROM t) SELECT * FROM a
c02: WITH a (x) AS (SELECT id FROM t), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a JOIN b ON a.x = b.y
c03: WITH a AS (WITH b AS (SELECT id FROM t) SELECT id FROM b) SELECT * FROM a
c04: SELECT * FROM (WITH a AS (SELECT id FROM t) SELECT * FROM a)
c05: SELECT id FROM t WHERE id IN (WITH a AS (SELECT k FROM s) SELECT k FROM a)
c06: WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT i FROM r
c07: WITH RECURSIVE r (id, depth) AS (SELECT id, 0 FROM t WHERE id = 1 UNION ALL SELECT s.k, depth + 1 FROM r JOIN s ON s.n = r.id WHERE depth < 3) SELECT * FROM r
c08: WITH RECURSIVE r (i) MAX RECURSION LEVEL 10 AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT i FROM r
c09: WITH t AS (SELECT id + 100 AS id FROM t) SELECT id FROM t
c10: WITH a AS (SELECT 1 AS x) FROM a SELECT x
c11: WITH a AS (VALUES (1, 2)) SELECT * FROM a
c12: WITH a AS (TABLE s) SELECT k FROM a
c13: WITH a AS (SELECT id FROM t), a2 AS (FROM a |> WHERE id > 1) SELECT * FROM a2
-- ORDER BY, LIMIT and others
q01: SELECT id, n FROM t ORDER BY n DESC NULLS LAST, id ASC NULLS FIRST LIMIT 3
q02: SELECT id, n FROM t ORDER BY 2, 1 LIMIT 3 OFFSET 1
q03: SELECT id, n FROM t ORDER BY ALL LIMIT 3
q04: SELECT id, n FROM t ORDER BY ALL DESC
q05: SELECT id FROM t SORT BY n
q06: SELECT id FROM t DISTRIBUTE BY g
q07: SELECT id FROM t CLUSTER BY g
q08: SELECT id FROM t DISTRIBUTE BY g SORT BY id
q09: SELECT id FROM t LIMIT 3
q10: SELECT id FROM t ORDER BY id LIMIT ALL
q11: SELECT id FROM t ORDER BY id OFFSET 2
q12: SELECT id FROM t ORDER BY n + 1, id LIMIT 1 + 1
q13: SELECT id FROM t LIMIT ALL
q14: SELECT id FROM t WHERE id IN (SELECT k FROM s ORDER BY k LIMIT 2)
q15: SELECT id AS x FROM t ORDER BY x LIMIT 2
q16: SELECT g FROM t GROUP BY g ORDER BY max(n), g LIMIT 2
q17: SELECT DISTINCT g FROM t ORDER BY g LIMIT 2
-- PIVOT and UNPIVOT
p01: SELECT * FROM (SELECT g, ok, n FROM t) PIVOT (sum(n) FOR g IN ('a', 'b'))
p02: SELECT * FROM (SELECT g, ok, n FROM t) PIVOT (sum(n) AS s, count(*) AS c FOR g IN ('a' AS x, 'b' AS y))
p03: SELECT * FROM (SELECT g, ok, n FROM t) PIVOT (max(n) FOR (g, ok) IN (('a', true) AS a, ('b', false) AS b))
p04: SELECT * FROM (SELECT k, n, n + 1 AS n2 FROM s) UNPIVOT (v FOR name IN (n, n2))
p05: SELECT * FROM (SELECT k, n, n + 1 AS n2 FROM s) UNPIVOT INCLUDE NULLS (v FOR name IN (n AS one, n2 AS two))
p06: SELECT * FROM (SELECT k, n, n + 1 AS n2 FROM s) UNPIVOT ((v, w) FOR name IN ((n, n2) AS x, (n2, n) AS y))
p07: SELECT q.name, sum(q.v) AS total FROM (SELECT k, n, n + 1 AS n2 FROM s) UNPIVOT (v FOR name IN (n, n2)) AS q GROUP BY q.name
-- pipes
x01: FROM t |> SELECT id, n + 1 AS m
x02: FROM t |> WHERE n > 1 |> SELECT id
x03: FROM s |> EXTEND n + 1 AS n1 |> EXTEND n1 * 2 AS n2
x04: FROM s |> SET n = n + 1, g = upper(g)
x05: FROM s |> DROP g
x06: FROM s |> AS q |> WHERE q.n > 1
x07: FROM s |> SELECT k, n |> WHERE n IS NOT NULL |> ORDER BY n DESC, k |> LIMIT 2
x08: FROM s |> ORDER BY k |> LIMIT 3 |> SELECT k
x09: FROM s |> ORDER BY n |> LIMIT 3 OFFSET 1
x10: FROM s |> ORDER BY k |> OFFSET 2
x11: FROM t |> AGGREGATE count(*) AS c, sum(n) AS total
x12: FROM t |> AGGREGATE count(*) AS c GROUP BY g
x13: FROM t |> AGGREGATE sum(n) AS total GROUP BY g, ok |> WHERE total > 1 |> SELECT g, total
x14: FROM t |> JOIN s ON t.id = s.k |> SELECT t.id, s.n
x15: FROM t |> LEFT JOIN s USING (g) |> SELECT g, id, k
x16: FROM t |> SELECT id |> UNION ALL SELECT k FROM s
x17: FROM t |> SELECT id |> EXCEPT SELECT k FROM s |> ORDER BY id
x18: FROM t |> SELECT id |> INTERSECT (SELECT k FROM s)
x19: FROM t |> SELECT g, ok, n |> PIVOT (sum(n) FOR g IN ('a', 'b'))
x20: FROM s |> SELECT k, n, n + 1 AS n2 |> UNPIVOT (v FOR name IN (n, n2))
x21: FROM t |> TABLESAMPLE (50 PERCENT)
x22: SELECT id, n FROM t |> WHERE n > 1
x23: FROM t |> SELECT DISTINCT g
x24: TABLE s |> SELECT k
x25: VALUES (1, 'a'), (2, 'b') AS v (x, y) |> WHERE x > 1
x26: SELECT * FROM (FROM s |> WHERE n > 1) AS q
x27: FROM t |> EXTEND row_number() OVER (PARTITION BY g ORDER BY id) AS r |> WHERE r = 1 |> DROP tags, m, st
x28: FROM s |> ORDER BY n, k |> LIMIT 5 |> WHERE n > 1 |> AGGREGATE count(*) AS c
x29: FROM t |> SELECT id, g |> JOIN s ON id = k |> AGGREGATE max(s.n) AS top GROUP BY t.g
x30: FROM s |> WHERE n > 0 |> SET n = n * 2 |> AS a |> JOIN t ON a.k = t.id |> SELECT a.k, t.g, a.n |> ORDER BY k |> LIMIT 2
x32: FROM t |> AGGREGATE count(*) AS c GROUP BY upper(g) AS u |> ORDER BY c DESC, u |> LIMIT 1
x33: (SELECT k FROM s) |> ORDER BY k |> LIMIT 1
x34: WITH a AS (SELECT k FROM s) FROM a |> WHERE k > 1
x35: FROM t |> AGGREGATE avg(n) GROUP BY 1
x36: FROM t |> WINDOW w AS (PARTITION BY g) |> SELECT id
x37: FROM s |> LIMIT 2
x38: FROM s |> ORDER BY k |> LIMIT 2 |> UNION ALL SELECT * FROM s
x39: FROM s |> ORDER BY n DESC |> LIMIT 2
x40: FROM s |> ORDER BY n |> LIMIT 3 |> SELECT k
x41: FROM s |> ORDER BY n, k |> LIMIT 3 |> EXTEND n + 1 AS a, n + 2 AS b |> DROP n
x42: FROM s |> ORDER BY n |> OFFSET 1 |> LIMIT 2
x43: SELECT k, n FROM s ORDER BY n, k LIMIT 3 |> SELECT n
x44: FROM s |> SELECT g, n |> ORDER BY n |> LIMIT 3 |> AGGREGATE max(n) AS top GROUP BY g |> ORDER BY top |> LIMIT 1
x45: FROM t, LATERAL explode(tags) AS e (tag) |> SELECT id, tag
x46: FROM t |> CROSS JOIN s |> SELECT id, k |> WHERE id = k
x47: FROM t |> SELECT id, g AS `a b` |> EXTEND upper(`a b`) AS u |> SET `a b` = 'x'
x48: FROM (FROM s |> SELECT k) |> EXTEND k + 1 AS k1
x49: FROM t |> LEFT SEMI JOIN s ON t.id = s.k |> AGGREGATE count(*) AS c, max(n) AS m GROUP BY ALL
x50: FROM t |> SELECT id, n |> UNION SELECT k, n FROM s |> WHERE n > 1 |> EXCEPT ALL SELECT 3, 3
w18: SELECT id, sum(n) OVER (CLUSTER BY g) AS a FROM t
w19: SELECT id, sum(n) OVER (DISTRIBUTE BY g SORT BY id) FROM t
f31: SELECT m.k AS a, m.z AS b, id FROM t
f32: SELECT id, explode_outer(tags) AS tag, n FROM t
f33: SELECT sum(n) FILTER (WHERE ok) + 1 AS a, max(n) OVER () AS b, g FROM t GROUP BY g, n
f34: SELECT CASE WHEN ok THEN 1 END AS a, CASE g WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 3 END + 1 AS b FROM t
l21: SELECT "it""s" AS a, 'a"b' AS b, "a'b" AS c FROM s
l22: SELECT r'a' 'b' AS a, 'x' "y" AS b FROM s
l23: SELECT 1e-3 AS a, 12e3D AS b, 1.e2 AS c FROM s
l24: SELECT INTERVAL '1' YEAR + INTERVAL '2' MONTH AS a, 2 * INTERVAL 3 DAY AS b, -INTERVAL 1 HOUR AS c FROM s
