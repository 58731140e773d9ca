-- Notes that a session's space exists. KEYS: sessions. ARGV: space, time of expiry in ms or 'inf'.
-- The latest expiry counts; spaces that ended a day ago are taken out.
redis.call('ZADD', KEYS[1], 'GT', ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', integer(now_us() / 1000 - GONE_MS))
expire_registry(KEYS[1], KEYS[1])
return 1
