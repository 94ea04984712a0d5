package access

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"gatehouse/internal/site"
)

// GrantOf names a grant.
type GrantOf struct {
	Account site.AccountID
	Station site.StationID
}

// Hold locks these accounts, their sessions and these grants until release is called;
// amendments are drafted, stored and adopted in between. It first stores withdrawals
// that the store has not accepted yet. Unavailable when ctx ends before that is done,
// or the store rejects them. No other caller may hold two accounts at once.
func (s *Service) Hold(ctx context.Context, emails []site.Email, grants []GrantOf) (release func(), err error) {
	var held []func()
	release = func() {
		for _, give := range held {
			give()
		}
	}
	slices.Sort(emails) // always in the same order: no deadlock
	slices.SortFunc(grants, func(a, b GrantOf) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Station, b.Station))
	})
	for _, email := range slices.Compact(emails) {
		give, err := takeTurn(ctx, s.accountTurns, email)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, give)
	}
	for _, of := range slices.Compact(grants) {
		give, err := s.takeToGrant(ctx, pair{of.Account, of.Station})
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, give)
	}
	return release, nil
}

// HashPassword hashes a password for an account with that e-mail address, which need not
// exist. It waits for its turn to hash. Invalid for a password that [CheckPassword]
// refuses; Unavailable when ctx ends first.
func (s *Service) HashPassword(ctx context.Context, email site.Email, password site.Secret) (site.Secret, error) {
	return s.newHash(ctx, email, password)
}

// DraftAccount drafts a new account with that password hash.
func (s *Service) DraftAccount(by site.Actor, email site.Email, hash site.Secret, admin bool) site.Amendment {
	account := site.Account{
		ID: site.AccountID(uuid.NewString()), Email: email, Admin: admin, Password: hash, Created: site.At(s.clock.Now()).Time,
	}
	return site.Amendment{AddAccount: &account, Record: change(by, site.KindAccountAdded, account, roleOf(admin))}
}

// DraftChange drafts what is to be changed of an account that is held: its role, its
// password, or both; nil and "" leave them. NotFound when there is no such account.
func (s *Service) DraftChange(by site.Actor, email site.Email, admin *bool, hash site.Secret) (out []site.Amendment, err error) {
	account, ok := s.dir.byEmail(email)
	if !ok {
		return nil, errNoAccount
	}
	if admin != nil && *admin != account.Admin {
		account.Admin = *admin
		changed := account
		out = append(out, site.Amendment{UpdateAccount: &changed, Record: change(by, site.KindAccountChanged, account, roleOf(*admin))})
	}
	if hash != "" {
		account.Password = hash
		out = append(out, site.Amendment{UpdateAccount: &account, Record: change(by, site.KindAccountChanged, account, "password set")})
	}
	return out, nil
}

// DraftRemoval drafts the removal of an account that is held, with its sessions and
// grants. NotFound when there is none.
func (s *Service) DraftRemoval(by site.Actor, email site.Email) (site.Amendment, error) {
	account, ok := s.dir.byEmail(email)
	if !ok {
		return site.Amendment{}, errNoAccount
	}
	return site.Amendment{
		RemoveAccount: account.ID,
		Record:        change(by, site.KindAccountRemoved, account, "with its sessions and grants"),
	}, nil
}

// DraftGrant drafts a grant that replaces the account's grant for that station. The
// account itself may be a draft. Invalid as [Service.PutGrant].
func (s *Service) DraftGrant(by site.Actor, account site.Account, grant site.Grant) (site.Amendment, error) {
	grant.Account, grant.From, grant.Until = account.ID, site.At(grant.From).Time, site.At(grant.Until).Time
	if err := checkGrant(grant); err != nil {
		return site.Amendment{}, err
	}
	return site.Amendment{PutGrant: &grant, Record: s.grantRecord(by, account, grant)}, nil
}

// grantRecord returns the record of a grant that replaces the one before.
func (s *Service) grantRecord(by site.Actor, account site.Account, grant site.Grant) site.Record {
	rec := change(by, site.KindGranted, account, limits(grant))
	rec.Station = grant.Station
	if old, _, had := s.dir.grant(grant.Account, grant.Station); had {
		rec.Detail += "; before: " + limits(old)
	}
	return rec
}

// DraftWithdrawal drafts the end of a grant.
func (s *Service) DraftWithdrawal(by site.Actor, grant site.Grant) site.Amendment {
	account, _ := s.dir.byID(grant.Account)
	rec := change(by, site.KindUngranted, account, "")
	rec.Station = grant.Station
	return site.Amendment{RemoveGrant: &grant, Record: rec}
}

// Adopt applies stored amendments; a removed station's grants end.
func (s *Service) Adopt(amendments []site.Amendment) {
	for _, a := range amendments {
		switch {
		case a.AddAccount != nil:
			s.dir.addAccount(*a.AddAccount)
		case a.UpdateAccount != nil:
			s.dir.setAdmin(a.UpdateAccount.ID, a.UpdateAccount.Admin)
			if old, _ := s.dir.byID(a.UpdateAccount.ID); old.Password != a.UpdateAccount.Password {
				s.adoptPassword(*a.UpdateAccount)
			}
		case a.RemoveAccount != "":
			s.dir.removeAccount(a.RemoveAccount)
		case a.PutGrant != nil:
			s.dir.putGrant(*a.PutGrant)
		case a.RemoveGrant != nil:
			s.dir.dropGrant(pair{a.RemoveGrant.Account, a.RemoveGrant.Station})
		case a.RemoveStation != 0:
			s.dir.dropStation(a.RemoveStation)
		}
	}
}
