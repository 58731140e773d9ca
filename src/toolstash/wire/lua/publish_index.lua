-- Makes an index known, if the workspace is still as it was when the building began.
-- KEYS: meta, indexes, building, shape. ARGV: generation, revision, view, build, rows, shape.
-- Returns {1, the entry that it replaces or ''}, or {0}.
local m = redis.call('HMGET', KEYS[1], 'gen', 'rev')
local view, lease = ARGV[3], ARGV[4] .. ' ' .. ARGV[1] .. '.' .. ARGV[2]
if m[1] ~= ARGV[1] or m[2] ~= ARGV[2] or redis.call('GET', KEYS[3]) ~= lease then
  return { 0 }
end
local before = redis.call('HGET', KEYS[2], view) or ''
redis.call('HSET', KEYS[2], view, lease .. ' ' .. ARGV[5])
redis.call('SET', KEYS[4], ARGV[6])
local life = redis.call('PTTL', KEYS[1])
for _, key in ipairs({ KEYS[2], KEYS[4] }) do
  if life > 0 then
    redis.call('PEXPIREAT', key, integer(math.floor(now_us() / 1000) + life))
  else
    redis.call('PERSIST', key)
  end
end
redis.call('UNLINK', KEYS[3])
return { 1, before }
