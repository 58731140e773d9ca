-- Reads what is known of a call. KEYS: call. Returns document or '', revision, '1' if its lease goes on else '0', and the
-- time in µs.
local now = now_us()
local kept = redis.call('HMGET', KEYS[1], 'doc', 'rev', 'owner', 'until')
if not kept[1] then
  return { '', '0', '0', integer(now) }
end
local is_held = kept[3] ~= '' and tonumber(kept[4]) > now / 1000
return { kept[1], kept[2], is_held and '1' or '0', integer(now) }
