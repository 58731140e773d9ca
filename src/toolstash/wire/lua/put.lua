-- Writes one chunk of an unpublished list. KEYS: list. ARGV: first position, time to live in ms, values.
-- Doing it twice writes once. Returns the length, or -1 when earlier chunks are gone.
local length = redis.call('LLEN', KEYS[1])
local first = tonumber(ARGV[1])
if length < first then
  return -1
end
if length > first then
  return length
end
-- A repeat may come after the list was published and others took rows out of it: then nothing is added.
local stem, generation = string.match(KEYS[1], '^(.*:)%a+:(%x+)$$')
if redis.call('HGET', stem .. 'meta', 'gen') == generation then
  return length
end
for start = 3, #ARGV, 4000 do
  length = redis.call('RPUSH', KEYS[1], unpack(ARGV, start, math.min(start + 3999, #ARGV)))
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return length
