-- Notes that a workspace was read, if it is still there. KEYS: meta.
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], 'accessed', integer(now_us()))
end
return 1
