-- Reads rows by number, if the workspace and its index are still those that a query was made for.
-- KEYS: meta, gone, indexes. ARGV: generation, revision, view, build, bytes at most, positions…
-- Returns {1, meta, rows}, with fewer rows above the bound of bytes (one at least), or {0}.
local m, list = open(KEYS[1], KEYS[2])
if not m or not list or m[2] ~= ARGV[1] or m[3] ~= ARGV[2] then
  return { 0 }
end
local entry = redis.call('HGET', KEYS[3], ARGV[3])
if not entry or string.sub(entry, 1, #ARGV[4] + 1) ~= ARGV[4] .. ' ' then
  return { 0 }
end
local rows, used = {}, 0
for position = 6, #ARGV do
  if used > tonumber(ARGV[5]) then
    break
  end
  local row = redis.call('LINDEX', list, ARGV[position])
  if not row then
    return { 0 }
  end
  rows[#rows + 1] = row
  used = used + #row
end
return { 1, m, rows }
