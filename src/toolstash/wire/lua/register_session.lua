-- Notes that a session's space exists. KEYS: sessions. ARGV: space, time of expiry in ms or 'inf', 'GT' or 'LT'.
-- With GT the latest expiry counts; LT makes it earlier, for a known space that has become empty. Spaces that ended a
-- day ago go.
if ARGV[3] == 'GT' or redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', integer(now_us() / 1000 - GONE_MS))
expire_registry(KEYS[1], KEYS[1])
return 1
