-- Notes when a piece of work should be looked at. KEYS: due. ARGV: the work, in how many ms, life of the list in ms, 'LT'
-- (earlier than noted, if it is) or 'XX' (instead of what is noted, if anything is).
local now = now_us() / 1000
redis.call('PEXPIRE', KEYS[1], ARGV[3]) -- before all else, so that a full server does not refuse what follows
redis.call('ZADD', KEYS[1], ARGV[4], integer(now + ARGV[2]), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', integer(now - ARGV[3])) -- that nobody has looked at for as long
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
