-- Reads records of calls. KEYS: waiting (for its slot). ARGV: base, bytes after which it ends, parts… Returns the time in µs
-- and the documents of the first parts, '' for a call that is gone.
local found, used = { integer(now_us()) }, 0
for position = 3, #ARGV do
  local call = ARGV[1] .. ARGV[position] .. ':call'
  local document = redis.call('HGET', call, 'doc')
  if not document then
    redis.call('EXISTS', KEYS[1], call) -- fails where the slot is just moving, and the caller repeats
  end
  found[#found + 1] = document or ''
  used = used + #found[#found]
  if used > tonumber(ARGV[2]) then
    break
  end
end
return found
