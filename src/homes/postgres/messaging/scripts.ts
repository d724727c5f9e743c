/** What must happen in one step in Redis, in Lua. Times come from the server that calls, so that all parts of a message share one clock. */

/** A ULID: ten characters of time, then the sixteen of chance that the caller drew. */
const ulid = `
local alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
local function ulid(ts, chance)
  local text = ''
  for _ = 1, 10 do
    local digit = ts % 32
    text = string.sub(alphabet, digit + 1, digit + 1) .. text
    ts = (ts - digit) / 32
  end
  return text .. chance
end
local function number(value) return string.format('%.0f', value) end`;

/** The clock's time, or just after the newest message: another AICQ server may have written that, and it does not know our key. */
const nextTime = `
local function nextTime(list, clock, now)
  local newest = redis.call('ZRANGE', list, -1, -1, 'WITHSCORES')[2] or '0'
  return math.max(now, tonumber(newest) + 1, tonumber(redis.call('GET', clock) or '0') + 1)
end`;

/** Takes bytes from an agent's minute, or answers how long it lasts. */
const spendBytes = `
local function spend(key, size, max)
  local used = tonumber(redis.call('GET', key) or '0')
  -- A minute that has not begun has no time left; a negative one would mean that the bytes were taken.
  if used + size > max then return math.max(0, redis.call('PTTL', key)) end
  redis.call('INCRBY', key, size)
  if redis.call('PTTL', key) < 0 then redis.call('PEXPIRE', key, 60000) end
  return nil
end`;

/** Under which id and time a delivery was made before, if it was. */
const deliveredBefore = `
local function deliveredBefore(key)
  local before = redis.call('GET', key)
  if before then return string.match(before, '(%S+) (%S+)') end
  return nil
end`;

/** A key lives at least so long, and never shorter than it would have. */
const keepFor = `
local function keepFor(key, life)
  if redis.call('PTTL', key) < life then redis.call('PEXPIRE', key, string.format('%.0f', life)) end
end`;

/** Rooms run ahead of the clock by different times, so that a later message may end its life earlier. */
const indexWord = `${keepFor}
local function indexWord(key, now, retention, ts, member)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - retention))
  redis.call('ZADD', key, string.format('%.0f', ts), member)
  keepFor(key, ts + retention - now)
end`;

/** Stands in every list of what is pending, so that one that is empty is there. */
const pendingMark = 'list';

export const scripts = {
  /**
   * Keys: messages, clock, count, thread, bytes, delivery, notes, then the words, or where those lie elsewhere the list of messages that are not indexed yet.
   * Arguments: now, retention, size, bytes a minute, the total so far, parent's time, chance, JSON around id and time (two parts), channel, news, room id, how long a delivery is remembered, whether the words are indexed later, most notes.
   */
  stoaPost: {
    keys: undefined,
    lua: `${ulid}${nextTime}${spendBytes}${deliveredBefore}${indexWord}
local now, retention = tonumber(ARGV[1]), tonumber(ARGV[2])
if ARGV[13] ~= '' then
  local id, ts = deliveredBefore(KEYS[6])
  if id then return {'ok', id, ts, redis.call('GET', KEYS[3]) or ARGV[5]} end
end
if redis.call('LLEN', KEYS[7]) >= tonumber(ARGV[15]) then return {'notes'} end
local ts = nextTime(KEYS[1], KEYS[2], now)
if ARGV[6] ~= '' and redis.call('ZCOUNT', KEYS[1], ARGV[6], ARGV[6]) == 0 then return {'parent'} end
if ARGV[3] ~= '' then
  local wait = spend(KEYS[5], tonumber(ARGV[3]), tonumber(ARGV[4]))
  if wait then return {'bytes', wait} end
end
local id = ulid(ts, ARGV[7])
local life = number(ts + retention - now)
redis.call('SET', KEYS[2], number(ts), 'PX', life)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', number(now - retention))
redis.call('ZADD', KEYS[1], number(ts), '{"id":"' .. id .. '",' .. ARGV[8] .. ',"ts":' .. number(ts) .. ARGV[9] .. '}')
redis.call('PEXPIRE', KEYS[1], life)
if ARGV[6] ~= '' then
  redis.call('ZADD', KEYS[4], number(ts), id)
  redis.call('PEXPIRE', KEYS[4], life)
end
if ARGV[14] ~= '' then
  redis.call('ZADD', KEYS[8], number(ts), id)
  redis.call('PEXPIRE', KEYS[8], life)
else
  for index = 8, #KEYS do indexWord(KEYS[index], now, retention, ts, ARGV[12] .. ':' .. id) end
end
local total
if redis.call('EXISTS', KEYS[3]) == 0 then
  total = tonumber(ARGV[5]) + 1
  redis.call('SET', KEYS[3], number(total))
else
  total = redis.call('INCR', KEYS[3])
end
redis.call('PEXPIRE', KEYS[3], 604800000)
if ARGV[13] ~= '' then redis.call('SET', KEYS[6], id .. ' ' .. number(ts), 'PX', ARGV[13]) end
local news = ARGV[11] .. ' ' .. id .. ' ' .. number(total)
redis.call('RPUSH', KEYS[7], news)
redis.call('PUBLISH', ARGV[10], news)
return {'ok', id, number(ts), number(total)}`,
  },

  /** Keys: inbox, clock, delivery, pending, notes. Arguments: now, retention, chance, JSON around id and time, channel, news, how long a delivery is remembered, most notes. */
  stoaSend: {
    keys: 5,
    lua: `${ulid}${nextTime}${deliveredBefore}
local now, retention = tonumber(ARGV[1]), tonumber(ARGV[2])
if ARGV[8] ~= '' then
  local id, ts = deliveredBefore(KEYS[3])
  if id then return {'ok', id, ts} end
end
if redis.call('LLEN', KEYS[5]) >= tonumber(ARGV[9]) then return {'notes'} end
local ts = nextTime(KEYS[1], KEYS[2], now)
local id = ulid(ts, ARGV[3])
local life = number(ts + retention - now)
-- An inbox whose list of what is pending is missing gets it when somebody reads it.
if redis.call('EXISTS', KEYS[4]) == 1 or redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', number(now - retention))
  redis.call('ZADD', KEYS[4], '+inf', '${pendingMark}', number(ts), id)
  redis.call('PEXPIRE', KEYS[4], life)
end
redis.call('SET', KEYS[2], number(ts), 'PX', life)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', number(now - retention))
redis.call('ZADD', KEYS[1], number(ts), '{"id":"' .. id .. '",' .. ARGV[4] .. ',"ts":' .. number(ts) .. ARGV[5] .. '}')
redis.call('PEXPIRE', KEYS[1], life)
if ARGV[8] ~= '' then redis.call('SET', KEYS[3], id .. ' ' .. number(ts), 'PX', ARGV[8]) end
redis.call('RPUSH', KEYS[5], ARGV[7] .. ' ' .. id)
redis.call('PUBLISH', ARGV[6], ARGV[7] .. ' ' .. id)
return {'ok', id, number(ts)}`,
  },

  /** Keys: messages, thread, notes. Arguments: the member, its id, channel, news. Of two that delete at once, one removes it. */
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

  /** Bytes alone, where they lie on another node than the room. */
  stoaSpend: {
    keys: 1,
    lua: `${spendBytes} return spend(KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])) or -1`,
  },

  /** One word, where it lies on another node than the room. Keys: word. Arguments: now, retention, time, room and message. */
  stoaIndex: {
    keys: 1,
    lua: `${indexWord} indexWord(KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]) return 1`,
  },

  /** Keys: inbox, acknowledged, pending. Arguments: life, then time and id by turns. */
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
   * What is not acknowledged, oldest first: as many inbox members as there are, and one more than fits a page.
   * Keys: inbox, acknowledged, pending. Arguments: after which time, how many.
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
      if id and not redis.call('ZSCORE', KEYS[2], id) then redis.call('ZADD', KEYS[3], page[index + 1], id) end
      from = '(' .. page[index + 1]
    end
  until #page < 400
end
local members = {}
local entries = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[1], '(+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for index = 2, #entries, 2 do
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], entries[index], entries[index])) do table.insert(members, member) end
end
return members`,
  },

  /**
   * Writes a message as an export had it, over one of the same time. Keys: messages or inbox, clock, thread or acknowledged.
   * Arguments: now, retention, time, the message, what goes into the third key or nothing. Answers 0 when its life is over.
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
if tonumber(redis.call('GET', KEYS[2]) or '0') < ts then redis.call('SET', KEYS[2], ARGV[3], 'PX', life) end
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

  /** Raises a number that only grows. Keys: the number. Arguments: the least that it must be, its life. */
  stoaRaise: {
    keys: 1,
    lua: `
if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return 1`,
  },

  /** A sliding window. Arguments: now, window in ms, limit, a name for this request. Answers allowed, used, oldest. */
  stoaRate: {
    keys: 1,
    lua: `
local now, window, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
local used = redis.call('ZCARD', KEYS[1])
local allowed = 0
if used < limit then
  allowed = 1
  used = used + 1
  redis.call('ZADD', KEYS[1], ARGV[1], ARGV[4])
  redis.call('PEXPIRE', KEYS[1], 2 * window)
end
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return {allowed, used, oldest[2] or ARGV[1]}`,
  },

  /** One more refusal; answers how many within the hour. */
  stoaViolation: {
    keys: 1,
    lua: `
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('EXPIRE', KEYS[1], 3600) end
return count`,
  },
} as const satisfies Record<string, { keys: number | undefined; lua: string }>;

export type ScriptName = keyof typeof scripts;
