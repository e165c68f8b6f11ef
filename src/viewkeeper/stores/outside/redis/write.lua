-- Writes whole rows, each in one moment; nothing where others have begun meanwhile, or this step has been done.
-- KEYS: the marker.  ARGV: attempt, step, version and manifest, then of each row: key, number of fields and values, these;
-- none: the row goes.
local marker = KEYS[1]
local now = redis.call('HMGET', marker, 'attempt', 'step')
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end
redis.call('HSET', marker, 'writing', ARGV[3])
local at = 4
while at < #ARGV do
  local key, count = ARGV[at], tonumber(ARGV[at + 1])
  redis.call('DEL', key)
  if count > 0 then redis.call('HSET', key, unpack(ARGV, at + 2, at + 1 + count)) end
  at = at + 2 + count
end
redis.call('HINCRBY', marker, 'step', 1)
return 1
