-- Shared by the scripts that write: time, numbers, the parts of a workspace, and the memory of recent operations.
local OPS_MS, GONE_MS, RETIRED_MS = $OPS_MS, $GONE_MS, $RETIRED_MS

local function integer(number)
  return string.format('%.0f', number)
end

local function now_us()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function part_keys(stem, kind, generation)
  if kind == 'fields' then
    return { stem .. 'names:' .. generation, stem .. 'fields:' .. generation }
  end
  return { stem .. (kind == 'text' and 'text:' or 'rows:') .. generation }
end

-- Each write has a key of its own that holds its result for longer than its caller goes on trying.
local function remember(operation, result)
  redis.call('SET', operation, result, 'PX', OPS_MS)
  return result
end

-- A registry lives 24 hours longer than its last member, and as long as any member without an expiry.
local function expire_registry(created, expiring)
  local last = redis.call('ZREVRANGE', expiring, 0, 0, 'WITHSCORES')[2]
  for _, key in ipairs({ created, expiring }) do
    if last == 'inf' then
      redis.call('PERSIST', key)
    elseif last then
      redis.call('PEXPIREAT', key, integer(tonumber(last) + GONE_MS))
    end
  end
end

-- Whether a workspace has search indexes, which outlive it until somebody takes them away: '1' or '0'.
local function is_indexed(stem)
  return integer(redis.call('EXISTS', stem .. 'indexes'))
end

local function forget(base, part, created, expiring)
  local stem = base .. part .. ':'
  local old = redis.call('HMGET', stem .. 'meta', 'gen', 'kind')
  if old[1] then
    redis.call('UNLINK', unpack(part_keys(stem, old[2], old[1])))
  end
  local existed = redis.call('UNLINK', stem .. 'meta')
  redis.call('UNLINK', stem .. 'gone')
  redis.call('ZREM', created, part)
  redis.call('ZREM', expiring, part)
  return existed
end
