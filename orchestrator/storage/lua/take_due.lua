-- Takes timers whose time has come, and postpones them so that nobody else takes them meanwhile.
--
-- KEYS  1: the timers (sorted set: member, time in ms)
-- ARGV  1: at most so many, 2: postponed by so many ms
-- Returns the time that they are postponed to, and member, time, member, time, ... with the times
--       before that.
-- Cost: O(log n) per timer taken; one command when nothing is due.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call(
  'ZRANGE', KEYS[1], '-inf', string.format('%.0f', now), 'BYSCORE', 'LIMIT', 0, ARGV[1], 'WITHSCORES'
)
local later = string.format('%.0f', now + ARGV[2])
for i = 1, #due, 2 do
  redis.call('ZADD', KEYS[1], 'XX', later, due[i])
end
return {later, due}
