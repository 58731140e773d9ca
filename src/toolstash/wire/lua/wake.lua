-- Tells those who listen just now. KEYS: events. ARGV: kind, part of a call, life of the stream in ms.
redis.call('XADD', KEYS[1], 'MAXLEN', '~', 1000, '*', 'kind', ARGV[1], 'call', ARGV[2])
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
