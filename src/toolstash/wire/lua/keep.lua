-- Renews the life of unpublished parts while their writer waits for more. KEYS: parts. ARGV: time to live in ms.
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[1])
end
return 1
