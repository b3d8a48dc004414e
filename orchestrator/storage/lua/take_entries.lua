-- Takes entries of a stream for a consumer: first those that somebody took long ago and never
-- finished, then new ones.
--
-- KEYS  1: the stream
-- ARGV  1: group, 2: consumer, 3: at most so many, 4: "long ago" in ms
-- Returns a list of {entry id, {field, value, ...}}.
-- Cost: O(entries taken), two commands.

local taken = redis.call(
  'XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[4], '0-0', 'COUNT', ARGV[3]
)[2]
local room = ARGV[3] - #taken
if room > 0 then
  local read = redis.call(
    'XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', room, 'STREAMS', KEYS[1], '>'
  )
  for _, entry in ipairs(read and read[1][2] or {}) do
    taken[#taken + 1] = entry
  end
end
return taken
