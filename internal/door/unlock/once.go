package unlock

import (
	"maps"
	"sync"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// keyLife is how long an Idempotency-Key returns its first answer (contract, section 1).
	keyLife = 10 * time.Minute
	// maxKeys bounds the keys that one account can keep alive; past it the account
	// has to wait.
	maxKeys = 1000
	// signedLife is how long a signed command may be valid by a right clock: a minute,
	// and 5 s by which the signer's clock may be ahead (contract, section 3).
	signedLife = 65 * time.Second
	// signedKept is how long the id of one is kept at least.
	signedKept = 2 * signedLife
	// maxSigned bounds the ids of signed commands that are kept: 46 commands a second,
	// sustained. [Journal.RecentUnlocks] looks through more records than those have.
	maxSigned = 6000
)

// signedCommands owns the ids of signed commands, as accounts own their Idempotency-Keys.
// It is no account's id, and not "", which owns the keys of the admin socket.
const signedCommands site.AccountID = "signed commands"

// replay is the first request with one key or id, and its answer once done is closed.
type replay struct {
	done    chan struct{}
	answer  Answer
	expires time.Time // kept until then, by the monotonic clock
	until   time.Time // and until then by the gateway's clock; zero: of no account
	begun   bool      // of a signed command: Unlock was called with it
}

// ended returns the answer, if there is one already.
func (r *replay) ended() (answer Answer, ok bool) {
	select {
	case <-r.done:
		answer = r.answer
		answer.Replayed = true
		return answer, true
	default:
		return Answer{}, false
	}
}

func (r *replay) end(answer Answer) {
	r.answer = answer
	close(r.done)
}

// replays is the gateway's one memory of what was carried out once: Idempotency-Keys by
// their digest, an account's apart from another's, and the ids of signed commands. A
// restart finds it in the journal. Its methods are safe for concurrent use.
type replays struct {
	clock site.Clock

	mu         sync.Mutex // mu guards what follows
	byAccount  map[site.AccountID]map[string]*replay
	incomplete time.Time // until then signed commands may have been carried out that are not here
}

func newReplays(clock site.Clock) *replays {
	return &replays{clock: clock, byAccount: make(map[site.AccountID]map[string]*replay)}
}

// claim returns the replay of a key, and whether the caller is the first and has to end
// or release it. Throttled when the owner has too many.
func (rs *replays) claim(owner site.AccountID, key string, expires, until time.Time) (r *replay, first bool, err error) {
	now := time.Now()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r, ok := rs.byAccount[owner][key]; ok && (owner == signedCommands || now.Before(r.expires)) {
		return r, false, nil
	}
	most, sentence, retry := maxKeys, "Too many Idempotency-Keys in ten minutes", keyLife/10
	if owner == signedCommands {
		most, sentence, retry = maxSigned, "Too many signed commands in a short time", signedLife
		if left := rs.incomplete.Sub(now); left > 0 {
			return nil, false, fault.Throttle("The journal was restored or lost records: what was carried out before is not known yet", left)
		}
	}
	if len(rs.byAccount[owner]) >= most {
		rs.forget(owner, now)
	}
	if len(rs.byAccount[owner]) >= most {
		return nil, false, fault.Throttle(sentence, retry)
	}
	return rs.add(owner, key, expires, until), true, nil
}

// add remembers a key; mu is held.
func (rs *replays) add(owner site.AccountID, key string, expires, until time.Time) *replay {
	if rs.byAccount[owner] == nil {
		rs.byAccount[owner] = make(map[string]*replay)
	}
	r := &replay{done: make(chan struct{}), expires: expires, until: until}
	rs.byAccount[owner][key] = r
	return r
}

// find returns the replay of a key; nil where there is none.
func (rs *replays) find(owner site.AccountID, key string) *replay {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.byAccount[owner][key]
}

// begin returns the replay of a signed command that is claimed and not yet begun; else
// nil.
func (rs *replays) begin(id string) *replay {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byAccount[signedCommands][id]
	if r == nil || r.begun {
		return nil
	}
	r.begun = true
	return r
}

// release releases a key for the next request.
func (rs *replays) release(owner site.AccountID, key string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.byAccount[owner], key)
}

// sweep drops what has expired.
func (rs *replays) sweep() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for owner := range rs.byAccount {
		rs.forget(owner, time.Now())
	}
}

// forget drops what has expired of an owner; mu is held.
func (rs *replays) forget(owner site.AccountID, now time.Time) {
	keys, clock := rs.byAccount[owner], rs.clock.Now()
	maps.DeleteFunc(keys, func(_ string, r *replay) bool { return !now.Before(r.expires) && clock.After(r.until) })
	if len(keys) == 0 {
		delete(rs.byAccount, owner)
	}
}
