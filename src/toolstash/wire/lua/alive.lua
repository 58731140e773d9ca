-- Tells which workspaces are live, and of a type. KEYS: created (for its slot). ARGV: base, type or '', parts…
-- Returns their positions among the parts, from 0 on.
local found = {}
for position = 3, #ARGV do
  local meta = ARGV[1] .. ARGV[position] .. ':meta'
  local kind = redis.call('HGET', meta, 'type')
  if not kind then
    redis.call('EXISTS', KEYS[1], meta) -- fails where the slot is just moving, and the caller repeats
  end
  if kind and (ARGV[2] == '' or ARGV[2] == kind) then
    found[#found + 1] = position - 3
  end
end
return found
