package access

import (
	"crypto/sha256"
	"sync"
	"time"

	"gatehouse/internal/site"
)

// maxVerified bounds the remembered tokens: with their keys some 150 KB.
const maxVerified = 1024

// verified remembers tokens whose signature and form were found good, by their
// SHA-256, because an app sends the same token with every request and verifying it
// again costs a small board 0.1 ms. What can change is never remembered: expiry,
// session, account and grant are judged anew for each request. Safe for concurrent
// use.
type verified struct {
	mu    sync.RWMutex // mu guards known
	known map[[sha256.Size]byte]bearer
}

// bearer is what a good token says.
type bearer struct {
	account site.AccountID
	session site.SessionID
	expires time.Time
}

func newVerified() *verified {
	return &verified{known: make(map[[sha256.Size]byte]bearer)}
}

func (v *verified) find(sum [sha256.Size]byte) (bearer, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	b, ok := v.known[sum]
	return b, ok
}

// keep remembers a token; when there is no room, it forgets another one.
func (v *verified) keep(sum [sha256.Size]byte, b bearer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for other := range v.known {
		if len(v.known) < maxVerified {
			break
		}
		delete(v.known, other) // the order of a map's keys is random
	}
	v.known[sum] = b
}
