-- Renews the lease of a call, if it is still one's own. KEYS: call. ARGV: owner, life in ms. Returns its revision or '0'.
local kept = redis.call('HMGET', KEYS[1], 'owner', 'rev')
if not kept[1] or kept[1] ~= ARGV[1] then
  return '0'
end
-- With PEXPIRE before all else, a full server does not refuse it.
redis.call('PEXPIRE', KEYS[1], integer(math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2]))))
redis.call('HSET', KEYS[1], 'until', integer(now_us() / 1000 + ARGV[2]))
return kept[2]
