-- Writes down what the model says while it says it, as long as the turn is the speaker's.
--
-- KEYS  1: the timers, 2: the run (hash), 3: its log (stream), 4: its partial text (string),
--       5: the doorbell (channel)
-- ARGV  1: the timer that is the turn's lease, 2: text to append ('' for none), 3: the bell's
--       payload, then events
-- Returns 1, or 0 when the lease is gone and nothing was written.
-- Cost: one command for each event and six more.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
for i = 4, #ARGV do
  redis.call('XADD', KEYS[3], '*', 'e', ARGV[i])
end
if ARGV[2] ~= '' then
  redis.call('APPEND', KEYS[4], ARGV[2])
end
-- Who has loaded the run without these words must load it again before a commit.
redis.call('HINCRBY', KEYS[2], 'rev', 1)
redis.call('PUBLISH', KEYS[5], ARGV[3])
return 1
