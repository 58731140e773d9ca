-- Takes those of some workspaces that are gone out of a space's registry. KEYS: created, expiring. ARGV: base, parts…
-- Returns how many the space still has, and the parts that were taken out.
local swept = { 0 }
for position = 2, #ARGV do
  local part = ARGV[position]
  -- Of two keys, because that fails where the slot is just moving and the workspace may be on another node.
  if redis.call('EXISTS', KEYS[1], ARGV[1] .. part .. ':meta') < 2 and redis.call('ZREM', KEYS[1], part) == 1 then
    redis.call('ZREM', KEYS[2], part)
    if redis.call('PTTL', ARGV[1] .. part .. ':gone') == -1 then
      redis.call('PEXPIRE', ARGV[1] .. part .. ':gone', GONE_MS)
    end
    swept[#swept + 1] = part
  end
end
swept[1] = redis.call('ZCARD', KEYS[1])
expire_registry(KEYS[1], KEYS[2], ARGV[1] .. 'events')
return swept
