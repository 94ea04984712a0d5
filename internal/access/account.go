package access

import (
	"context"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// errNoAccount means that an administrator named an account that is not there.
var errNoAccount = fault.New(fault.NotFound, "There is no account with this e-mail address")

// errAccountExists means that an e-mail address has an account already.
var errAccountExists = fault.New(fault.Conflict, "There is an account with this e-mail address already")

// AddAccount adds an account with that password. Invalid for a text that is no
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
	hash, err := s.HashPassword(ctx, address, password)
	if err != nil {
		return site.Account{}, err
	}
	var added site.Account
	err = s.changes.Make(ctx, by, func() ([]site.Amendment, error) {
		if _, taken := s.dir.byEmail(address); taken {
			return nil, errAccountExists
		}
		a := s.DraftAccount(by, address, hash, admin)
		added = shown(*a.AddAccount)
		return []site.Amendment{a}, nil
	})
	if err != nil {
		return site.Account{}, err
	}
	return added, nil
}

// RemoveAccount removes an account, ends its sessions and withdraws its grants.
// That takes effect at once, whatever it returns: NotFound when there is none, Unavailable
// when it could not be stored yet.
func (s *Service) RemoveAccount(ctx context.Context, by site.Actor, email string) error {
	account, err := s.find(email)
	if err != nil {
		return err
	}
	return s.changes.Revoke(ctx, by, func() ([]site.Amendment, error) {
		a, err := s.DraftRemoval(by, account.Email)
		a.Record.Count = len(s.dir.sessionsOf(account.ID, s.clock.Now()))
		return []site.Amendment{a}, err
	})
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
	hash, err := s.HashPassword(ctx, account.Email, password)
	if err != nil {
		return err
	}
	return s.changes.Make(ctx, by, func() ([]site.Amendment, error) { return s.DraftChange(by, account.Email, nil, hash) })
}

// SetAdmin makes an account an administrator, or no longer one, with the next request
// of its sessions. The role ends at once, whatever it returns: NotFound or Unavailable;
// where it is so already, there is neither an error nor a record.
func (s *Service) SetAdmin(ctx context.Context, by site.Actor, email string, admin bool) error {
	account, err := s.find(email)
	if err != nil {
		return err
	}
	change := s.changes.Make
	if account.Admin && !admin {
		change = s.changes.Revoke
	}
	return change(ctx, by, func() ([]site.Amendment, error) { return s.DraftChange(by, account.Email, &admin, "") })
}

// PasswordMatches reports whether password is the account's. It hashes, so it
// waits for a hash slot, but it is not throttled: administrators call it. NotFound
// without such an account; Unavailable when ctx ends first.
func (s *Service) PasswordMatches(ctx context.Context, email string, password site.Secret) (bool, error) {
	account, err := s.find(email)
	if err != nil {
		return false, err
	}
	leave, err := s.hashing.enter(ctx, adminPath())
	if err != nil {
		return false, err
	}
	defer leave()
	_, matches := s.hashing.verify(account.Password, Params{}, password)
	return matches, nil
}

// AccountByEmail returns the account of that address without its hash; NotFound
// when there is none.
func (s *Service) AccountByEmail(email string) (site.Account, error) {
	account, err := s.find(email)
	return shown(account), err
}

// AccountByID returns the account with that id without its hash.
func (s *Service) AccountByID(id site.AccountID) (site.Account, bool) {
	account, ok := s.dir.byID(id)
	return shown(account), ok
}

// find returns the account of that address; NotFound also for a text that is none.
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

// HashPassword hashes a password for an account with that e-mail address, which need not
// exist. It waits for a slot to hash. Invalid for a password that [CheckPassword]
// refuses; Unavailable when ctx ends first.
func (s *Service) HashPassword(ctx context.Context, email site.Email, password site.Secret) (site.Secret, error) {
	if err := CheckPassword(email, password); err != nil {
		return "", err
	}
	leave, err := s.hashing.enter(ctx, adminPath())
	if err != nil {
		return "", err
	}
	defer leave()
	return s.hashing.hash(password), nil
}

// adminPath is where an administrator's change waits for a slot.
func adminPath() path {
	all := flow{lane: laneAdmin}
	return path{all, all, all, all}
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
