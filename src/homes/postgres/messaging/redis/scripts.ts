/**
 * Lua scripts for changes that must be atomic in Redis. The time is an argument from the calling server, so
 * that all parts of a message use the same clock.
 */
import { bucketRefillMs } from '../../../../core/request-rates.js';
import {
  countBytes,
  deliveredBefore,
  indexWord,
  keepFor,
  nextTime,
  notedChange,
  pendingMark,
  takeRate,
  ulid,
} from './lua.js';

export const scripts = {
  /**
   * Keys: messages, clock, count, thread, bytes, delivery, feed outbox, change of the room; then the words, or
   * the list of messages that are not indexed yet. Arguments: now, retention, size, maximum bytes per minute, number of
   * messages so far, time of the parent, random part of the id, JSON before and after the time, channel,
   * notice, room id, how long a delivery is remembered, whether the words are indexed later, maximum length
   * of the feed outbox, how long words are kept, whether the room was read ahead. Returns: `ok` with id and
   * time, or `before` if this delivery was made before; `deleted`, `changed`, `full`, `parent`, or `bytes` with the time
   * to wait.
   */
  stoaPost: {
    keys: undefined,
    lua: `${ulid}${nextTime}${countBytes}${deliveredBefore}${notedChange}${indexWord}
local now, retention = tonumber(ARGV[1]), tonumber(ARGV[2])
if ARGV[13] ~= '' then
  local id, ts = deliveredBefore(KEYS[6])
  if id then return {'before', id, ts} end
end
local change, _, noted = notedChange(KEYS[8])
if change == 'deleted' or (change and ARGV[17] ~= '') then return {change} end
-- The room may have been read before its retention changed.
retention = noted or retention
if redis.call('LLEN', KEYS[7]) >= tonumber(ARGV[15]) then return {'full'} end
local ts = nextTime(KEYS[1], KEYS[2], now)
if ARGV[6] ~= '' and redis.call('ZCOUNT', KEYS[1], ARGV[6], ARGV[6]) == 0 then return {'parent'} end
if ARGV[3] ~= '' then
  local wait = countBytes(KEYS[5], tonumber(ARGV[3]), tonumber(ARGV[4]))
  if wait then return {'bytes', wait} end
end
local id = ulid(ts, ARGV[7])
-- Never shortened here: a retention that is being extended has extended the keys before the room says so.
local life = ts + retention - now
redis.call('SET', KEYS[2], number(ts), 'KEEPTTL')
keepFor(KEYS[2], life)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', number(now - retention))
local message = '{"id":"' .. id .. '",' .. ARGV[8] .. ',"ts":' .. number(ts) .. ARGV[9] .. '}'
redis.call('ZADD', KEYS[1], number(ts), message)
keepFor(KEYS[1], life)
if ARGV[6] ~= '' then
  redis.call('ZADD', KEYS[4], number(ts), id)
  keepFor(KEYS[4], life)
end
if ARGV[14] ~= '' then
  redis.call('ZADD', KEYS[9], number(ts), id)
  keepFor(KEYS[9], life)
else
  local wordLife = tonumber(ARGV[16])
  for index = 9, #KEYS do indexWord(KEYS[index], now, wordLife, ts, ARGV[12] .. ':' .. id) end
end
-- The number here may be missing, or be that of an older copy of this Redis.
local total = math.max(tonumber(ARGV[5]), tonumber(redis.call('GET', KEYS[3]) or '0')) + 1
redis.call('SET', KEYS[3], number(total), 'PX', 604800000)
if ARGV[13] ~= '' then redis.call('SET', KEYS[6], id .. ' ' .. number(ts), 'PX', ARGV[13]) end
local notice = ARGV[11] .. ' ' .. id .. ' ' .. number(total)
redis.call('RPUSH', KEYS[7], notice)
redis.call('PUBLISH', ARGV[10], notice)
return {'ok', id, number(ts)}`,
  },

  /**
   * Keys: inbox, clock, delivery, pending, feed outbox. Arguments: now, retention, random part of the id,
   * JSON before and after the time, channel, notice, how long a delivery is remembered, maximum length of the
   * feed outbox.
   */
  stoaSend: {
    keys: 5,
    lua: `${ulid}${nextTime}${deliveredBefore}
local now, retention = tonumber(ARGV[1]), tonumber(ARGV[2])
if ARGV[8] ~= '' then
  local id, ts = deliveredBefore(KEYS[3])
  if id then return {'ok', id, ts} end
end
if redis.call('LLEN', KEYS[5]) >= tonumber(ARGV[9]) then return {'full'} end
local ts = nextTime(KEYS[1], KEYS[2], now)
local id = ulid(ts, ARGV[3])
local life = number(ts + retention - now)
-- The first write, because Redis refuses it when its memory is full. After a deletion it would refuse nothing.
redis.call('SET', KEYS[2], number(ts), 'PX', life)
-- If the inbox has no list of pending messages, the next read builds it.
if redis.call('EXISTS', KEYS[4]) == 1 or redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', number(now - retention))
  redis.call('ZADD', KEYS[4], '+inf', '${pendingMark}', number(ts), id)
  redis.call('PEXPIRE', KEYS[4], life)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', number(now - retention))
local message = '{"id":"' .. id .. '",' .. ARGV[4] .. ',"ts":' .. number(ts) .. ARGV[5] .. '}'
redis.call('ZADD', KEYS[1], number(ts), message)
redis.call('PEXPIRE', KEYS[1], life)
if ARGV[8] ~= '' then redis.call('SET', KEYS[3], id .. ' ' .. number(ts), 'PX', ARGV[8]) end
redis.call('RPUSH', KEYS[5], ARGV[7] .. ' ' .. id)
redis.call('PUBLISH', ARGV[6], ARGV[7] .. ' ' .. id)
return {'ok', id, number(ts)}`,
  },

  /**
   * Makes messages and threads of a room live as long as its retention says, from the newest message in each. Keys:
   * change of the room, clock, lists. Arguments: now, retention, how long the change is noted, version of the room.
   * Without the last two, before the change is stored: lives are only extended. Returns 0 if the room was deleted or has
   * a newer version.
   */
  stoaKeepRoom: {
    keys: undefined,
    lua: `${notedChange}${keepFor}
local now, retention, isNoted = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] ~= ''
if isNoted then
  local change, version = notedChange(KEYS[1])
  if change == 'deleted' or (version and version > tonumber(ARGV[4])) then return 0 end
  redis.call('SET', KEYS[1], 'changed ' .. ARGV[4] .. ' ' .. ARGV[2], 'PX', ARGV[3])
end
local function keepUntil(key, ts)
  local life = math.max(1, ts + retention - now)
  if isNoted then redis.call('PEXPIRE', key, string.format('%.0f', life)) else keepFor(key, life) end
end
local newest = tonumber(redis.call('GET', KEYS[2]) or '0')
for index = 3, #KEYS do
  local last = redis.call('ZRANGE', KEYS[index], -1, -1, 'WITHSCORES')[2]
  if last then
    newest = math.max(newest, tonumber(last))
    keepUntil(KEYS[index], tonumber(last))
  end
end
keepUntil(KEYS[2], newest)
return 1`,
  },

  /**
   * Returns 1 to only one of two concurrent calls. Keys: messages, thread, feed outbox. Arguments: the
   * member, its id, channel, notice.
   */
  stoaDelete: {
    keys: 3,
    lua: `
local removed = redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[2])
if removed == 1 then
  redis.call('RPUSH', KEYS[3], ARGV[4])
  redis.call('PUBLISH', ARGV[3], ARGV[4])
end
return removed`,
  },

  /**
   * Counts bytes before the post: those of a commit, and on a cluster all, because there they are not on the node
   * of the room. Returns -1 if they were counted.
   */
  stoaCountBytes: {
    keys: 1,
    lua: `${countBytes} return countBytes(KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])) or -1`,
  },

  /** Gives back counted bytes. If the minute has ended meanwhile, never more than the next one has used. */
  stoaReturnBytes: {
    keys: 1,
    lua: `
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
if used > 0 then redis.call('DECRBY', KEYS[1], math.min(used, tonumber(ARGV[1]))) end
return 1`,
  },

  /**
   * Indexes one word on a cluster, where it is not on the node of the room. Keys: word. Arguments: now,
   * retention, time, room and message.
   */
  stoaIndex: {
    keys: 1,
    lua: `${indexWord}
indexWord(KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4])
return 1`,
  },

  /** Keys: inbox, acknowledged, pending. Arguments: life, then pairs of time and id. */
  stoaAcknowledge: {
    keys: 3,
    lua: `
local count = 0
for index = 2, #ARGV, 2 do
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[index], ARGV[index])) do
    if string.find(member, '"id":"' .. ARGV[index + 1] .. '"', 1, true) then
      count = count + redis.call('ZADD', KEYS[2], 'NX', ARGV[index], ARGV[index + 1])
      redis.call('ZREM', KEYS[3], ARGV[index + 1])
    end
  end
end
if count > 0 then redis.call('PEXPIRE', KEYS[2], ARGV[1]) end
return count`,
  },

  /**
   * Returns the members of the inbox that are not acknowledged, oldest first. Keys: inbox, acknowledged,
   * pending. Arguments: the time after which to read, the maximum number of members.
   */
  stoaPending: {
    keys: 3,
    lua: `
local life = redis.call('PTTL', KEYS[1])
if life > 0 and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('ZADD', KEYS[3], '+inf', '${pendingMark}')
  redis.call('PEXPIRE', KEYS[3], life)
  local from = '-inf'
  repeat
    local page = redis.call('ZRANGEBYSCORE', KEYS[1], from, '+inf', 'WITHSCORES', 'LIMIT', 0, 200)
    for index = 1, #page, 2 do
      local id = string.match(page[index], '"id":"(%w+)"')
      if id and not redis.call('ZSCORE', KEYS[2], id) then
        redis.call('ZADD', KEYS[3], page[index + 1], id)
      end
      from = '(' .. page[index + 1]
    end
  until #page < 400
end
local members = {}
local from, to = '(' .. ARGV[1], '(+inf'
local entries = redis.call('ZRANGEBYSCORE', KEYS[3], from, to, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for index = 2, #entries, 2 do
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], entries[index], entries[index])) do
    table.insert(members, member)
  end
end
return members`,
  },

  /**
   * Writes an imported message unchanged, and replaces a message with the same time. Returns 0 if the message
   * has expired. Keys: messages or inbox, clock, thread or acknowledged. Arguments: now, retention, time, the
   * message, the member to add to the third key or an empty text.
   */
  stoaRestore: {
    keys: 3,
    lua: `${keepFor}
local now, retention, ts = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local life = ts + retention - now
if life <= 0 then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], ARGV[3], ARGV[3])
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[4])
keepFor(KEYS[1], life)
if ARGV[5] ~= '' then
  redis.call('ZADD', KEYS[3], ARGV[3], ARGV[5])
  keepFor(KEYS[3], life)
end
if tonumber(redis.call('GET', KEYS[2]) or '0') < ts then
  redis.call('SET', KEYS[2], ARGV[3], 'PX', life)
end
return 1`,
  },

  /** Keys: word. Arguments: life, time, room and message. */
  stoaRestoreWord: {
    keys: 1,
    lua: `${keepFor}
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[3])
keepFor(KEYS[1], tonumber(ARGV[1]))
return 1`,
  },

  /** Raises a number to a minimum. Keys: the number. Arguments: the minimum, the life of the key. */
  stoaRaise: {
    keys: 1,
    lua: `
if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return 1`,
  },

  /** Counts a request. Arguments: now, window in ms, limit, a unique name for this request. */
  stoaRate: {
    keys: 1,
    lua: `${takeRate}
return takeRate(KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4])`,
  },

  /**
   * Uses up a nonce and counts the request that showed it. A used nonce counts nothing: returns an empty list. Keys:
   * nonce, rate. Arguments: life of the nonce in seconds, then those of `stoaRate`.
   */
  stoaUseNonce: {
    keys: 2,
    lua: `${takeRate}
if not redis.call('SET', KEYS[1], '1', 'EX', ARGV[1], 'NX') then return {} end
return takeRate(KEYS[2], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5])`,
  },

  /**
   * Takes requests from the bucket of a caller, which refills over time by the clock of Redis. Returns how
   * many were taken, and how many are left, with fractions. Arguments: requests per minute, the number
   * wanted.
   */
  stoaTakeRequests: {
    keys: 1,
    lua: `
local max, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local bucket = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = tonumber(bucket[1] or max) + math.max(0, now - tonumber(bucket[2] or now)) / ${bucketRefillMs} * max
left = math.min(max, left)
local taken = math.min(wanted, math.floor(left))
left = left - taken
redis.call('HSET', KEYS[1], 'left', string.format('%.6f', left), 'at', string.format('%.3f', now))
redis.call('PEXPIRE', KEYS[1], ${bucketRefillMs})
return {taken, string.format('%.6f', left)}`,
  },

  /** Counts a violation. Returns the number within the hour. */
  stoaViolation: {
    keys: 1,
    lua: `
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('EXPIRE', KEYS[1], 3600) end
return count`,
  },
} as const satisfies Record<string, { keys: number | undefined; lua: string }>;

export type ScriptName = keyof typeof scripts;
