-- Reads on in the generation that a reader began with, also after it was replaced. KEYS: meta.
-- ARGV: generation, edits, list, hash or '', first, last (parts), bytes at most. Rows added since do not matter.
-- Returns {1, items, values}, or {0} when rows of it were changed meanwhile or it is gone.
local generation, edits, list, hash = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local m = redis.call('HMGET', KEYS[1], 'gen', 'edits')
local now = m[1] == generation and m[2] or redis.call('GET', string.sub(KEYS[1], 1, -5) .. 'retired:' .. generation)
if now ~= edits then
  return { 0 }
end
local first, last, budget = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
if hash ~= '' and redis.call('EXISTS', hash) == 0 then
  return { 0 }
end
local items = take(list, first, last, budget)
return { 1, items, hash ~= '' and values_of(hash, items) or {} }
