-- Takes workspaces that are gone out of a space's registry. KEYS: created, expiring. ARGV: base, offset, how many.
-- Returns {next offset or -1, part, …}: the ones that were taken out.
local base, offset, many = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local members = redis.call('ZRANGE', KEYS[1], offset, offset + many - 1)
local swept = { #members == many and offset + many or -1 }
for _, part in ipairs(members) do
  if redis.call('EXISTS', base .. part .. ':meta') == 0 then
    redis.call('ZREM', KEYS[1], part)
    redis.call('ZREM', KEYS[2], part)
    if redis.call('PTTL', base .. part .. ':gone') == -1 then
      redis.call('PEXPIRE', base .. part .. ':gone', GONE_MS)
    end
    swept[#swept + 1] = part
  end
end
if swept[1] > 0 then
  swept[1] = swept[1] - (#swept - 1)
end
expire_registry(KEYS[1], KEYS[2])
return swept
