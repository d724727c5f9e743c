/** Lua functions that several scripts share. */

/** A ULID: ten characters of time, then sixteen random characters from the caller. */
export const ulid = `
local alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
local function ulid(ts, random)
  local text = ''
  for _ = 1, 10 do
    local digit = ts % 32
    text = string.sub(alphabet, digit + 1, digit + 1) .. text
    ts = (ts - digit) / 32
  end
  return text .. random
end
local function number(value) return string.format('%.0f', value) end`;

/**
 * The time of a new message: now, or 1 ms after the newest message. The clock key alone is not enough,
 * because another AICQ server writes messages without it.
 */
export const nextTime = `
local function nextTime(list, clock, now)
  local newest = redis.call('ZRANGE', list, -1, -1, 'WITHSCORES')[2] or '0'
  return math.max(now, tonumber(newest) + 1, tonumber(redis.call('GET', clock) or '0') + 1)
end`;

/**
 * Counts an agent's bytes of the current minute. Returns the rest of the minute in ms if they exceed the
 * maximum.
 */
export const countBytes = `
local function countBytes(key, size, max)
  local used = tonumber(redis.call('GET', key) or '0')
  -- PTTL is negative if the key does not exist. A negative result would mean that the bytes were counted.
  if used + size > max then return math.max(0, redis.call('PTTL', key)) end
  redis.call('INCRBY', key, size)
  if redis.call('PTTL', key) < 0 then redis.call('PEXPIRE', key, 60000) end
  return nil
end`;

/**
 * A rate limit with a sliding window. Returns whether the request is allowed, the number of requests in the window, and
 * the time of the oldest one.
 */
export const takeRate = `
local function takeRate(key, now, window, limit, name)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', tonumber(now) - window))
  local used = redis.call('ZCARD', key)
  local allowed = 0
  if used < limit then
    allowed = 1
    used = used + 1
    redis.call('ZADD', key, now, name)
    redis.call('PEXPIRE', key, 2 * window)
  end
  local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return {allowed, used, oldest[2] or now}
end`;

/** The id and time of the message, if this delivery was made before. */
export const deliveredBefore = `
local function deliveredBefore(key)
  local before = redis.call('GET', key)
  if before then return string.match(before, '(%S+) (%S+)') end
  return nil
end`;

/** The change of a room that was noted (`RoomChange`), with the version of the room and its retention, if noted. */
export const notedChange = `
local function notedChange(key)
  local note = redis.call('GET', key)
  if not note then return nil end
  local change, version, retention = string.match(note, '(%a+) ?(%d*) ?(%d*)')
  return change, tonumber(version), tonumber(retention)
end`;

/** Extends the life of a key. Never shortens it. */
export const keepFor = `
local function keepFor(key, life)
  if redis.call('PTTL', key) < life then redis.call('PEXPIRE', key, string.format('%.0f', life)) end
end`;

/**
 * `keepFor`, because a later message may expire earlier: the clocks of rooms can be ahead by different times.
 */
export const indexWord = `${keepFor}
local function indexWord(key, now, retention, ts, member)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - retention))
  redis.call('ZADD', key, string.format('%.0f', ts), member)
  keepFor(key, ts + retention - now)
end`;

/** A member of every list of pending messages, so that the key of an empty list exists. */
export const pendingMark = 'list';
