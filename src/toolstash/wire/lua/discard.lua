-- Takes away an unpublished generation. KEYS: meta, the note that it was replaced, its parts… ARGV: the generation.
-- Returns 1, or 0 if it is published, or was: others may still be reading it.
if redis.call('HGET', KEYS[1], 'gen') == ARGV[1] or redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
redis.call('UNLINK', unpack(KEYS, 3))
return 1
