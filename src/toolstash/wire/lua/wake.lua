-- Tells those who listen just now. KEYS: events. ARGV: kind, part of a call, life of the stream in ms. Nobody is told when
-- the server is full: they look now and then by themselves.
redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', 1000, '*', 'kind', ARGV[1], 'call', ARGV[2])
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
