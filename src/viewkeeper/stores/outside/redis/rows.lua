-- viewkeeper: rows of a table as hashes, and what was done as entries of their log, in one step. Format 1.
--
-- KEYS[1] is the table's prefix P: the row of KEY is the hash P:KEY, the log is the stream P.log, and P.log.id tells it
-- from another one. ARGV are operations, one behind the other, 1,000 are a good number:
--
--   put KEY f NAME VALUE ... n NAME ...   set f columns to texts, make n columns NULL; the others stay
--   delete KEY                            delete the row
--   delete_columns KEY n NAME ...         make n columns NULL, if the row is there
--
-- Returns the number of the last entry in the log. Where anything is wrong, nothing is done. Without operations it only
-- makes the log, if there is none.

local FORMAT, COLUMNS_MAX, LAST_MAX = '1', 2000, 9e15
local log, mark = KEYS[1] .. '.log', KEYS[1] .. '.log.id'

local function refused(why)
  return redis.error_reply('VIEWKEEPER ' .. why)
end

-- The names, or names and values, whose number stands at `at`, and where the next thing stands.
local function taken(at, width)
  local count = tonumber(ARGV[at])
  if not count or count < 0 or count > COLUMNS_MAX or count % 1 ~= 0 or at + count * width > #ARGV then
    return nil
  end
  return {unpack(ARGV, at + 1, at + count * width)}, at + count * width + 1
end

local operations, at = {}, 1
while at <= #ARGV do
  local op, key = ARGV[at], ARGV[at + 1]
  local each = {op = op, key = key, row = KEYS[1] .. ':' .. (key or ''), values = {}, nulls = {}}
  at = at + 2
  if not key or (op ~= 'put' and op ~= 'delete' and op ~= 'delete_columns') then
    return refused('operation ' .. (#operations + 1) .. ': expected put, delete or delete_columns, and a key')
  end
  if op == 'put' then
    each.values, at = taken(at, 2)
  end
  if at and op ~= 'delete' then
    each.nulls, at = taken(at, 1)
  end
  if not at then
    return refused('operation ' .. (#operations + 1) .. ': a number of columns, or columns, are missing')
  end
  if op ~= 'delete' then
    local kind = redis.call('TYPE', each.row).ok
    if kind ~= 'hash' and kind ~= 'none' then
      return refused(each.row .. ' is no hash: rows of a table and other keys need different names')
    end
    if kind == 'hash' and redis.call('PTTL', each.row) >= 0 then
      return refused(each.row .. ' expires, which would be in no log: PERSIST it, or DEL and put it')
    end
  end
  operations[#operations + 1] = each
end

local known, last = redis.call('GET', mark), 0
local info = redis.pcall('XINFO', 'STREAM', log)
if info.err and not string.find(info.err, 'no such key', 1, true) then
  return info
end
if known and string.sub(known, 1, #FORMAT + 1) ~= FORMAT .. ' ' then
  return refused(log .. ' is written by another version of this script')
end
if not info.err then
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      last = tonumber(string.match(info[i + 1], '^%d+'))
    end
  end
end
if last + #operations > LAST_MAX then
  return refused(log .. ' holds an entry of somebody else whose id is too great')
end

local time = redis.call('TIME')
if info.err or not known then
  redis.call('SET', mark, FORMAT .. ' ' .. redis.sha1hex(time[1] .. ' ' .. time[2] .. ' ' .. log))
end
if info.err and #operations == 0 then
  redis.call('XGROUP', 'CREATE', log, 'viewkeeper', '$', 'MKSTREAM')
  redis.call('XGROUP', 'DESTROY', log, 'viewkeeper')
end

local stamp = string.format('%.0f', time[1] * 1000000 + time[2])
for _, each in ipairs(operations) do
  last = last + 1
  local nulls = #each.nulls > 0 and cjson.encode(each.nulls) or ''
  redis.call('XADD', log, string.format('%.0f-0', last), each.op, each.key, 'at', stamp, 'null', nulls, unpack(each.values))
  if each.op == 'delete' then
    redis.call('DEL', each.row)
  elseif each.op == 'put' or redis.call('EXISTS', each.row) == 1 then
    if #each.values > 0 then
      redis.call('HSET', each.row, unpack(each.values))
    end
    if #each.nulls > 0 then
      redis.call('HDEL', each.row, unpack(each.nulls))
    end
    if (#each.nulls > 0 or #each.values == 0) and redis.call('EXISTS', each.row) == 0 then
      redis.call('HSET', each.row, '', '')  -- a row whose columns are all NULL is there, too
    end
  end
end
return last
