-- Publishes a generation in one step: checks the replace rule, points meta at it, sets every expiry, retires the old one.
-- KEYS: meta, gone, operation, created, expiring.
-- ARGV: base, part, generation, kind, parts, ttl ms or '', tombstone, max workspaces or '', max bytes or '',
--       token of a leader and the generation when it began, or '', rule type or '', number of allowed producers, the producers, then pairs for meta.
-- Returns lines: "ok", time in µs, dropped parts…, where after a blank "1" means that there are indexes to be taken
--   away, else "0" | "conflict", type, producer | "torn" | "quota" | "overtaken".
local meta, gone, operation, created, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local base, part, generation, kind = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local parts, ttl, tombstone = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local max_workspaces, max_bytes = tonumber(ARGV[8]), tonumber(ARGV[9])
local token, began_with = ARGV[10], ARGV[11]
local rule_type, producers = ARGV[12], tonumber(ARGV[13])
local stem = base .. part .. ':'
local new_keys = part_keys(stem, kind, generation)

local earlier = redis.call('GET', operation)
if earlier then
  return earlier
end

local fields = {}
for position = 14 + producers, #ARGV do
  fields[#fields + 1] = ARGV[position]
end
local bytes, new_type = 0, ''
for position = 1, #fields, 2 do
  if fields[position] == 'bytes' then
    bytes = tonumber(fields[position + 1])
  elseif fields[position] == 'type' then
    new_type = fields[position + 1]
  end
end

local function allowed(old_type, old_producer)
  if rule_type == '' then
    return true
  end
  for position = 14, 13 + producers do
    if ARGV[position] == old_producer then
      return old_type == rule_type
    end
  end
  return false
end

local old = redis.call('HMGET', meta, 'gen', 'kind', 'type', 'producer', 'edits')
if token ~= '' then
  local held = redis.call('GET', stem .. 'lease')
  local leader = held and string.match(held, '^%S+')
  if leader ~= token and (leader or (old[1] and old[1] ~= began_with)) then
    return 'overtaken'
  end
end
if old[1] and not allowed(old[3], old[4]) then
  return 'conflict\n' .. old[3] .. '\n' .. old[4]
end
if max_bytes and bytes > max_bytes then
  return 'quota'
end
for _, key in ipairs(new_keys) do
  local length = redis.call(string.find(key, 'fields:' .. generation, 1, true) and 'HLEN' or 'LLEN', key)
  if length ~= parts then
    return 'torn'
  end
end

local dropped = make_room(base, part, created, expiring, bytes, max_workspaces, max_bytes)
local now = now_us()
local expires = ttl and math.floor(now / 1000) + ttl
redis.call('UNLINK', meta)
redis.call('HSET', meta, 'gen', generation, 'kind', kind, 'parts', parts, 'rev', 0, 'edits', 0,
  'created', integer(now), 'accessed', integer(now), unpack(fields))
new_keys[#new_keys + 1] = meta
for _, key in ipairs(new_keys) do
  if expires then
    redis.call('PEXPIREAT', key, integer(expires))
  else
    redis.call('PERSIST', key)
  end
end
redis.call('SET', gone, tombstone)
if expires then
  redis.call('PEXPIREAT', gone, integer(expires + GONE_MS))
end
redis.call('ZADD', created, integer(now), part)
redis.call('ZADD', expiring, expires and integer(expires) or 'inf', part)
-- What a sweep has not asked for within a day is forgotten.
for _, other in ipairs(redis.call('ZRANGEBYSCORE', expiring, '-inf', integer(now / 1000 - GONE_MS), 'LIMIT', 0, 100)) do
  redis.call('ZREM', created, other)
  redis.call('ZREM', expiring, other)
end
announce(base, old[1] and 'replaced' or 'created', part, new_type, generation .. '.0')
expire_registry(created, expiring, base .. 'events')
-- Whoever is reading the old generation may finish: the note says in which state it was retired.
if old[1] and old[1] ~= generation then
  redis.call('SET', stem .. 'retired:' .. old[1], old[5], 'PX', RETIRED_MS)
  for _, key in ipairs(part_keys(stem, old[2], old[1])) do
    local left = redis.call('PTTL', key)
    if left == -1 or left > RETIRED_MS then
      redis.call('PEXPIRE', key, RETIRED_MS)
    end
  end
end
table.insert(dropped, 1, integer(now) .. ' ' .. is_indexed(stem))
return remember(operation, 'ok\n' .. table.concat(dropped, '\n'))
