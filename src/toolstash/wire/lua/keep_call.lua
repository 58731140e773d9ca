-- Renews the lease of a call, if it is still one's own. KEYS: call. ARGV: owner, life in ms. Returns its revision or '0'.
local kept = redis.call('HMGET', KEYS[1], 'owner', 'rev')
if not kept[1] or kept[1] ~= ARGV[1] then
  return '0'
end
redis.call('HSET', KEYS[1], 'until', integer(now_us() / 1000 + ARGV[2]))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return kept[2]
