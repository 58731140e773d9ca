-- Takes the expiry off some documents of an index that is complete, of a workspace that stays; renews the lease.
-- KEYS: meta, building. ARGV: generation, revision, build, start of the keys, number of the first document, how many.
-- Returns 1, or 0 when the workspace changed or is gone, or another worker builds now.
local m = redis.call('HMGET', KEYS[1], 'gen', 'rev')
local lease = ARGV[3] .. ' ' .. ARGV[1] .. '.' .. ARGV[2]
if m[1] ~= ARGV[1] or m[2] ~= ARGV[2] or redis.call('GET', KEYS[2]) ~= lease then
  return 0
end
for number = tonumber(ARGV[5]), tonumber(ARGV[5]) + tonumber(ARGV[6]) - 1 do
  redis.call('PERSIST', ARGV[4] .. string.format('%.0f', number))
end
redis.call('PEXPIRE', KEYS[2], $LEASE_MS)
return 1
