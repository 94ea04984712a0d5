package access

import (
	"cmp"
	"log/slog"
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
	stored   *rules                       // as they are stored
	wanted   *rules                       // as they will be when what is pending is stored
	rebased  map[site.SessionID]time.Time // expiries that the store does not hold yet
	zone     *time.Location
}

// account is an account with all that belongs to it.
type account struct {
	site.Account
	demoted   bool                   // the end of its role is pending
	dropped   bool                   // the end of its password is
	proofs    int                    // how often the logins in flight were voided since the start
	cost      Params                 // the parameters of its hash; zero when that is unreadable
	devices   map[[32]byte]time.Time // the hashes of those that are known, and until when they are
	newDevice time.Time              // when one became known last, since the start
	sessions  map[site.SessionID]*session
	writing   chan struct{} // capacity 1: holds a token while a session of the account is stored
}

func newDirectory(loaded site.Access, log *slog.Logger) *directory {
	d := &directory{
		accounts: make(map[site.AccountID]*account),
		emails:   make(map[site.Email]*account),
		sessions: make(map[site.SessionID]*session),
		stored:   newRules(loaded),
		rebased:  make(map[site.SessionID]time.Time),
	}
	d.wanted = d.stored
	for _, a := range loaded.Accounts {
		if _, err := parseHash(a.Password.Reveal()); err != nil {
			log.Error("stored password is unreadable; set a new one", "account", a.ID, "error", err)
		}
		d.addAccount(a)
	}
	for _, known := range loaded.Devices {
		d.addDevice(known, time.Time{})
	}
	for _, s := range loaded.Sessions {
		d.addSession(s)
	}
	return d
}

// addAccount enters a new account.
func (d *directory) addAccount(a site.Account) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entry := &account{
		Account:  a,
		devices:  make(map[[32]byte]time.Time),
		sessions: make(map[site.SessionID]*session),
		writing:  make(chan struct{}, 1),
	}
	entry.setPassword(a.Password)
	d.accounts[a.ID] = entry
	d.emails[a.Email] = entry
}

// setPassword sets the hash of the password. The caller holds mu.
func (a *account) setPassword(hash site.Secret) {
	a.Password = hash
	stored, _ := parseHash(hash.Reveal()) // unreadable: zero
	a.cost = stored.params
}

// updateAccount changes the role and the password of an account, and reports whether the
// password is another one, which voids the logins in flight.
func (d *directory) updateAccount(to site.Account) (password bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[to.ID]
	if a == nil {
		return false
	}
	a.Admin = to.Admin
	if to.Password == "" || a.Password == to.Password {
		return false
	}
	a.setPassword(to.Password)
	a.proofs++
	return true
}

// dropPassword removes the password of an account, and voids the logins in flight.
func (d *directory) dropPassword(id site.AccountID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[id]; a != nil {
		a.setPassword("")
		a.proofs++
	}
}

// voidLogins voids the logins in flight of every account.
func (d *directory) voidLogins() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		a.proofs++
	}
}

// upgradePassword replaces the hash of a password that was proven and is still the same.
func (d *directory) upgradePassword(who proof) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.accounts[who.account]; a != nil && a.Password == who.stored {
		a.setPassword(who.upgraded)
	}
}

// removeAccount forgets an account with its sessions.
func (d *directory) removeAccount(id site.AccountID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[id]
	if a == nil {
		return
	}
	for session := range a.sessions {
		d.forget(session)
	}
	delete(d.accounts, id)
	delete(d.emails, a.Email)
}

// rules returns the rules that are wanted.
func (d *directory) rules() *rules {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.wanted
}

// byEmail returns the account with its password hash.
func (d *directory) byEmail(email site.Email) (site.Account, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.emails[email].copied()
}

// byID returns the account with its password hash.
func (d *directory) byID(id site.AccountID) (site.Account, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.accounts[id].copied()
}

// copied returns a copy of the account, with the role and the password that it is to have; false where there
// is none.
func (a *account) copied() (site.Account, bool) {
	if a == nil {
		return site.Account{}, false
	}
	out := a.Account
	out.Admin, out.Password = a.admin(), a.password()
	return out, true
}

// admin reports whether the account is an administrator and is to stay one. The caller holds
// mu.
func (a *account) admin() bool { return a.Admin && !a.demoted }

// password returns the hash of the password, "" where the account is to have none. The caller holds mu.
func (a *account) password() site.Secret {
	if a.dropped {
		return ""
	}
	return a.Password
}

// Accounts lists the accounts by e-mail address, without their hashes.
func (s *Service) Accounts() []site.Account {
	s.dir.mu.RLock()
	defer s.dir.mu.RUnlock()
	out := make([]site.Account, 0, len(s.dir.accounts))
	for _, a := range s.dir.accounts {
		account, _ := a.copied()
		out = append(out, shown(account))
	}
	slices.SortStableFunc(out, func(a, b site.Account) int { return cmp.Compare(a.Email, b.Email) })
	return out
}
