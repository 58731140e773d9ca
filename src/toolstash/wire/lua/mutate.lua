-- Changes the rows of a list workspace in place, all of it or nothing.
-- KEYS: meta, operation. ARGV: expected version or '', codec, non-finite numbers, change, arguments…
--   append: rows | update: position, row | swap: position, the row as it was read, row | delete: positions
-- Returns lines: "ok", the fields of meta as read.lua lists them | "missing" | "kind" | "version", it | "range", rows | "changed" | "rows" | "bytes".
local DELETED = '\0' -- no row is: rows are JSON
local meta, operation = KEYS[1], KEYS[2]
local expected, codec, change = ARGV[1], ARGV[2], ARGV[4]

local earlier = redis.call('GET', operation)
if earlier then
  return earlier
end
local m = redis.call('HMGET', meta, 'gen', 'rev', 'kind', 'count', 'bytes', 'chars', 'largest', 'format', 'limits')
local generation, count = m[1], tonumber(m[4])
if not generation then
  return 'missing'
end
if m[3] ~= 'rows' or m[8] ~= '$FORMAT' then
  return 'kind'
end
local version = generation .. '.' .. m[2]
if expected ~= '' and expected ~= version then
  return 'version\n' .. version
end
local max_rows, max_bytes = string.match(m[9], '^(%S+) (%S+)$$')
max_rows, max_bytes = tonumber(max_rows), tonumber(max_bytes)
local rows = string.sub(meta, 1, -5) .. 'rows:' .. generation
if redis.call('LLEN', rows) ~= count then
  return 'missing'
end

local function code_points(text)
  local _, continuations = string.gsub(text, '[\128-\191]', '')
  return #text - continuations
end
local bytes, chars, largest = tonumber(m[5]), tonumber(m[6]), tonumber(m[7])
local function weigh(text, sign)
  bytes, chars = bytes + sign * #text, chars + sign * code_points(text)
  if sign > 0 then
    largest = math.max(largest, #text)
  end
end

local plan
if change == 'append' then
  for position = 5, #ARGV do
    weigh(ARGV[position], 1)
  end
  count = count + #ARGV - 4
  plan = function()
    for start = 5, #ARGV, 4000 do
      redis.call('RPUSH', rows, unpack(ARGV, start, math.min(start + 3999, #ARGV)))
    end
  end
elseif change == 'update' or change == 'swap' then
  local position = tonumber(ARGV[5])
  if position < 0 or position >= count then
    return 'range\n' .. count
  end
  local before = redis.call('LINDEX', rows, position)
  if change == 'swap' and before ~= ARGV[6] then
    return 'changed'
  end
  weigh(before, -1)
  weigh(ARGV[#ARGV], 1)
  plan = function()
    redis.call('LSET', rows, position, ARGV[#ARGV])
  end
else
  local seen, removed = {}, {}
  for position = 5, #ARGV do
    local index = tonumber(ARGV[position])
    if index < 0 or index >= count then
      return 'range\n' .. count
    end
    if not seen[index] then
      seen[index] = true
      removed[#removed + 1] = index
      weigh(redis.call('LINDEX', rows, index), -1)
    end
  end
  plan = function()
    for _, index in ipairs(removed) do
      redis.call('LSET', rows, index, DELETED)
    end
    redis.call('LREM', rows, 0, DELETED)
  end
  count = count - #removed
end
if max_rows and change == 'append' and count > max_rows then
  return 'rows\n' .. count
end
if max_bytes and change ~= 'delete' and bytes > max_bytes then
  return 'bytes\n' .. integer(bytes)
end

local life = redis.call('PTTL', meta)
plan()
if life > 0 then
  redis.call('PEXPIRE', rows, life)
end
local revision = integer(tonumber(m[2]) + 1)
redis.call('HSET', meta, 'rev', revision, 'count', count, 'parts', count, 'bytes', integer(bytes),
  'chars', integer(chars), 'largest', integer(largest))
if codec == 'json' then
  redis.call('HSET', meta, 'codec', 'json')
end
redis.call('HINCRBY', meta, 'nonfinite', ARGV[3])
if change ~= 'append' then
  redis.call('HINCRBY', meta, 'edits', 1)
end
local after = redis.call('HMGET', meta, $META_FIELDS)
return remember(operation, 'ok\n' .. table.concat(after, '\n'))
