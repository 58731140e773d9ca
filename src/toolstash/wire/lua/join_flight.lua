-- Takes the lease of a workspace's producer, or tells who has it, or how the flight ended that the caller followed.
-- KEYS: lease, the landed outcome of the flight that is followed (or the lease again), meta. ARGV: own token, digest of the
-- call, life of the lease and of an outcome in ms, the token that is followed or ''.
-- Whoever takes over from a leader that is lost leaves a note, ">" and its own token, in the place of the outcome, so that
-- the others follow it, also when they ask only after it has landed.
-- Returns {'leading', generation of the workspace or ''} | {'busy', token of the leader, '1' if its call is the same one else '0'} | {'landed', outcome}.
local own, digest, life, followed = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local held = redis.call('GET', KEYS[1])
local leader, leaders_digest, is_followed
if held then
  leader, leaders_digest, is_followed = string.match(held, '^(%S+) (%S+) ?(%S*)$$')
end
if leader == own then -- whose reply was lost
  return { 'leading', redis.call('HGET', KEYS[3], 'gen') or '' }
end
if followed ~= '' and leader ~= followed then
  local outcome = redis.call('GET', KEYS[2])
  if outcome and string.sub(outcome, 1, 1) == '>' then
    return { 'busy', string.sub(outcome, 2), '1' }
  end
  if outcome then
    return { 'landed', outcome }
  end
end
if not held then
  redis.call('SET', KEYS[1], own .. ' ' .. digest .. (followed ~= '' and ' +' or ''), 'PX', life)
  if followed ~= '' then
    redis.call('SET', KEYS[2], '>' .. own, 'PX', ARGV[4])
  end
  return { 'leading', redis.call('HGET', KEYS[3], 'gen') or '' }
end
if leaders_digest ~= digest then
  return { 'busy', leader, '0' }
end
if is_followed == '' then -- which the leader is told when it lands
  redis.call('SET', KEYS[1], held .. ' +', 'KEEPTTL')
end
return { 'busy', leader, '1' }
