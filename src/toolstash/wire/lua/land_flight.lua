-- Gives a lease back, if it is still one's own, and leaves the outcome for those who follow, if there are any.
-- KEYS: lease, landed. ARGV: token, life of the outcome in ms, outcome or '' for none.
local held = redis.call('GET', KEYS[1])
local leader, is_followed = string.match(held or '', '^(%S+) %S+ ?(%S*)$$')
if leader == ARGV[1] then
  redis.call('UNLINK', KEYS[1])
end
if ARGV[3] ~= '' and (leader ~= ARGV[1] or is_followed ~= '') then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2], 'NX') -- not over the note of a successor
end
return 1
