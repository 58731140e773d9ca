-- Counts the calls of a space that wait for an answer. KEYS: waiting.
return redis.call('ZCOUNT', KEYS[1], string.format('(%.3f', now_us() / 1000), '+inf')
