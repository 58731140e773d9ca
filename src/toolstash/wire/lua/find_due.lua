-- Finds work that should be looked at. KEYS: due. ARGV: how much at most, and after how many. Returns in how many ms the first is due, or '',
-- and what is due now, longest first.
local now = now_us() / 1000
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', integer(now), 'LIMIT', ARGV[2], ARGV[1])
table.insert(found, 1, first and integer(math.max(0, tonumber(first) - now)) or '')
return found
