-- Reads named fields of a dict workspace with its meta. KEYS: meta, gone. ARGV: names as JSON strings.
-- Returns {1, meta, values} with nil for a name that is not there, or {0, tombstone}.
local m = redis.call('HMGET', KEYS[1], 'format', 'gen', 'rev', 'kind', 'count', 'parts', 'bytes', 'chars', 'largest',
  'codec', 'created', 'accessed', 'type', 'producer', 'info')
local generation, kind, parts = m[2], m[4], tonumber(m[6])
if not generation then
  return { 0, redis.call('GET', KEYS[2]) or '' }
end
if m[1] ~= '1' or kind ~= 'fields' then
  return { 1, m, {} }
end
local stem = string.sub(KEYS[1], 1, -5)
local hash = stem .. 'fields:' .. generation
if redis.call('HLEN', hash) ~= parts or redis.call('LLEN', stem .. 'names:' .. generation) ~= parts then
  return { 0, redis.call('GET', KEYS[2]) or '' }
end
local values = {}
for start = 1, #ARGV, 1000 do
  for _, value in ipairs(redis.call('HMGET', hash, unpack(ARGV, start, math.min(start + 999, #ARGV)))) do
    values[#values + 1] = value
  end
end
return { 1, m, values }
