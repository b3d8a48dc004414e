-- Writes a field of a hash, as long as the turn that it is about is the writer's.
--
-- KEYS  1: the timers, 2: the hash
-- ARGV  1: the timer that is the turn's lease, 2: field, 3: value
-- Returns 1, or 0 when the lease is gone and nothing was written.
-- Cost: two commands.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return 1
