-- Removes a workspace, also one of which only the registry knows. KEYS: meta, gone, operation, created, expiring.
-- ARGV: base, part. Returns two words: "1" when there was one, else "0", and how many the space still has.
local earlier = redis.call('GET', KEYS[3])
if earlier then
  return earlier
end
local existed = forget(ARGV[1], ARGV[2], KEYS[4], KEYS[5])
expire_registry(KEYS[4], KEYS[5])
return remember(KEYS[3], integer(existed) .. ' ' .. integer(redis.call('ZCARD', KEYS[4])))
