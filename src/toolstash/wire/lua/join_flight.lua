-- Takes the lease of a workspace's producer, or tells who has it, or how the flight ended that the caller followed.
-- KEYS: lease, the landed outcome of the flight that is followed (or the lease again). ARGV: own token, digest of the
-- call, life in ms, the token that is followed or ''.
-- Returns {'leading'} | {'busy', token of the leader, '1' if its call is the same one else '0'} | {'landed', outcome}.
local own, digest, life, followed = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local held = redis.call('GET', KEYS[1])
local leader, leaders_digest
if held then
  leader, leaders_digest = string.match(held, '^(%S+) (%S+)$$')
end
if followed ~= '' and leader ~= followed then
  local outcome = redis.call('GET', KEYS[2])
  if outcome then
    return { 'landed', outcome }
  end
end
if not held then
  redis.call('SET', KEYS[1], own .. ' ' .. digest, 'PX', life)
  return { 'leading' }
end
if leader == own then
  return { 'leading' }
end
return { 'busy', leader, leaders_digest == digest and '1' or '0' }
