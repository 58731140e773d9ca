-- Finds the calls of a space that wait for an answer, soonest to expire first. KEYS: waiting.
return redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.3f', now_us() / 1000), '+inf')
