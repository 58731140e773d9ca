-- Forgets an index, if it is still the one that is known. KEYS: indexes, shape. ARGV: view, build.
redis.call('UNLINK', KEYS[2])
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if entry and string.sub(entry, 1, #ARGV[2] + 1) == ARGV[2] .. ' ' then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return 1
