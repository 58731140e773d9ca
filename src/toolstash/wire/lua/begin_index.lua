-- Takes the lease to build an index, if no other worker builds one of this version now. A build of an older version is
-- in vain and will notice it, so its lease is taken over.
-- KEYS: meta, building. ARGV: generation, revision, build. Returns 1, or 0 when there is nothing to build.
local m = redis.call('HMGET', KEYS[1], 'gen', 'rev')
local version = ARGV[1] .. '.' .. ARGV[2]
local lease, own = redis.call('GET', KEYS[2]), ARGV[3] .. ' ' .. version
if m[1] ~= ARGV[1] or m[2] ~= ARGV[2] then
  return 0
end
if lease and lease ~= own and string.sub(lease, -#version - 1) == ' ' .. version then
  return 0
end
redis.call('SET', KEYS[2], own, 'PX', $LEASE_MS)
return 1
