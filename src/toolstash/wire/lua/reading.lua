-- Shared by the scripts that read: the meta of a workspace and where its parts lie, if it is there and whole.
-- Returns meta, list, hash | meta alone for a format of another version | nil and the tombstone.
local function open(meta, gone)
  local m = redis.call('HMGET', meta, $META_FIELDS)
  local generation, kind, parts = m[2], m[4], tonumber(m[6])
  if not generation then
    return nil, redis.call('GET', gone) or ''
  end
  if m[1] ~= '$FORMAT' then
    return m
  end
  local stem = string.sub(meta, 1, -5)
  local families = { text = 'text:', fields = 'names:' }
  local list, hash = stem .. (families[kind] or 'rows:') .. generation, stem .. 'fields:' .. generation
  if redis.call('LLEN', list) ~= parts or (kind == 'fields' and redis.call('HLEN', hash) ~= parts) then
    -- Not gone but on another node, if the slot is just moving: a look at two keys then fails, and the caller repeats.
    redis.call('EXISTS', meta, list)
    redis.call('EXISTS', meta, kind == 'fields' and hash or list)
    return nil, redis.call('GET', gone) or ''
  end
  return m, list, hash
end

local function values_of(hash, names)
  local values = {}
  for start = 1, #names, 1000 do
    for _, value in ipairs(redis.call('HMGET', hash, unpack(names, start, math.min(start + 999, #names)))) do
      values[#values + 1] = value
    end
  end
  return values
end

-- Parts first to last of a list, in steps, until they weigh as much as the bound; at least one step.
local function take(list, first, last, budget)
  local items, used = {}, 0
  while first <= last and used < budget do
    for _, item in ipairs(redis.call('LRANGE', list, first, math.min(first + 15, last))) do
      items[#items + 1] = item
      used = used + #item
    end
    first = first + 16
  end
  return items
end
