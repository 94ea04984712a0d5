package access

import (
	"slices"

	"github.com/google/uuid"

	"gatehouse/internal/site"
)

// DraftAccount drafts a new account with that password hash.
func (s *Service) DraftAccount(by site.Actor, email site.Email, hash site.Secret, admin bool) site.Amendment {
	account := site.Account{
		ID: site.AccountID(uuid.NewString()), Email: email, Admin: admin, Password: hash, Created: site.At(s.clock.Now()),
	}
	return site.Amendment{AddAccount: &account, Record: change(by, site.KindAccountAdded, account, roleOf(admin))}
}

// DraftChange drafts what is to be changed of an account: its role, its
// password, or both; nil and "" leave them. NotFound when there is no such account.
func (s *Service) DraftChange(by site.Actor, email site.Email, admin *bool, hash site.Secret) (out []site.Amendment, err error) {
	account, ok := s.dir.byEmail(email)
	if !ok {
		return nil, errNoAccount
	}
	if admin != nil && *admin != account.Admin {
		account.Admin = *admin
		changed := account
		changed.Password = "" // another one may be stored before this
		out = append(out, site.Amendment{UpdateAccount: &changed, Record: change(by, site.KindAccountChanged, account, roleOf(*admin))})
	}
	if hash != "" {
		account.Password = hash
		out = append(out, site.Amendment{UpdateAccount: &account, Record: change(by, site.KindAccountChanged, account, "password set")})
	}
	return out, nil
}

// DraftRemoval drafts the removal of an account with its sessions and
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

// DraftGrant drafts a grant that replaces the one of the same key; none where that has the
// same terms. account is whom it is for, none for a group. Account and groups may be drafts.
// Invalid as [Service.PutGrant].
func (s *Service) DraftGrant(by site.Actor, account site.Account, grant site.Grant) ([]site.Amendment, error) {
	grant.Account = account.ID
	if err := checkGrant(grant); err != nil {
		return nil, err
	}
	if old, had := s.dir.rules().grants[grant.Key()]; had && old.Equal(grant.Terms) {
		return nil, nil
	}
	return []site.Amendment{{PutGrant: &grant, Record: s.grantRecord(by, account, grant)}}, nil
}

// DraftNarrowing drafts that a grant which is there holds within other terms at most; none where
// it does. account is as for [Service.DraftGrant].
func (s *Service) DraftNarrowing(by site.Actor, account site.Account, grant site.Grant) []site.Amendment {
	old, had := s.dir.rules().grants[grant.Key()]
	if !had || old.Within(grant.Terms) {
		return nil
	}
	narrowed := grant
	narrowed.Terms = old.Meet(grant.Terms)
	return []site.Amendment{{NarrowGrant: &grant, Record: s.grantRecord(by, account, narrowed)}}
}

// grantRecord is the record of a grant that replaces the one of the same key.
func (s *Service) grantRecord(by site.Actor, account site.Account, grant site.Grant) site.Record {
	detail := groupsText(grant.Key(), ": ") + limits(grant.Terms)
	if old, had := s.dir.rules().grants[grant.Key()]; had {
		detail += "; before: " + limits(old.Terms)
	}
	rec := change(by, site.KindGranted, account, detail)
	rec.Station = grant.Station
	return rec
}

// DraftWithdrawal drafts the end of a grant.
func (s *Service) DraftWithdrawal(by site.Actor, key site.GrantKey) site.Amendment {
	account, _ := s.dir.byID(key.Account)
	rec := change(by, site.KindUngranted, account, groupsText(key, ""))
	rec.Station = key.Station
	return site.Amendment{RemoveGrant: &key, Record: rec}
}

// groupsText words the groups of a grant for the journal, followed by end; "" where there
// is none.
func groupsText(k site.GrantKey, end string) string {
	switch {
	case k.AccountGroup != "" && k.StationGroup != "":
		return "group " + string(k.AccountGroup) + ", stations of " + string(k.StationGroup) + end
	case k.AccountGroup != "":
		return "group " + string(k.AccountGroup) + end
	case k.StationGroup != "":
		return "stations of " + string(k.StationGroup) + end
	}
	return ""
}

// applyStored applies stored amendments.
func (s *Service) applyStored(amendments []site.Amendment) {
	for _, a := range amendments {
		switch {
		case a.AddAccount != nil:
			s.dir.addAccount(*a.AddAccount)
		case a.UpdateAccount != nil:
			if s.dir.updateAccount(*a.UpdateAccount) {
				s.attempts.clear(s.hashing.accountKey(string(a.UpdateAccount.Email)))
			}
		case a.DropPassword != "":
			s.dir.dropPassword(a.DropPassword)
		case a.RemoveAccount != "":
			s.dir.removeAccount(a.RemoveAccount)
		case len(a.EndSessions) > 0:
			s.dir.forgetAll(a.EndSessions)
			s.log.Info("sessions ended", "account", a.Record.Account, "count", len(a.EndSessions))
		}
	}
	stored := s.dir.stored.with(amendments) // which no other call replaces meanwhile
	s.dir.mu.Lock()
	defer s.dir.mu.Unlock()
	s.dir.stored = stored
}

// applyPending applies pending amendments to the stored rules, which makes the wanted ones, and
// ends the accounts, roles and sessions that these amendments end.
func (s *Service) applyPending(pending []site.Amendment) {
	for _, p := range pending {
		s.dir.removeAccount(p.RemoveAccount)
	}
	wanted := s.dir.stored.with(pending)
	s.dir.mu.Lock()
	defer s.dir.mu.Unlock()
	s.dir.wanted = wanted
	for _, p := range pending {
		for _, id := range p.EndSessions {
			if session := s.dir.sessions[id]; session != nil {
				session.ended = true
			}
		}
	}
	for id, a := range s.dir.accounts {
		a.demoted = slices.ContainsFunc(pending, func(p site.Amendment) bool {
			return p.UpdateAccount != nil && p.UpdateAccount.ID == id && !p.UpdateAccount.Admin
		})
		a.dropped = slices.ContainsFunc(pending, func(p site.Amendment) bool { return p.DropPassword == id })
	}
}
