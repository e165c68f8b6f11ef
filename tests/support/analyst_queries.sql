-- joins
j01: SELECT o.id, o.total, c.name, c.country FROM orders o JOIN customers c ON o.customer_id = c.id
j02: SELECT c.id, c.name, o.id AS order_id, o.status FROM customers c LEFT JOIN orders o ON c.id = o.customer_id AND o.status <> 'cancelled'
j03: SELECT c.name, o.id AS order_id FROM orders o RIGHT OUTER JOIN customers c ON c.id = o.customer_id WHERE o.id IS NULL
j04: SELECT coalesce(o.id, r.order_id) AS order_id, o.total, r.amount FROM orders o FULL OUTER JOIN refunds r ON o.id = r.order_id
j05: SELECT c.* FROM customers c LEFT SEMI JOIN orders o ON o.customer_id = c.id AND o.total > 50
j06: SELECT p.id, p.name FROM products p LEFT ANTI JOIN order_lines l ON l.product_id = p.id
j07: SELECT e.name AS employee, m.name AS manager, e.salary - m.salary AS gap FROM employees e LEFT JOIN employees m ON e.manager_id = m.id
j08: SELECT a.id AS a, b.id AS b FROM customers a JOIN customers b ON a.country = b.country AND a.id < b.id
j09: SELECT o.id, l.line, p.name, l.quantity * l.price AS amount FROM orders o JOIN order_lines l ON l.order_id = o.id JOIN products p ON p.id = l.product_id WHERE o.status = 'shipped'
j10: SELECT department, name, amount FROM employees NATURAL JOIN budgets
j11: SELECT department, e.name, b.amount FROM employees e JOIN budgets b USING (department) WHERE b.month = DATE '2024-01-01'
j12: SELECT s.segment, m.status FROM (SELECT DISTINCT segment FROM customers) s CROSS JOIN (SELECT DISTINCT status FROM orders) m
j13: SELECT o.id, count(e.at) AS views_before FROM orders o LEFT JOIN events e ON e.user_id = o.customer_id AND e.at BETWEEN o.ordered_at - INTERVAL 1 DAY AND o.ordered_at GROUP BY o.id
j14: SELECT a.id, b.id AS cheaper FROM products a JOIN products b ON a.category <=> b.category AND a.price > b.price
j15: SELECT o.id, o.customer_id FROM orders o, refunds r WHERE o.id = r.order_id AND r.amount >= o.total
j16: SELECT c.id, l.n FROM customers c, LATERAL (SELECT count(*) AS n FROM orders o WHERE o.customer_id = c.id) l
j17: SELECT c.id, l.id AS last_order, l.total FROM customers c LEFT JOIN LATERAL (SELECT o.id, o.total FROM orders o WHERE o.customer_id = c.id ORDER BY o.ordered_at DESC, o.id LIMIT 1) l ON true
j18: SELECT e.name, m.name AS boss, g.name AS big_boss FROM employees e JOIN employees m ON e.manager_id = m.id LEFT JOIN employees g ON m.manager_id = g.id
-- common table expressions
c01: WITH spend AS (SELECT customer_id, sum(total) AS spent FROM orders GROUP BY customer_id) SELECT c.name, s.spent FROM customers c JOIN spend s ON s.customer_id = c.id WHERE s.spent > 100
c02: WITH lines AS (SELECT order_id, quantity * price AS amount FROM order_lines), per_order AS (SELECT order_id, sum(amount) AS amount FROM lines GROUP BY order_id) SELECT o.id, o.total, p.amount, o.total - p.amount AS difference FROM orders o JOIN per_order p ON p.order_id = o.id WHERE o.total <> p.amount
c03: WITH m AS (SELECT date_trunc('MONTH', ordered_at) AS month, sum(total) AS revenue FROM orders GROUP BY 1) SELECT a.month, a.revenue, b.revenue AS last_month, a.revenue - b.revenue AS growth FROM m a LEFT JOIN m b ON b.month = add_months(a.month, -1)
c04: WITH first_order AS (SELECT customer_id, min(date_trunc('month', ordered_at)) AS cohort FROM orders GROUP BY customer_id) SELECT f.cohort, months_between(date_trunc('month', o.ordered_at), f.cohort) AS month_number, count(DISTINCT o.customer_id) AS customers FROM orders o JOIN first_order f ON f.customer_id = o.customer_id GROUP BY 1, 2
c05: WITH a AS (SELECT id FROM customers WHERE active), b AS (SELECT customer_id AS id FROM orders) SELECT id FROM a EXCEPT SELECT id FROM b
c06: WITH t(cat, n) AS (SELECT category, count(*) FROM products GROUP BY category) SELECT cat, n FROM t WHERE n > 2
c07: WITH best AS (SELECT max(total) AS top FROM orders) SELECT o.id FROM orders o, best WHERE o.total = best.top
c08: WITH daily AS (SELECT CAST(at AS DATE) AS day, count(*) AS views, count(DISTINCT user_id) AS users FROM events GROUP BY CAST(at AS DATE)) SELECT day, views, users, views / users AS per_user FROM daily WHERE users > 0
c09: WITH RECURSIVE chain AS (SELECT id, manager_id, 0 AS depth FROM employees WHERE manager_id IS NULL UNION ALL SELECT e.id, e.manager_id, c.depth + 1 FROM employees e JOIN chain c ON e.manager_id = c.id WHERE c.depth < 5) SELECT id, depth FROM chain
c10: WITH rfm AS (SELECT customer_id, max(ordered_at) AS recent, count(*) AS frequency, sum(total) AS monetary FROM orders WHERE status = 'shipped' GROUP BY customer_id) SELECT customer_id, ntile(4) OVER (ORDER BY recent, customer_id) AS r, ntile(4) OVER (ORDER BY frequency, customer_id) AS f, ntile(4) OVER (ORDER BY monetary, customer_id) AS m FROM rfm
-- aggregates
a01: SELECT country, count(*) AS n, count(email) AS with_email, count(DISTINCT segment) AS segments FROM customers GROUP BY country
a02: SELECT status, sum(total) AS revenue, avg(total) AS mean, min(total) AS low, max(total) AS high FROM orders GROUP BY status HAVING count(*) > 3
a03: SELECT department, stddev(salary) AS s, variance(salary) AS v FROM employees GROUP BY department
a04: SELECT category, percentile(price, 0.5) AS p50, percentile_approx(price, 0.5) AS approx FROM products GROUP BY category
a05: SELECT category, median(weight) AS m FROM products GROUP BY category
a06: SELECT country, count(*) FILTER (WHERE active) AS active, count(*) FILTER (WHERE NOT active) AS gone, count_if(credit > 100) AS rich FROM customers GROUP BY country
a07: SELECT customer_id, sum(CASE WHEN status = 'shipped' THEN total ELSE 0 END) AS shipped, sum(CASE WHEN status = 'cancelled' THEN 1 ELSE 0 END) AS cancelled FROM orders GROUP BY customer_id
a08: SELECT customer_id, sort_array(collect_set(status)) AS statuses FROM orders GROUP BY customer_id
a09: SELECT customer_id, array_join(sort_array(collect_list(status)), ',') AS path FROM orders GROUP BY customer_id
a10: SELECT page, max_by(user_id, duration) AS longest, min_by(user_id, duration) AS shortest FROM events GROUP BY page
a11: SELECT year(ordered_at) AS y, quarter(ordered_at) AS q, sum(total) AS revenue FROM orders GROUP BY year(ordered_at), quarter(ordered_at)
a12: SELECT country, segment, count(*) AS n FROM customers GROUP BY ROLLUP (country, segment)
a13: SELECT country, segment, grouping(country) AS g, count(*) AS n, sum(credit) AS credit FROM customers GROUP BY CUBE (country, segment)
a14: SELECT status, priority, sum(total) AS t FROM orders GROUP BY GROUPING SETS ((status), (priority), ())
a15: SELECT country, segment, count(*) AS n FROM customers GROUP BY country, segment WITH ROLLUP
a16: SELECT country, segment, count(*) AS n FROM customers GROUP BY ALL
a17: SELECT count(*) AS n, sum(total) AS t, avg(total) AS a FROM orders
a18: SELECT approx_count_distinct(user_id) AS users FROM events
a19: SELECT corr(salary, bonus) AS r, covar_pop(salary, bonus) AS c FROM employees
a20: SELECT department, bool_and(remote) AS all_remote, bool_or(remote) AS some_remote, every(salary > 1000) AS paid FROM employees GROUP BY department
a21: SELECT first(status) AS f, last(status) AS l FROM orders WHERE id = 1
a22: SELECT customer_id, any_value(status) AS one FROM orders WHERE status = 'shipped' GROUP BY customer_id
a23: SELECT category, sum(DISTINCT price) AS s, avg(DISTINCT price) AS a FROM products GROUP BY category
a24: SELECT count(DISTINCT country, segment) AS combos FROM customers
a25: SELECT mode(category) AS common FROM products WHERE category IS NOT NULL
a26: SELECT skewness(duration) AS s, kurtosis(duration) AS k FROM events
a27: SELECT date_format(ordered_at, 'yyyy-MM') AS month, count(*) AS n FROM orders GROUP BY date_format(ordered_at, 'yyyy-MM') ORDER BY month
a28: SELECT max(struct(total, id)).id AS biggest FROM orders
a29: SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY duration) AS p90 FROM events
a30: SELECT department, listagg(name, ', ') WITHIN GROUP (ORDER BY name) AS names FROM employees GROUP BY department
a31: SELECT width_bucket(duration, 0, 100, 5) AS bin, count(*) AS n FROM events GROUP BY ALL
a32: SELECT country, sum(credit) AS credit FROM customers GROUP BY country HAVING sum(credit) > (SELECT avg(credit) FROM customers)
a33: SELECT width_bucket(duration, 0, 100, 10) AS bucket, count(*) AS n FROM events GROUP BY 1
a34: SELECT floor(datediff(shipped, CAST(ordered_at AS DATE)) / 7) AS weeks, count(*) AS n FROM orders WHERE shipped IS NOT NULL GROUP BY 1
a35: SELECT bit_or(priority) AS b, bit_xor(priority) AS x, bit_and(priority) AS a FROM orders
a36: SELECT status, count(*) AS n, count(*) * 100.0 / sum(count(*)) OVER () AS percent FROM orders GROUP BY status
a37: SELECT regr_slope(salary, bonus) AS slope, regr_r2(salary, bonus) AS r2, regr_count(salary, bonus) AS n FROM employees
a38: SELECT sum(l.quantity * l.price * (1 - coalesce(l.discount, 0))) AS revenue FROM order_lines l
a39: SELECT try_divide(sum(amount), count(DISTINCT order_id)) AS per_order FROM refunds
a40: SELECT 1 AS always FROM orders HAVING count(*) > 10
-- windows
w01: SELECT id, customer_id, ordered_at, row_number() OVER (PARTITION BY customer_id ORDER BY ordered_at) AS n FROM orders
w02: SELECT * FROM (SELECT id, category, price, rank() OVER (PARTITION BY category ORDER BY price DESC) AS r FROM products) WHERE r <= 3
w03: SELECT id, category, price FROM products QUALIFY row_number() OVER (PARTITION BY category ORDER BY price DESC, id) <= 2
w04: SELECT id, customer_id, total, sum(total) OVER (PARTITION BY customer_id ORDER BY ordered_at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM orders
w05: SELECT id, total, total / sum(total) OVER (PARTITION BY status) AS share FROM orders WHERE total > 0
w06: SELECT id, lag(total) OVER (PARTITION BY customer_id ORDER BY ordered_at, id) AS previous, lead(ordered_at, 1) OVER (PARTITION BY customer_id ORDER BY ordered_at, id) AS next_at FROM orders
w07: SELECT name, salary, dense_rank() OVER (PARTITION BY department ORDER BY salary DESC NULLS LAST) AS r, percent_rank() OVER (PARTITION BY department ORDER BY salary) AS p, cume_dist() OVER (PARTITION BY department ORDER BY salary) AS d FROM employees
w08: SELECT id, avg(total) OVER (ORDER BY ordered_at, id ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS moving FROM orders
w09: SELECT id, first_value(name) OVER (PARTITION BY department ORDER BY hired, id) AS oldest, last_value(name) OVER (PARTITION BY department ORDER BY hired, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS newest FROM employees
w10: WITH t AS (SELECT user_id, at, lag(at) OVER (PARTITION BY user_id ORDER BY at) AS before FROM events) SELECT user_id, at, CASE WHEN before IS NULL OR unix_timestamp(at) - unix_timestamp(before) > 1800 THEN 1 ELSE 0 END AS new_session FROM t
w11: WITH t AS (SELECT user_id, at, CASE WHEN at > lag(at) OVER (PARTITION BY user_id ORDER BY at) + INTERVAL 30 MINUTES THEN 1 ELSE 0 END AS fresh FROM events WHERE at IS NOT NULL), s AS (SELECT user_id, at, sum(fresh) OVER (PARTITION BY user_id ORDER BY at) AS session FROM t) SELECT user_id, session, min(at) AS started, max(at) AS ended, count(*) AS hits FROM s GROUP BY user_id, session
w12: SELECT id, sum(total) OVER w AS s, count(*) OVER w AS n FROM orders WINDOW w AS (PARTITION BY status ORDER BY priority)
w13: SELECT month, amount, sum(amount) OVER (PARTITION BY department ORDER BY month RANGE BETWEEN INTERVAL 2 MONTHS PRECEDING AND CURRENT ROW) AS quarter FROM budgets
w14: SELECT id, priority, count(*) OVER (ORDER BY priority RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near FROM orders
w15: SELECT id, last_value(shipped, true) OVER (PARTITION BY customer_id ORDER BY ordered_at, id) AS last_known FROM orders
w16: SELECT id, last_value(shipped) IGNORE NULLS OVER (PARTITION BY customer_id ORDER BY ordered_at, id) AS last_known FROM orders
w17: SELECT name, department, salary, max(salary) OVER (PARTITION BY department) - salary AS below_top FROM employees
w18: SELECT id, collect_list(status) OVER (PARTITION BY customer_id ORDER BY ordered_at, id) AS so_far FROM orders
w19: SELECT id, stddev(total) OVER (PARTITION BY customer_id) AS spread FROM orders
w20: SELECT customer_id, id, ordered_at - lag(ordered_at) OVER (PARTITION BY customer_id ORDER BY ordered_at, id) AS gap FROM orders
w21: SELECT user_id, at, page, lead(page) OVER (PARTITION BY user_id ORDER BY at, page) AS next_page FROM events
w22: SELECT customer_id, month, revenue, sum(revenue) OVER (PARTITION BY customer_id ORDER BY month) AS running FROM (SELECT customer_id, trunc(CAST(ordered_at AS DATE), 'MM') AS month, sum(total) AS revenue FROM orders GROUP BY 1, 2)
w23: SELECT id, nth_value(total, 2) OVER (PARTITION BY customer_id ORDER BY total DESC, id) AS second FROM orders
w24: SELECT country, name, credit FROM customers QUALIFY dense_rank() OVER (PARTITION BY country ORDER BY credit DESC) = 1
w25: SELECT country, sum(credit) AS t, rank() OVER (ORDER BY sum(credit) DESC) AS place FROM customers GROUP BY country
w26: SELECT id, count(DISTINCT status) OVER (PARTITION BY customer_id) AS kinds FROM orders
w27: SELECT department, month, amount, amount - lag(amount, 1, 0) OVER (PARTITION BY department ORDER BY month) AS change, round(100 * (amount / lag(amount) OVER (PARTITION BY department ORDER BY month) - 1), 1) AS growth FROM budgets WHERE amount > 0
w28: SELECT window(at, '1 hour').start AS hour, count(*) AS n FROM events GROUP BY window(at, '1 hour')
w29: SELECT user_id, session_window(at, '30 minutes').start AS started, count(*) AS n FROM events WHERE at IS NOT NULL GROUP BY user_id, session_window(at, '30 minutes')
-- subqueries
s01: SELECT id, name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE status = 'returned')
s02: SELECT id, name FROM customers WHERE id NOT IN (SELECT customer_id FROM orders)
s03: SELECT id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.total > 100)
s04: SELECT id, total, total - (SELECT avg(total) FROM orders) AS over_mean FROM orders
s05: SELECT id, total FROM orders o WHERE total > (SELECT avg(total) FROM orders i WHERE i.customer_id = o.customer_id)
s06: SELECT c.id, (SELECT max(ordered_at) FROM orders o WHERE o.customer_id = c.id) AS last_order FROM customers c
s07: SELECT name FROM products WHERE price >= ALL (SELECT price FROM products WHERE price IS NOT NULL)
s08: SELECT name FROM products WHERE id = ANY (SELECT product_id FROM order_lines WHERE quantity > 5)
s09: SELECT name, CASE WHEN EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id) THEN 'buyer' ELSE 'looker' END AS kind FROM customers c
s10: SELECT id FROM orders WHERE (customer_id, status) IN (SELECT customer_id, status FROM orders WHERE total > 200)
s11: SELECT department FROM budgets WHERE amount > (SELECT sum(salary) FROM employees e WHERE e.department = budgets.department)
s12: SELECT o.id FROM orders o WHERE EXISTS (SELECT * FROM order_lines l JOIN products p ON p.id = l.product_id WHERE l.order_id = o.id AND p.category = 'toys')
s13: SELECT id, name FROM customers WHERE id IN (SELECT user_id FROM events WHERE kind = 'buy') OR country = 'DE'
s14: SELECT id, (SELECT count(*) FROM refunds r WHERE r.order_id = o.id) > 0 AS refunded FROM orders o
s15: SELECT id FROM customers WHERE EXISTS (SELECT 1 FROM events WHERE user_id = customers.id AND page LIKE '/cart%') AND NOT EXISTS (SELECT 1 FROM orders WHERE customer_id = customers.id)
s16: SELECT id, total FROM orders WHERE customer_id NOT IN (SELECT id FROM customers WHERE country IN ('DE', 'FR')) AND total IS NOT NULL
-- set operations and orders
u01: SELECT customer_id AS id FROM orders UNION SELECT user_id FROM events
u02: SELECT 'order' AS kind, id, total AS amount FROM orders UNION ALL SELECT 'refund', id, -amount FROM refunds
u03: SELECT customer_id FROM orders INTERSECT SELECT user_id FROM events
u04: SELECT user_id FROM events EXCEPT ALL SELECT customer_id FROM orders
u05: SELECT id FROM customers MINUS SELECT customer_id FROM orders
u06: SELECT id, name FROM customers UNION ALL BY NAME SELECT name, id FROM employees
u07: (SELECT id, total FROM orders ORDER BY total DESC, id LIMIT 5) UNION ALL (SELECT id, total FROM orders WHERE total IS NOT NULL ORDER BY total, id LIMIT 5)
u08: SELECT DISTINCT country, segment FROM customers ORDER BY country NULLS LAST, segment DESC
u09: SELECT id, total FROM orders ORDER BY total DESC NULLS LAST, id LIMIT 10
u10: SELECT id, total FROM orders ORDER BY total DESC, id LIMIT 10 OFFSET 5
u11: SELECT id, name FROM customers ORDER BY ALL
u12: TABLE products
u13: SELECT * EXCEPT (email, birth) FROM customers
u14: SELECT category, n FROM (SELECT category, count(*) AS n FROM products GROUP BY category) ORDER BY n DESC, category LIMIT 3
u15: SELECT * FROM VALUES (1, 'low'), (2, 'high') AS t(level, label) JOIN orders o ON o.priority = t.level
u16: FROM orders |> WHERE total > 10 |> AGGREGATE sum(total) AS t GROUP BY status
u17: SELECT o.*, c.name FROM orders o JOIN customers c ON c.id = o.customer_id ORDER BY o.id DESC LIMIT 20
u18: SELECT customer_id, status FROM orders WHERE total > 20 INTERSECT ALL SELECT customer_id, status FROM orders WHERE priority = 1
-- dates and times
d01: SELECT id, date_trunc('WEEK', ordered_at) AS week, date_format(ordered_at, 'yyyy-MM-dd HH:mm') AS t FROM orders
d02: SELECT id, months_between(ordered_at, shipped) AS m FROM orders
d03: SELECT id, shipped - CAST(ordered_at AS DATE) AS took FROM orders
d04: SELECT id, datediff(shipped, ordered_at) AS days FROM orders
d05: SELECT id, dateadd(MONTH, 1, shipped) AS due FROM orders
d06: SELECT id, datediff(DAY, ordered_at, shipped) AS days FROM orders
d07: SELECT id, floor(months_between(DATE '2024-06-30', birth) / 12) AS age FROM customers
d08: SELECT id, extract(DOW FROM ordered_at) AS dow, extract(HOUR FROM ordered_at) AS h, dayofweek(ordered_at) IN (1, 7) AS weekend FROM orders
d09: SELECT id, shipped + INTERVAL 30 DAYS AS due, shipped + INTERVAL '1-2' YEAR TO MONTH AS later FROM orders
d10: SELECT id, to_date('2024-01-31', 'yyyy-MM-dd') - INTERVAL 1 MONTH AS d, add_months(shipped, 3) AS q FROM orders
d11: SELECT id, last_day(shipped) AS month_end, next_day(shipped, 'Mon') AS monday, trunc(shipped, 'Q') AS quarter FROM orders
d12: SELECT id, from_unixtime(unix_timestamp(ordered_at)) AS t, to_utc_timestamp(ordered_at, 'Europe/Berlin') AS utc FROM orders
d13: SELECT id, date_format(shipped, 'EEEE') AS weekday, date_format(shipped, 'MMM yyyy') AS label FROM orders
d14: SELECT count(*) AS n FROM orders WHERE ordered_at >= '2024-01-01' AND ordered_at < '2024-02-01'
d15: SELECT id FROM orders WHERE CAST(ordered_at AS DATE) = DATE '2024-01-15'
d16: SELECT id, timestampdiff(HOUR, ordered_at, CAST(shipped AS TIMESTAMP)) AS hours FROM orders
d17: SELECT id, make_date(year(hired), month(hired), 1) AS month, weekofyear(hired) AS week FROM employees
d18: SELECT explode(sequence(DATE '2024-01-01', DATE '2024-03-01', INTERVAL 1 MONTH)) AS month
d19: SELECT d.month, count(o.id) AS n FROM (SELECT explode(sequence(DATE '2024-01-01', DATE '2024-06-01', INTERVAL 1 MONTH)) AS month) d LEFT JOIN orders o ON trunc(CAST(o.ordered_at AS DATE), 'MM') = d.month GROUP BY d.month
d20: SELECT id, hired, DATE '2025-01-01' - hired AS tenure FROM employees WHERE hired < DATE '2020-01-01'
d21: SELECT id, ordered_at + make_interval(0, 1, 0, 2) AS t FROM orders
d22: SELECT id, year(current_date()) - year(birth) AS age FROM customers
d23: SELECT id, CAST(date_format(ordered_at, 'yyyyMMdd') AS INT) AS date_key FROM orders
d24: SELECT id, EXTRACT(DAY FROM (CAST(shipped AS TIMESTAMP) - ordered_at)) AS days FROM orders
-- texts
t01: SELECT id, trim(lower(email)) AS email, initcap(name) AS name FROM customers
t02: SELECT id, regexp_replace(name, '[^A-Za-z ]', '') AS clean FROM customers
t03: SELECT id, split(email, '@')[1] AS host FROM customers WHERE email LIKE '%@%'
t04: SELECT id, regexp_extract(email, '^([^@]+)@(.+)$', 2) AS host FROM customers
t05: SELECT split_part(page, '/', 2) AS section, count(*) AS n FROM events GROUP BY split_part(page, '/', 2)
t06: SELECT id, concat(upper(left(name, 1)), lower(substring(name, 2))) AS name FROM customers
t07: SELECT id, name || ' (' || coalesce(country, '?') || ')' AS label FROM customers
t08: SELECT id FROM customers WHERE name ILIKE '%an%' OR email RLIKE '^[a-c]'
t09: SELECT id, md5(email) AS h, sha2(email, 256) AS s, crc32(email) AS c FROM customers
t10: SELECT id, hash(id, name) AS h, xxhash64(name, country) AS x FROM customers
t11: SELECT id, lpad(CAST(id AS STRING), 8, '0') AS code, format_number(total, 2) AS shown FROM orders
t12: SELECT id, length(name) AS n, instr(name, 'a') AS a, reverse(name) AS r, repeat('*', priority) AS stars FROM customers JOIN orders USING (id)
t13: SELECT id, translate(name, 'aeiou', '*****') AS masked, overlay(email PLACING '***' FROM 2 FOR 3) AS hidden FROM customers
t14: SELECT id, levenshtein(name, country) AS d, soundex(name) AS s FROM customers
t15: SELECT id FROM customers WHERE name LIKE ANY ('A%', '%b%')
t16: SELECT id, nullif(trim(coupon), '') AS coupon, concat_ws('-', status, coupon) AS c FROM orders
t17: SELECT id, base64(encode(name, 'UTF-8')) AS b FROM customers
t18: SELECT id, size(split(tags, ',')) AS n, array_contains(split(tags, ','), 'new') AS is_new FROM products
t19: SELECT regexp_count(tags, ',') + 1 AS n, regexp_substr(tags, '[a-z]+') AS first FROM products
t20: SELECT id, format_string('%05d-%s', id, status) AS code FROM orders
t21: SELECT id, CASE status WHEN 'shipped' THEN 'done' WHEN 'cancelled' THEN 'gone' ELSE 'open' END AS state, decode(priority, 1, 'high', 2, 'low', 'none') AS p FROM orders
t22: SELECT parse_url(concat('http://shop.example', page), 'PATH') AS path, count(*) AS n FROM events GROUP BY 1
t23: SELECT id, name NOT LIKE '%\\_%' ESCAPE '/' AS plain, contains(email, '.com') AS com, startswith(name, 'A') AS a FROM customers
t24: SELECT id, sentences(name) AS s FROM customers
-- arrays, structs, maps, JSON
x01: SELECT id, tag FROM products LATERAL VIEW explode(split(tags, ',')) t AS tag
x02: SELECT tag, count(*) AS n FROM (SELECT explode(split(tags, ',')) AS tag FROM products) GROUP BY tag
x03: SELECT id, posexplode(split(tags, ',')) AS (place, tag) FROM products
x04: SELECT p.id, t.tag FROM products p LATERAL VIEW OUTER explode(split(p.tags, ',')) t AS tag
x05: SELECT get_json_object(payload, '$.ref') AS ref, count(*) AS n FROM events GROUP BY 1
x06: SELECT user_id, from_json(payload, 'ref STRING, n INT').n AS n FROM events
x07: SELECT id, named_struct('name', name, 'country', country) AS who FROM customers
x08: SELECT id, transform(split(tags, ','), t -> upper(trim(t))) AS tags FROM products
x09: SELECT id, array_sort(array_distinct(split(tags, ','))) AS tags FROM products
x10: SELECT id, to_json(named_struct('id', id, 'total', total)) AS j FROM orders
x11: SELECT id, map('status', status, 'coupon', coupon)['status'] AS s FROM orders
x12: SELECT order_id, aggregate(collect_list(quantity), 0, (a, q) -> a + q) AS n FROM order_lines GROUP BY order_id
x13: SELECT id, filter(split(tags, ','), t -> length(t) > 2) AS long_tags, exists(split(tags, ','), t -> t = 'new') AS is_new FROM products
x14: SELECT customer_id, map_from_entries(array_sort(collect_list(struct(id, total)))) AS orders FROM orders GROUP BY customer_id
x15: SELECT user_id, j.ref FROM events LATERAL VIEW json_tuple(payload, 'ref', 'n') j AS ref, n
x16: SELECT id, stack(2, 'total', CAST(total AS STRING), 'status', status) AS (field, value) FROM orders
x17: SELECT customer_id, slice(sort_array(collect_list(total), false), 1, 3) AS top FROM orders GROUP BY customer_id
x18: SELECT user_id, payload:ref AS ref FROM events
-- pivots
p01: SELECT * FROM (SELECT country, segment, credit FROM customers) PIVOT (sum(credit) FOR segment IN ('gold', 'silver'))
p02: SELECT * FROM (SELECT id, total, CAST(priority AS DECIMAL(12,2)) AS priority FROM orders) UNPIVOT (value FOR field IN (total, priority))
p03: SELECT * FROM (SELECT year(ordered_at) AS y, status, total FROM orders) PIVOT (sum(total) AS t, count(*) AS n FOR status IN ('shipped' AS s, 'cancelled' AS c))
-- numbers, casts and conditions
n01: SELECT id, price, price * 1.19 AS gross, round(price / 3, 2) AS third, CAST(price AS INT) AS whole FROM products
n02: SELECT id, total, CASE WHEN total IS NULL THEN 'none' WHEN total < 20 THEN 'small' WHEN total < 100 THEN 'middle' ELSE 'large' END AS size FROM orders
n03: SELECT id, quantity % 2 = 0 AS even, quantity DIV 2 AS half, -quantity AS minus, +quantity AS plus FROM (SELECT order_id AS id, quantity FROM order_lines)
n04: SELECT id, total * 2 AS double_total, double_total + 1 AS more FROM orders
n05: SELECT id, try_cast(coupon AS INT) AS c, CAST(total AS DOUBLE) AS d, CAST(total AS STRING) AS s FROM orders
n06: SELECT id, coupon::int AS c FROM orders WHERE coupon RLIKE '^[0-9]+$'
n07: SELECT id, greatest(price, 10) AS g, least(stock, 5) AS l, abs(price - 20) AS a FROM products
n08: SELECT id, round(weight, 1) AS r, ceil(weight) AS c, floor(weight) AS f, sqrt(abs(weight)) AS s FROM products
n09: SELECT id, if(active, 'yes', 'no') AS a, nvl(segment, 'none') AS s, nvl2(email, 1, 0) AS e, ifnull(credit, 0) AS c FROM customers
n10: SELECT id, log(10, total) AS l, pow(priority, 2) AS p, exp(priority) AS e, mod(id, 7) AS m FROM orders WHERE total > 0
n11: SELECT id, price BETWEEN 10 AND 50 AS mid, category IN ('toys', 'books', NULL) AS known FROM products
n12: SELECT id FROM customers WHERE active IS NOT TRUE AND (segment IS NULL OR segment != 'gold') AND credit <=> NULL
n13: SELECT id, priority / 0 AS boom FROM orders WHERE priority IS NULL
n14: SELECT department, sum(salary) / count(*) AS mean, sum(bonus) AS bonus FROM employees GROUP BY department
n15: SELECT id, hex(id) AS h, bin(priority) AS b, conv(CAST(id AS STRING), 10, 36) AS c FROM orders
n16: SELECT id, rand() AS r FROM orders
n17: SELECT id, rand(42) < 0.1 AS sampled FROM orders
n18: SELECT * FROM orders TABLESAMPLE (10 PERCENT)
n19: SELECT id, monotonically_increasing_id() AS n, uuid() AS u FROM orders
n20: SELECT id, typeof(total) AS t, stock & 1 AS odd, cast(active AS INT) AS a FROM orders JOIN products USING (id) JOIN customers USING (id)
n21: SELECT id FROM orders LIMIT 5
n22: SELECT id, isnull(total) AS n, zeroifnull(total) AS z, nullifzero(priority) AS p FROM orders
n23: SELECT id, to_number(coupon, '999') AS c FROM orders WHERE coupon RLIKE '^[0-9]{1,3}$'
n24: SELECT id, cbrt(weight) AS c, sin(weight) AS s, degrees(weight) AS d, round(stock, -1) AS r FROM products
