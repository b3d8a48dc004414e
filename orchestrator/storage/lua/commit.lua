-- Writes everything of one change, or nothing: the guards are compared first.
--
-- KEYS  the guarded hashes (field rev: revision, field nonce: the latest nonces), then every other
--       key and channel that is written; all have the same hash tag
-- ARGV  nonce, number of guards g, g expected revisions ("0": must not exist), then for each write:
--       number of words n, command, index into KEYS of its key, n - 2 further words
-- Returns 0 when the change is written, also when an earlier try under this nonce wrote it; else the
--       index of the first guard whose revision is another one.
-- Cost: one HMGET per guard, the writes, two or three commands for the nonce.

-- The last nonces are kept, not only the last one: while an answer is lost, others go on committing.
local KEPT_NONCES_BYTES = 16 * 13

local nonce = ARGV[1]
local guards = tonumber(ARGV[2])
local root = KEYS[guards]

local nonces = redis.call('HGET', root, 'nonce') or ''
if string.find(nonces, nonce, 1, true) then
  return 0
end

for i = 1, guards do
  local revision = redis.call('HGET', KEYS[i], 'rev') or '0'
  if revision ~= ARGV[2 + i] then
    return i
  end
end

local at = 3 + guards
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  redis.call(ARGV[at + 1], KEYS[tonumber(ARGV[at + 2])], unpack(ARGV, at + 3, at + words))
  at = at + words + 1
end

-- Last, since a full store refuses only the first write of a script: deleting must stay possible.
if redis.call('EXISTS', root) == 1 then
  redis.call('HSET', root, 'nonce', string.sub(nonce .. ' ' .. nonces, 1, KEPT_NONCES_BYTES))
end
return 0
