-- Reads named fields of a dict workspace with its meta. KEYS: meta, gone. ARGV: names as JSON strings.
-- Returns {1, meta, values} with nil for a name that is not there, or {0, tombstone}.
local m, list, hash = open(KEYS[1], KEYS[2])
if not m then
  return { 0, list }
end
if not list or m[4] ~= 'fields' then
  return { 1, m, {} }
end
return { 1, m, values_of(hash, ARGV) }
