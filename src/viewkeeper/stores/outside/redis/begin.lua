-- Makes the caller the only one that can write to a target, and says what its marker was before.
-- KEYS: the marker.  ARGV: database, view, state, epoch, 1 to go before a later epoch, what it is at if it is new.
local marker = KEYS[1]
local kind = redis.call('TYPE', marker).ok
if kind ~= 'none' and kind ~= 'hash' then return {'other', 'a ' .. kind} end
local was = redis.call('HMGET', marker, 'database', 'view', 'state', 'at', 'writing', 'epoch')
if kind == 'hash' and not was[1] then return {'other', 'a hash that is no marker'} end
if was[1] and was[1] ~= ARGV[1] then return {'other', was[1]} end
if was[6] and tonumber(was[6]) > tonumber(ARGV[4]) and ARGV[5] ~= '1' then return {'later', was[6]} end
redis.call('HSET', marker, 'database', ARGV[1], 'epoch', ARGV[4], 'step', 0)
if not was[1] then
  redis.call('HSET', marker, 'view', ARGV[2], 'state', ARGV[3], 'version', -1, 'at', ARGV[6])
end
local attempt = redis.call('HINCRBY', marker, 'attempt', 1)
for i = 1, 6 do was[i] = was[i] or '' end
return {'begun', tostring(attempt), unpack(was)}
