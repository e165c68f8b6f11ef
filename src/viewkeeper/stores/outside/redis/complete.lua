-- Says which version is there, whole; with an empty version the marker goes.
-- KEYS: the marker.  ARGV: attempt, step, version, the same and its manifest, view, state.
local marker = KEYS[1]
local now = redis.call('HMGET', marker, 'attempt', 'step')
if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('DEL', marker)
  return 1
end
redis.call('HSET', marker, 'version', ARGV[3], 'at', ARGV[4], 'view', ARGV[5], 'state', ARGV[6])
redis.call('HDEL', marker, 'writing')
redis.call('HINCRBY', marker, 'step', 1)
return 1
