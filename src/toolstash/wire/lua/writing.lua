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

-- A registry lives 24 hours longer than its last member, and as long as any member without an expiry. So do the events
-- of its space, which also outlive the calls that wait for an answer, and what has just been told.
local function expire_registry(created, expiring, events)
  local last = redis.call('ZREVRANGE', expiring, 0, 0, 'WITHSCORES')[2]
  for _, key in ipairs({ created, expiring, events }) do
    if last == 'inf' then
      redis.call('PERSIST', key)
    elseif last and key ~= events then
      redis.call('PEXPIREAT', key, integer(tonumber(last) + GONE_MS))
    end
  end
  if events and last ~= 'inf' then
    local waiting = string.sub(events, 1, -7) .. 'waiting'
    local last_call = redis.call('ZREVRANGE', waiting, 0, 0, 'WITHSCORES')[2]
    local ends = math.max(now_us() / 1000, tonumber(last or 0), tonumber(last_call or 0))
    redis.call('PEXPIREAT', events, integer(ends + GONE_MS))
  end
end

-- Tells the watchers of a space what became of a workspace. Whoever calls it calls expire_registry afterwards.
local function announce(base, kind, part, workspace_type, version)
  redis.call('XADD', base .. 'events', 'MAXLEN', '~', $MOST_EVENTS, '*',
    'kind', kind, 'part', part, 'type', workspace_type, 'version', version)
end

-- Whether a workspace has search indexes, which outlive it until somebody takes them away: '1' or '0'.
local function is_indexed(stem)
  return integer(redis.call('EXISTS', stem .. 'indexes'))
end

local function forget(base, part, created, expiring)
  local stem = base .. part .. ':'
  local old = redis.call('HMGET', stem .. 'meta', 'gen', 'kind', 'type', 'rev')
  if old[1] then
    redis.call('UNLINK', unpack(part_keys(stem, old[2], old[1])))
    announce(base, 'dropped', part, old[3], old[1] .. '.' .. old[4])
  end
  local existed = redis.call('UNLINK', stem .. 'meta')
  redis.call('UNLINK', stem .. 'gone')
  redis.call('ZREM', created, part)
  redis.call('ZREM', expiring, part)
  return existed
end

-- Oldest first, other workspaces of a space make room for one of that many bytes, until all are within the bounds (nil
-- for none). Returns what went: the part, and '1' if it has indexes to be taken away, else '0'.
local function make_room(base, part, created, expiring, bytes, max_workspaces, max_bytes)
  local dropped = {}
  if not (max_workspaces or max_bytes) then
    return dropped
  end
  local others, count, total = {}, 1, bytes
  for _, other in ipairs(redis.call('ZRANGE', created, 0, -1)) do
    local size = other ~= part and redis.call('HGET', base .. other .. ':meta', 'bytes')
    if size then
      others[#others + 1] = { other, tonumber(size) }
      count, total = count + 1, total + tonumber(size)
    end
  end
  for _, other in ipairs(others) do
    if count <= (max_workspaces or count) and total <= (max_bytes or total) then
      break
    end
    forget(base, other[1], created, expiring)
    count, total = count - 1, total - other[2]
    dropped[#dropped + 1] = other[1] .. ' ' .. is_indexed(base .. other[1] .. ':')
  end
  return dropped
end
