package access

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/site"
)

// directory is all that the service knows, in memory. Its methods hold the mutex
// for look-ups only; what they return is a copy.
type directory struct {
	mu       sync.RWMutex // guards everything below and what it points to
	accounts map[site.AccountID]*account
	emails   map[site.Email]*account
	sessions map[site.SessionID]*session
	refresh  map[[32]byte]*session
	costs    []Params // of the stored password hashes, by account id
	steps    steps    // of the clock
	zone     *time.Location
}

// account is an account with all that belongs to it.
type account struct {
	site.Account
	passwords int                      // how often the password was set since the start
	cost      Params                   // of its hash; zero when that is unreadable
	known     map[netip.Addr]time.Time // client addresses of its logins, and until when they count
	sessions  map[site.SessionID]*session
	writing   chan struct{} // capacity 1: holds a token while sessions of the account are stored or ended
	grants    map[site.StationID]grant
}

func newDirectory(zone *time.Location) *directory {
	return &directory{
		accounts: make(map[site.AccountID]*account),
		emails:   make(map[site.Email]*account),
		sessions: make(map[site.SessionID]*session),
		refresh:  make(map[[32]byte]*session),
		zone:     zone,
	}
}

// addAccount enters a new account.
func (d *directory) addAccount(a site.Account) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entry := &account{
		Account:  a,
		known:    make(map[netip.Addr]time.Time),
		sessions: make(map[site.SessionID]*session),
		writing:  make(chan struct{}, 1),
		grants:   make(map[site.StationID]grant),
	}
	d.accounts[a.ID] = entry
	d.emails[a.Email] = entry
	d.setCost(entry)
}

// setCost notes the cost of an account's password hash. The caller holds mu.
func (d *directory) setCost(a *account) {
	stored, _ := parseHash(a.Password.Reveal()) // unreadable: zero
	a.cost = stored.params
	d.listCosts()
}

// listCosts rebuilds the list of the costs of the stored hashes. The caller holds mu.
func (d *directory) listCosts() {
	d.costs = d.costs[:0]
	for _, id := range slices.Sorted(maps.Keys(d.accounts)) {
		d.costs = append(d.costs, d.accounts[id].cost)
	}
}

// costLike returns the cost of one of the stored hashes, the same for the same choice
// while they stay; zero where there is none. The caller holds mu.
func (d *directory) costLike(choice uint64) Params {
	if len(d.costs) == 0 {
		return Params{}
	}
	return d.costs[choice%uint64(len(d.costs))]
}

// setPassword replaces the password of an account, which voids the logins in flight.
func (d *directory) setPassword(id site.AccountID, hash site.Secret) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[id]; a != nil {
		a.Password = hash
		d.setCost(a)
		a.passwords++
	}
}

// upgradePassword replaces the hash of a password that was proven and is still the same.
func (d *directory) upgradePassword(who proof) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[who.account]; a != nil && a.Password == who.stored {
		a.Password = who.upgraded
		d.setCost(a)
	}
}

func (d *directory) setAdmin(id site.AccountID, admin bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[id]; a != nil {
		a.Admin = admin
	}
}

// removeAccount forgets an account with its sessions and grants.
func (d *directory) removeAccount(id site.AccountID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[id]
	if a == nil {
		return
	}
	for _, s := range a.sessions {
		d.forget(s)
	}
	delete(d.accounts, id)
	delete(d.emails, a.Email)
	d.listCosts()
}

// byEmail returns the account with its password hash.
func (d *directory) byEmail(email site.Email) (site.Account, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.emails[email]
	if a == nil {
		return site.Account{}, false
	}
	return a.Account, true
}

// byID returns the account with its password hash.
func (d *directory) byID(id site.AccountID) (site.Account, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[id]
	if a == nil {
		return site.Account{}, false
	}
	return a.Account, true
}

// list returns the accounts with their password hashes, by e-mail address.
func (d *directory) list() []site.Account {
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := make([]site.Account, 0, len(d.accounts))
	for _, a := range d.accounts {
		out = append(out, a.Account)
	}
	slices.SortStableFunc(out, func(a, b site.Account) int { return cmp.Compare(a.Email, b.Email) })
	return out
}
