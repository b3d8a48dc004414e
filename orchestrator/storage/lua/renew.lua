-- Moves a timer that is set; does nothing to one that is not.
--
-- KEYS  1: the timers (sorted set: member, time in ms)
-- ARGV  1: member, 2: so many ms from now, 3: but not past this time in ms ('' for no limit)
-- Returns 1 if the timer was set, else 0.
-- Cost: O(log n), three commands.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
local time = redis.call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]
if ARGV[3] ~= '' then
  at = math.min(at, tonumber(ARGV[3]))
end
redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', at), ARGV[1])
return 1
