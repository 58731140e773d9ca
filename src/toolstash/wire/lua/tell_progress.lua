-- Tells the watchers of a space how far a call is. KEYS: events, created, expiring. ARGV: part, done, total or '', message.
redis.call('XADD', KEYS[1], 'MAXLEN', '~', $MOST_EVENTS, '*',
  'kind', 'progress', 'call', ARGV[1], 'done', ARGV[2], 'total', ARGV[3], 'message', ARGV[4])
expire_registry(KEYS[2], KEYS[3], KEYS[1])
return 1
