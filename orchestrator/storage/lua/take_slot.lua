-- Takes one of the slots of a tool for a while, or keeps one that is taken.
--
-- KEYS  1: the slots (sorted set: holder, time in ms when the slot is free again)
-- ARGV  1: holder, 2: how many slots there are, 3: for so many ms
-- Returns 1 if the holder has a slot now, else 0.
-- Cost: O(log n), up to six commands.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3]), ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
