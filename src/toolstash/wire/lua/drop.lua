-- Removes a workspace, also one of which only the registry knows. KEYS: meta, gone, ops, created, expiring.
-- ARGV: operation, base, part. Returns "1" when there was one, else "0".
local earlier = recall(KEYS[3], ARGV[1])
if earlier then
  return earlier
end
local existed = forget(ARGV[2], ARGV[3], KEYS[4], KEYS[5])
expire_registry(KEYS[4], KEYS[5])
return remember(KEYS[3], ARGV[1], integer(existed))
