-- Takes a running call off, if it is still one's own. KEYS: call. ARGV: owner. Returns 1 or 0.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
return redis.call('UNLINK', KEYS[1])
