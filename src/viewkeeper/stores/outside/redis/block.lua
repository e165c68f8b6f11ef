-- A block of a table's rows, and where its log is, at one moment.
--
-- KEYS[1] is the table's prefix; ARGV: the cursor of SCAN, the pattern of the hashes' names, about how many names to go
-- through, and the columns. Returns the next cursor, the log's id, a row that expires (or nil), and of each row its name
-- and its columns, one behind the other.

local names = {unpack(ARGV, 4)}
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'hash')
local flat, n, expiring = {}, 0, false
for _, row in ipairs(found[2]) do
  if redis.call('PTTL', row) >= 0 then
    expiring = row
  end
  local values = redis.call('HMGET', row, unpack(names))
  flat[n + 1] = row
  for i = 1, #names do
    flat[n + 1 + i] = values[i]
  end
  n = n + 1 + #names
end
return {found[1], redis.call('GET', KEYS[1] .. '.log.id'), expiring, flat}
