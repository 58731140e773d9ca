-- Adds up the live workspaces of a space. KEYS: created. ARGV: base. Returns how many, bytes, characters.
local count, bytes, chars = 0, 0, 0
for _, part in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local m = redis.call('HMGET', ARGV[1] .. part .. ':meta', 'bytes', 'chars')
  if m[1] then
    count, bytes, chars = count + 1, bytes + tonumber(m[1]), chars + tonumber(m[2])
  end
end
return { count, string.format('%.0f', bytes), string.format('%.0f', chars) }
