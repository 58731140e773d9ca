-- Writes documents of an index that is being built, and renews the builder's lease.
-- KEYS: meta, building. ARGV: generation, revision, build, start of the keys, number of the first document, then for
--   each document how many words it has, and these: names of fields and values by turns.
-- Returns 1, or 0 when the workspace changed or is gone, or another worker builds now.
local m = redis.call('HMGET', KEYS[1], 'gen', 'rev')
local lease = ARGV[3] .. ' ' .. ARGV[1] .. '.' .. ARGV[2]
if m[1] ~= ARGV[1] or m[2] ~= ARGV[2] or redis.call('GET', KEYS[2]) ~= lease then
  return 0
end
local life = redis.call('PTTL', KEYS[1])
-- Documents of a workspace that stays get an expiry too, until all are there: a builder may die.
local expires = integer(math.floor(now_us() / 1000) + (life > 0 and life or $UNFINISHED_INDEX_MS))
local number, position = tonumber(ARGV[5]), 6
while position <= #ARGV do
  local words = tonumber(ARGV[position])
  local key = ARGV[4] .. integer(number)
  redis.call('HSET', key, unpack(ARGV, position + 1, position + words))
  redis.call('PEXPIREAT', key, expires)
  number, position = number + 1, position + words + 1
end
redis.call('PEXPIRE', KEYS[2], $LEASE_MS)
return 1
