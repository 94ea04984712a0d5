package access

import (
	"net/netip"
	"time"

	"gatehouse/internal/site"
)

// maxKnown bounds the addresses that are known for one account; the store keeps as many.
const maxKnown = site.MaxLoginAddresses

// knows reports whether the account of that e-mail address was logged in to from remote
// within the life of a session, even if that session has ended since.
func (d *directory) knows(email site.Email, remote netip.Addr, now time.Time) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.emails[email]
	return a != nil && remote.IsValid() && now.Before(a.known[remote])
}

// remember makes a client address known for an account until then. The caller holds mu.
func (a *account) remember(remote string, until time.Time) {
	addr, err := netip.ParseAddr(remote)
	if err != nil || until.Before(a.known[addr]) {
		return
	}
	if _, ok := a.known[addr]; !ok && len(a.known) >= maxKnown {
		a.forgetOldest()
	}
	a.known[addr] = until
}

// forgetOldest forgets the address that would be forgotten first.
func (a *account) forgetOldest() {
	var oldest netip.Addr
	for addr, until := range a.known {
		if !oldest.IsValid() || until.Before(a.known[oldest]) {
			oldest = addr
		}
	}
	delete(a.known, oldest)
}

// addKnown enters an address that the store has kept.
func (d *directory) addKnown(k site.LoginAddress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[k.Account]; a != nil {
		a.remember(k.Remote, k.Until)
	}
}
