-- Puts one record of a call in the place of the one that was seen, or takes it away.
-- KEYS: call, operation, waiting, created, expiring. ARGV: base, part, revision that was seen or '', time in µs before
-- which this must happen or '', kind of the event or '', new revision, then, for a record: document, owner or '', life
-- of its lease in ms, life of the record in ms (after it has waited), time in ms until which it waits or '', and how many
-- may wait. Returns 1; 0 when it is refused, -1 when too many wait.
local call, operation, waiting, events = KEYS[1], KEYS[2], KEYS[3], ARGV[1] .. 'events'
local part, seen, in_time, kind, revision = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local document, owner, lease, life, waits, most = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]

if redis.call('GET', operation) then
  return 1
end
local now = now_us()
if (redis.call('HGET', call, 'rev') or '') ~= seen or (in_time and now >= in_time) then
  return 0
end
if document and waits ~= '' and redis.call('ZCOUNT', waiting, integer(now / 1000), '+inf') >= tonumber(most) then
  return -1
end
if seen ~= '' then -- with this before all else, a full server refuses new calls only
  redis.call('UNLINK', call)
end
if document then
  local ends = owner ~= '' and integer(now / 1000 + lease) or 0
  redis.call('HSET', call, 'doc', document, 'rev', revision, 'owner', owner, 'until', ends)
  redis.call('PEXPIREAT', call, integer(math.max(now / 1000, tonumber(waits) or 0) + life))
end
if document and waits ~= '' then
  redis.call('ZADD', waiting, waits, part)
else
  redis.call('ZREM', waiting, part)
end
redis.call('ZREMRANGEBYSCORE', waiting, '-inf', integer(now / 1000 - GONE_MS))
local last = redis.call('ZREVRANGE', waiting, 0, 0, 'WITHSCORES')[2]
if last then
  redis.call('PEXPIREAT', waiting, integer(tonumber(last) + GONE_MS))
end
if kind ~= '' then
  redis.call('XADD', events, 'MAXLEN', '~', $MOST_EVENTS, '*', 'kind', kind, 'call', part)
  expire_registry(KEYS[4], KEYS[5], events)
end
remember(operation, '1')
return 1
