package redis

import (
	"crypto/sha1" // it is how Redis names scripts
	"encoding/hex"
)

// A script runs on the server as one step.
type script struct{ source, sum string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

// The keys of all scripts are those of the lock and its note; of acquire also that of
// the counter. What tells of a lock is its holder's ID, what is left in milliseconds,
// and id, token, since and value of the note.
var (
	// acquire is given id, ttl and value. A counter that lags behind the clock, since
	// the server has lost data, catches up with it.
	acquire = newScript(`
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then holder = '' end -- not a string: a lock of another form
local note = redis.call('HMGET', KEYS[2], 'id', 'token', 'since', 'value')
if holder and holder ~= ARGV[1] then
	return {holder, redis.call('PTTL', KEYS[1]), note[1], note[2], note[3], note[4]}
end
local token, since = note[2], note[3]
if not holder or note[1] ~= ARGV[1] then
	local time = redis.call('TIME')
	local now = time[1] * 1000000 + time[2]
	local last = tonumber(redis.call('GET', KEYS[3]) or '0') or 0
	since = string.format('%.0f', now)
	token = string.format('%.0f', math.max(last + 1, now))
	redis.call('SET', KEYS[3], token)
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('HSET', KEYS[2], 'id', ARGV[1], 'token', token, 'since', since, 'value', ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return {ARGV[1], tonumber(ARGV[2]), ARGV[1], token, since, ARGV[3]}`)

	// vote is acquire for a node of Redlock, without a token. The id is that of the
	// lease, a colon and the number of the attempt: it takes over from earlier attempts.
	vote = newScript(`
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then holder = '' end
if holder and holder ~= ARGV[1] then
	local own, old = string.match(ARGV[1], '^(.*):(%d+)$'), nil
	if string.sub(holder, 1, #own + 1) == own .. ':' then
		old = tonumber(string.sub(holder, #own + 2))
	end
	if not old or old > tonumber(string.match(ARGV[1], '%d+$')) then
		local note = redis.call('HMGET', KEYS[2], 'id', 'token', 'since', 'value')
		return {holder, redis.call('PTTL', KEYS[1]), note[1], note[2], note[3], note[4]}
	end
end
local time = redis.call('TIME')
local since = string.format('%.0f', time[1] * 1000000 + time[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('HSET', KEYS[2], 'id', ARGV[1], 'token', '0', 'since', since, 'value', ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return {ARGV[1], tonumber(ARGV[2]), ARGV[1], '0', since, ARGV[3]}`)

	// renew is given id, ttl, value and token.
	renew = newScript(`
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[2], 'id', ARGV[1], 'token', ARGV[4], 'value', ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`)

	// release is given id, the channel to tell it in, and 1 if an id with a number of an
	// attempt behind it is meant as well. The lock is released also where the user may
	// not publish.
	release = newScript(`
local holder = redis.pcall('GET', KEYS[1])
if type(holder) ~= 'string' then return 0 end
local attempt = ARGV[3] == '1' and string.sub(holder, 1, #ARGV[1] + 1) == ARGV[1] .. ':'
if holder ~= ARGV[1] and not attempt then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
redis.pcall('PUBLISH', ARGV[2], '')
return 1`)

	// look returns nothing if there is no lock.
	look = newScript(`
local holder = redis.pcall('GET', KEYS[1])
if type(holder) ~= 'string' then return false end
local note = redis.call('HMGET', KEYS[2], 'id', 'token', 'since', 'value')
return {holder, redis.call('PTTL', KEYS[1]), note[1], note[2], note[3], note[4]}`)
)
