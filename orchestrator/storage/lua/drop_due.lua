-- Removes a timer that was taken, unless it has been set anew since, or taken by somebody else.
--
-- KEYS  1: the timers (sorted set: member, time in ms)
-- ARGV  1: member, 2: the time that the taking postponed it to
-- Returns 1 if it was removed, else 0.
-- Cost: O(log n), two commands.

if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
