-- Renews a lease, if it is still one's own. KEYS: lease. ARGV: token, life in ms. Returns 1 or 0.
local held = redis.call('GET', KEYS[1])
if not held or string.match(held, '^%S+') ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
