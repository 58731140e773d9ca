-- Reads a stretch of a workspace with its meta, in one step and without writing.
-- KEYS: meta, gone. ARGV: first, end or '' (rows, keys, or code points of a text), parts at most or '', bytes at most
-- (default 1 MB), 'names' to leave the values out.
-- Returns {1, meta, items, values}, or {0, tombstone} when the workspace, or a part of it, is gone.
-- Fewer items than asked come back above a bound; at least one always does.
local m, list, hash = open(KEYS[1], KEYS[2])
if not m then
  return { 0, list }
end
if not list then
  return { 1, m, {}, {} }
end
local kind, parts = m[4], tonumber(m[6])
local first, last = tonumber(ARGV[1]), tonumber(ARGV[2])
if kind == 'text' then
  first = math.floor(first / $PIECE_CHARS)
  last = last and math.ceil(last / $PIECE_CHARS)
elseif kind == 'value' then
  first, last = 0, 1
end
last = math.min(last or parts, parts, first + (tonumber(ARGV[3]) or parts)) - 1
if first > last then
  return { 1, m, {}, {} }
end

local budget, largest = tonumber(ARGV[4]) or 1000000, math.max(1, tonumber(m[9]))
local items
if (last - first + 1) * largest <= budget then
  items = redis.call('LRANGE', list, first, last)
else
  items = take(list, first, last, budget)
end
return { 1, m, items, kind == 'fields' and ARGV[5] ~= 'names' and values_of(hash, items) or {} }
