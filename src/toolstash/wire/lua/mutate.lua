-- Changes the rows of a list workspace in place, all of it or nothing.
-- KEYS: meta, operation, created, expiring. ARGV: base, part, expected version or '', codec, non-finite numbers, '1' where
--   all rows go, how many rows are replaced, then for each: position, the row as it was read or '', row; how many are removed, their positions
--   (each once), and the rows that are added.
-- Returns lines: "ok", the fields of meta as read.lua lists them, what made room (see make_room) | "missing" | "kind" |
--   "version", it | "range", rows | "changed" | "rows", how many | "bytes", how many | "quota", bytes of it.
local DELETED = '\0' -- no row is: rows are JSON
local meta, operation, created, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base, part, expected, codec, clears = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6] == '1'

local earlier = redis.call('GET', operation)
if earlier then
  return earlier
end
local m = redis.call('HMGET', meta, 'gen', 'rev', 'kind', 'count', 'bytes', 'chars', 'largest', 'format', 'limits',
  'type')
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
local max_rows, max_bytes, max_space_bytes = string.match(m[9], '^(%S+) (%S+) %S+ (%S+)$$')
max_rows, max_bytes, max_space_bytes = tonumber(max_rows), tonumber(max_bytes), tonumber(max_space_bytes)
local rows = string.sub(meta, 1, -5) .. 'rows:' .. generation
if redis.call('LLEN', rows) ~= count then
  return 'missing'
end

local function code_points(text)
  local _, continuations = string.gsub(text, '[\128-\191]', '')
  return #text - continuations
end
local bytes, chars, largest = tonumber(m[5]), tonumber(m[6]), tonumber(m[7])
if clears then
  count, bytes, chars, largest = 0, 0, 0, 0
end
local function weigh(text, sign)
  bytes, chars = bytes + sign * #text, chars + sign * code_points(text)
  if sign > 0 then
    largest = math.max(largest, #text)
  end
end

local replaced, removed, added = {}, {}, 0
local position = 7
local function next_argument()
  position = position + 1
  return ARGV[position - 1]
end
for _ = 1, tonumber(next_argument()) do
  replaced[#replaced + 1] = { tonumber(next_argument()), next_argument(), next_argument() }
end
for _ = 1, tonumber(next_argument()) do
  removed[#removed + 1] = tonumber(next_argument())
end
local first_added = position
for index = first_added, #ARGV do
  weigh(ARGV[index], 1)
  added = added + 1
end

for _, one in ipairs(replaced) do
  if one[1] < 0 or one[1] >= count then
    return 'range\n' .. count
  end
  local before = redis.call('LINDEX', rows, one[1])
  if one[2] ~= '' and before ~= one[2] then
    return 'changed'
  end
  weigh(before, -1)
  weigh(one[3], 1)
end
for _, index in ipairs(removed) do
  if index < 0 or index >= count then
    return 'range\n' .. count
  end
  weigh(redis.call('LINDEX', rows, index), -1)
end
count = count - #removed + added
if max_rows and added > 0 and count > max_rows then
  return 'rows\n' .. count
end
if max_bytes and (added > 0 or #replaced > 0) and bytes > max_bytes then
  return 'bytes\n' .. integer(bytes)
end

local dropped = {}
if max_space_bytes and (added > 0 or #replaced > 0) then
  if bytes > max_space_bytes then
    return 'quota\n' .. integer(max_space_bytes)
  end
  dropped = make_room(base, part, created, expiring, bytes, nil, max_space_bytes)
end

local life = redis.call('PTTL', meta)
if clears then
  redis.call('UNLINK', rows)
end
for _, one in ipairs(replaced) do
  redis.call('LSET', rows, one[1], one[3])
end
for _, index in ipairs(removed) do
  redis.call('LSET', rows, index, DELETED)
end
if #removed > 0 then
  redis.call('LREM', rows, 0, DELETED)
end
for start = first_added, #ARGV, 4000 do
  redis.call('RPUSH', rows, unpack(ARGV, start, math.min(start + 3999, #ARGV)))
end
if life > 0 then
  redis.call('PEXPIRE', rows, life)
end
local revision = integer(tonumber(m[2]) + 1)
redis.call('HSET', meta, 'rev', revision, 'count', count, 'parts', count, 'bytes', integer(bytes),
  'chars', integer(chars), 'largest', integer(largest))
if codec == 'json' then
  redis.call('HSET', meta, 'codec', 'json')
end
redis.call('HINCRBY', meta, 'nonfinite', ARGV[5])
if clears or #replaced + #removed > 0 then
  redis.call('HINCRBY', meta, 'edits', 1)
end
announce(base, 'changed', part, m[10], generation .. '.' .. revision)
expire_registry(created, expiring, base .. 'events')
local after = redis.call('HMGET', meta, $META_FIELDS)
for _, line in ipairs(dropped) do
  after[#after + 1] = line
end
return remember(operation, 'ok\n' .. table.concat(after, '\n'))
