-- Takes away an unpublished generation. KEYS: meta, its parts… ARGV: the generation. Returns 1, or 0 if it is published.
if redis.call('HGET', KEYS[1], 'gen') == ARGV[1] then
  return 0
end
redis.call('UNLINK', unpack(KEYS, 2))
return 1
