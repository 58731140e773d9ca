-- Reads a stretch of a workspace with its meta, in one step and without writing.
-- KEYS: meta, gone. ARGV: first, end or '' (rows, keys, or code points of a text), bytes at most
-- (default 1 MB), 'names' to leave the values out.
-- Returns {1, meta, items[, values]}, or {0, tombstone} when the workspace, or a part of it, is gone.
-- Fewer items than asked come back once the bytes are above the bound; at least one always does.
local m = redis.call('HMGET', KEYS[1], 'format', 'gen', 'rev', 'kind', 'count', 'parts', 'bytes', 'chars', 'largest',
  'codec', 'created', 'accessed', 'type', 'producer', 'info')
local generation, kind, parts = m[2], m[4], tonumber(m[6])
if not generation then
  return { 0, redis.call('GET', KEYS[2]) or '' }
end
if m[1] ~= '1' then
  return { 1, m, {} }
end
local families = { text = 'text:', fields = 'names:' }
local stem = string.sub(KEYS[1], 1, -5)
local list = stem .. (families[kind] or 'rows:') .. generation
local hash = stem .. 'fields:' .. generation
if redis.call('LLEN', list) ~= parts or (kind == 'fields' and redis.call('HLEN', hash) ~= parts) then
  return { 0, redis.call('GET', KEYS[2]) or '' }
end

local first, last = tonumber(ARGV[1]), tonumber(ARGV[2])
if kind == 'text' then
  first = math.floor(first / 4096)
  last = last and math.ceil(last / 4096)
elseif kind == 'value' then
  first, last = 0, 1
end
last = math.min(last or parts, parts) - 1
if first > last then
  return { 1, m, {}, {} }
end

local budget, largest = tonumber(ARGV[3]) or 1000000, math.max(1, tonumber(m[9]))
local items
if (last - first + 1) * largest <= budget then
  items = redis.call('LRANGE', list, first, last)
else
  local step, used = math.max(1, math.min(100, math.floor(budget / largest))), 0
  items = {}
  while first <= last and used < budget do
    for _, item in ipairs(redis.call('LRANGE', list, first, math.min(first + step - 1, last))) do
      items[#items + 1] = item
      used = used + (kind == 'fields' and largest or #item)
    end
    first = first + step
  end
end
if kind == 'fields' and ARGV[4] ~= 'names' then
  local values = {}
  for start = 1, #items, 1000 do
    for _, value in ipairs(redis.call('HMGET', hash, unpack(items, start, math.min(start + 999, #items)))) do
      values[#values + 1] = value
    end
  end
  return { 1, m, items, values }
end
return { 1, m, items, {} }
