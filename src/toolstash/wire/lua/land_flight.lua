-- Gives a lease back, if it is still one's own, and leaves the outcome for those who follow.
-- KEYS: lease, landed. ARGV: token, digest of the call, life of the outcome in ms, outcome or '' for none.
if redis.call('GET', KEYS[1]) == ARGV[1] .. ' ' .. ARGV[2] then
  redis.call('UNLINK', KEYS[1])
end
if ARGV[4] ~= '' then
  redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[3])
end
return 1
