-- Renews a lease, if it is still one's own. KEYS: lease. ARGV: token, digest of the call, life in ms. Returns 1 or 0.
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ' ' .. ARGV[2] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
