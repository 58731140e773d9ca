-- Removes a workspace, also one of which only the registry knows. KEYS: meta, gone, operation, created, expiring.
-- ARGV: base, part. Returns three words: "1" when there was one, else "0", the same for indexes, and how many
-- workspaces the space still has.
local earlier = redis.call('GET', KEYS[3])
if earlier then
  return earlier
end
local existed = forget(ARGV[1], ARGV[2], KEYS[4], KEYS[5])
expire_registry(KEYS[4], KEYS[5], ARGV[1] .. 'events')
local words = { integer(existed), is_indexed(ARGV[1] .. ARGV[2] .. ':'), integer(redis.call('ZCARD', KEYS[4])) }
return remember(KEYS[3], table.concat(words, ' '))
