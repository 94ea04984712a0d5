package access

import (
	"context"

	"github.com/google/uuid"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// errNoAccount says that an administrator named an account that is not there.
var errNoAccount = fault.New(fault.NotFound, "There is no account with this e-mail address")

// errAccountExists says that an e-mail address has an account already.
var errAccountExists = fault.New(fault.Conflict, "There is an account with this e-mail address already")

// AddAccount makes an account with that password. Invalid for a text that is no
// e-mail address and for a password that [CheckPassword] refuses; Conflict when
// the address has an account; Unavailable when it cannot be stored. The account
// comes back without its hash.
func (s *Service) AddAccount(ctx context.Context, by site.Actor, email string, password site.Secret, admin bool) (site.Account, error) {
	address, err := site.ParseEmail(email)
	if err != nil {
		return site.Account{}, fault.New(fault.Invalid, err.Error())
	}
	if _, taken := s.dir.byEmail(address); taken {
		return site.Account{}, errAccountExists
	}
	hash, err := s.newHash(ctx, address, password)
	if err != nil {
		return site.Account{}, err
	}
	account := site.Account{ID: site.AccountID(uuid.NewString()), Email: address, Admin: admin, Password: hash}
	return s.enter(ctx, by, account)
}

// enter stores a new account, then takes it into memory.
func (s *Service) enter(ctx context.Context, by site.Actor, account site.Account) (site.Account, error) {
	give, err := takeTurn(ctx, s.accountTurns, account.Email)
	if err != nil {
		return site.Account{}, err
	}
	defer give()
	if _, taken := s.dir.byEmail(account.Email); taken {
		return site.Account{}, errAccountExists
	}
	account.Created = site.At(s.clock.Now()).Time
	rec := change(by, site.KindAccountAdded, account, roleOf(account.Admin))
	err = s.administer(ctx, "storing an account", func(ctx context.Context) error {
		return s.store.AddAccount(ctx, account, rec)
	})
	if err != nil {
		return site.Account{}, err
	}
	s.dir.addAccount(account)
	return shown(account), nil
}

// RemoveAccount removes an account, ends its sessions and withdraws its grants.
// NotFound when there is none; Unavailable when that cannot be stored: the
// sessions are dead all the same.
func (s *Service) RemoveAccount(ctx context.Context, by site.Actor, email string) error {
	account, err := s.find(email)
	if err != nil {
		return err
	}
	ended := change(by, site.KindSessionRevoked, account, "the account is being removed")
	s.dir.endAll(account.ID, s.clock.Now(), &ended) // even if the turn never comes
	account, done, err := s.take(ctx, email)
	if err != nil {
		return err
	}
	defer done()
	sessions := s.dir.endAll(account.ID, s.clock.Now(), &ended)
	rec := change(by, site.KindAccountRemoved, account, "with its sessions and grants")
	rec.Count = len(sessions)
	err = s.administer(ctx, "removing an account", func(ctx context.Context) error {
		return s.store.RemoveAccount(ctx, account.ID, rec)
	})
	if err == nil || fault.Is(err, fault.NotFound) {
		s.dir.removeAccount(account.ID)
	}
	return err
}

// SetPassword replaces an account's password and forgets every count of failed logins
// of the account. Its sessions stay valid (specification, "Authentication", rule 6); a
// login in flight with the old password no longer succeeds. Invalid, NotFound or
// Unavailable.
func (s *Service) SetPassword(ctx context.Context, by site.Actor, email string, password site.Secret) error {
	account, err := s.find(email)
	if err != nil {
		return err
	}
	hash, err := s.newHash(ctx, account.Email, password)
	if err != nil {
		return err
	}
	account, done, err := s.take(ctx, email)
	if err != nil {
		return err
	}
	defer done()
	account.Password = hash
	if err := s.update(ctx, by, account, "password set"); err != nil {
		return err
	}
	s.adoptPassword(account)
	return nil
}

// adoptPassword applies a stored password, and forgets the failed logins of the
// account.
func (s *Service) adoptPassword(account site.Account) {
	s.dir.setPassword(account.ID, account.Password, true)
	s.attempts.clear(accountKey(string(account.Email)))
}

// SetAdmin makes an account an administrator, or no longer one; its sessions feel
// it at their next request. NotFound or Unavailable; no change is no error and no
// record.
func (s *Service) SetAdmin(ctx context.Context, by site.Actor, email string, admin bool) error {
	account, done, err := s.take(ctx, email)
	if err != nil {
		return err
	}
	defer done()
	if account.Admin == admin {
		return nil
	}
	account.Admin = admin
	if err := s.update(ctx, by, account, roleOf(admin)); err != nil {
		return err
	}
	s.dir.setAdmin(account.ID, admin)
	return nil
}

// PasswordMatches reports whether password is the account's. It hashes, so it
// waits for a hash slot, but it is not throttled: administrators call it. NotFound
// without such an account; Unavailable when ctx ends first.
func (s *Service) PasswordMatches(ctx context.Context, email string, password site.Secret) (bool, error) {
	account, err := s.find(email)
	if err != nil {
		return false, err
	}
	leave, err := s.hashing.queue.enter(ctx, adminPath(), 0)
	if err != nil {
		return false, err
	}
	defer leave()
	_, matches := s.hashing.verify(account.Password, Params{}, password)
	return matches, nil
}

// Accounts lists the accounts by e-mail address, without their hashes.
func (s *Service) Accounts() []site.Account {
	accounts := s.dir.list()
	for i := range accounts {
		accounts[i] = shown(accounts[i])
	}
	return accounts
}

// AccountByEmail gives the account of that address without its hash; NotFound
// when there is none.
func (s *Service) AccountByEmail(email string) (site.Account, error) {
	account, err := s.find(email)
	return shown(account), err
}

// AccountByID gives the account with that id without its hash.
func (s *Service) AccountByID(id site.AccountID) (site.Account, bool) {
	account, ok := s.dir.byID(id)
	return shown(account), ok
}

// find gives the account of that address; NotFound also for a text that is none.
func (s *Service) find(email string) (site.Account, error) {
	address, err := site.ParseEmail(email)
	if err != nil {
		return site.Account{}, errNoAccount
	}
	account, ok := s.dir.byEmail(address)
	if !ok {
		return site.Account{}, errNoAccount
	}
	return account, nil
}

// take takes the turn of the account of that address and gives the account as it
// stands then; done gives the turn back.
func (s *Service) take(ctx context.Context, email string) (account site.Account, done func(), err error) {
	address, err := site.ParseEmail(email)
	if err != nil {
		return site.Account{}, nil, errNoAccount
	}
	give, err := takeTurn(ctx, s.accountTurns, address)
	if err != nil {
		return site.Account{}, nil, err
	}
	account, ok := s.dir.byEmail(address)
	if !ok {
		give()
		return site.Account{}, nil, errNoAccount
	}
	return account, give, nil
}

// update stores a changed account.
func (s *Service) update(ctx context.Context, by site.Actor, account site.Account, detail string) error {
	rec := change(by, site.KindAccountChanged, account, detail)
	return s.administer(ctx, "storing a changed account", func(ctx context.Context) error {
		return s.store.UpdateAccount(ctx, account, rec)
	})
}

// newHash checks a password against the policy and hashes it.
func (s *Service) newHash(ctx context.Context, email site.Email, password site.Secret) (site.Secret, error) {
	if err := CheckPassword(email, password); err != nil {
		return "", err
	}
	leave, err := s.hashing.queue.enter(ctx, adminPath(), 0)
	if err != nil {
		return "", err
	}
	defer leave()
	return s.hashing.hash(password), nil
}

// adminPath is where an administrator's change waits for a slot.
func adminPath() path {
	all := share{lane: laneAdmin}
	return path{all, all, all}
}

// shown is what callers see of an account: everything but the hash.
func shown(a site.Account) site.Account {
	a.Password = ""
	return a
}

// roleOf words an account's role for the journal.
func roleOf(admin bool) string {
	if admin {
		return "an administrator"
	}
	return "not an administrator"
}
