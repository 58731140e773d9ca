-- Lists live workspaces of a space, oldest first. KEYS: created. ARGV: base, offset, how many, type as JSON or ''.
-- Returns {1 when there are more, part, time in µs, …}.
local found = { 0 }
local members = redis.call('ZRANGE', KEYS[1], ARGV[2], tonumber(ARGV[2]) + tonumber(ARGV[3]), 'WITHSCORES')
for position = 1, math.min(#members, 2 * tonumber(ARGV[3])), 2 do
  local kind = redis.call('HGET', ARGV[1] .. members[position] .. ':meta', 'type')
  if kind and (ARGV[4] == '' or ARGV[4] == kind) then
    found[#found + 1] = members[position]
    found[#found + 1] = members[position + 1]
  end
end
if #members > 2 * tonumber(ARGV[3]) then
  found[1] = 1
end
return found
