-- Reads the meta of a workspace and what is known of its indexes. KEYS: meta, gone, indexes.
-- Returns {1, meta, {view, entry, …}}, or {0, tombstone} when the workspace, or a part of it, is gone.
local m, list = open(KEYS[1], KEYS[2])
if not m then
  return { 0, list }
end
return { 1, m, redis.call('HGETALL', KEYS[3]) }
