package link

import (
	"slices"
	"sync"
	"time"

	"gatehouse/internal/site"
)

const (
	// manyHangUps within hangUpSpan are more than brokers end connections by themselves.
	manyHangUps = 4
	hangUpSpan  = time.Hour
	// otherLife is how long another gateway counts as present after its last status.
	otherLife = 3*statusEvery - time.Minute
)

// identity detects another gateway with this one's identity, such as a board with a
// copy of the card. With one client id they end each other's connection again and
// again. With two both stay connected, and both carry out each command: then each
// receives the other's status. Its methods are safe for concurrent use.
type identity struct {
	mu      sync.Mutex // mu guards what follows
	hangUps []time.Time
	other   site.BootID
	heard   time.Time // when other first published a status
	seen    time.Time // when it last did so again; zero: it may have ended before
}

// hungUp notes that the broker has ended a connection.
func (i *identity) hungUp(now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hangUps = append(i.hangUps, now)
}

// saw notes a status of another process, and reports whether ours is to be published in
// answer: to its first two, so that the other one sees us twice, too. A status that an earlier
// process of this gateway left at a slow broker is not repeated; another gateway answers.
func (i *identity) saw(other site.BootID, now time.Time) (answer bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case other == i.other:
		answer = i.seen.IsZero()
		i.seen = now
	case min(now.Sub(i.heard), now.Sub(i.seen)) >= otherLife:
		answer = true
		i.other, i.heard, i.seen = other, now, time.Time{}
	}
	return answer
}

// reset forgets everything: the settings have changed.
func (i *identity) reset() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hangUps, i.other, i.heard, i.seen = nil, "", time.Time{}, time.Time{}
}

// judge returns what is wrong, or "".
func (i *identity) judge(now time.Time) (summary string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hangUps = slices.DeleteFunc(i.hangUps, func(at time.Time) bool { return now.Sub(at) >= hangUpSpan })
	switch {
	case now.Sub(i.seen) < otherLife:
		return "Another gateway is connected to the cloud with this one's identity: each command is carried out by both"
	case len(i.hangUps) >= manyHangUps:
		return "The broker ends the cloud link again and again: probably another gateway connects with this one's identity"
	}
	return ""
}

// adviceIdentity is what to do about a copy, and what not.
const adviceIdentity = "Where this happens again and again, find the other gateway (a copy of the card?) and set it up anew on an empty card, " +
	"so that it has an identity of its own. Do not set another client_id there: then both carry out each command"
