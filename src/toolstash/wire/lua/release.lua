-- Gives a lease back, if it is still the builder's own. KEYS: building. ARGV: build, version.
if redis.call('GET', KEYS[1]) == ARGV[1] .. ' ' .. ARGV[2] then
  redis.call('UNLINK', KEYS[1])
end
return 1
