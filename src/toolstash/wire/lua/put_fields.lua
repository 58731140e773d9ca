-- Writes one chunk of an unpublished dict. KEYS: names, fields. ARGV: first position, time to live in ms, name, value, …
-- Doing it twice writes once. Returns how many names there are, or -1 when earlier chunks are gone.
local length = redis.call('LLEN', KEYS[1])
local first = tonumber(ARGV[1])
if length < first then
  return -1
end
if length > first then
  return length
end
for start = 3, #ARGV, 4000 do
  local last = math.min(start + 3999, #ARGV)
  redis.call('HSET', KEYS[2], unpack(ARGV, start, last))
  local names = {}
  for position = start, last, 2 do
    names[#names + 1] = ARGV[position]
  end
  length = redis.call('RPUSH', KEYS[1], unpack(names))
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return length
