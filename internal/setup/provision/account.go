package provision

import (
	"context"

	"gatehouse/internal/access"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

// credential is the password that an account is to have.
type credential struct {
	hash      site.Secret // "": it keeps the one that it has
	generated site.Secret // "": the site states it
}

// hash hashes the passwords that change, before anything is held: it takes long, so it ends
// when the administrator is no longer one.
func (w *plan) hash(ctx context.Context) (map[site.Email]credential, error) {
	hashes := make(map[site.Email]credential, len(w.site.Accounts))
	for _, a := range w.site.Accounts {
		c, err := w.credential(ctx, a)
		if err == nil {
			err = w.changes.Check(w.by)
		}
		if err != nil {
			return nil, err
		}
		hashes[a.Email] = c
	}
	return hashes, nil
}

func (w *plan) credential(ctx context.Context, a sitefile.Account) (c credential, err error) {
	password := a.Password
	if _, there := w.accountByEmail[a.Email]; there {
		if password == "" {
			return c, nil
		}
		if matches, err := w.accounts.PasswordMatches(ctx, string(a.Email), password); err != nil || matches {
			return c, err
		}
	} else if password == "" {
		c.generated = access.GeneratePassword()
		password = c.generated
	}
	c.hash, err = w.accounts.HashPassword(ctx, a.Email, password)
	return c, err
}

func (w *plan) putAccounts(hashes map[site.Email]credential) error {
	for _, a := range w.site.Accounts {
		put := w.changeAccount
		if _, there := w.accountByEmail[a.Email]; !there {
			put = w.addAccount
		}
		if err := put(a, hashes[a.Email]); err != nil {
			return err
		}
	}
	return nil
}

func (w *plan) addAccount(a sitefile.Account, c credential) error {
	if c.hash == "" {
		return errChanged
	}
	drafted := w.accounts.DraftAccount(w.by, a.Email, c.hash, a.Admin != nil && *a.Admin)
	added := *drafted.AddAccount
	w.accountByEmail[a.Email], w.accountByID[added.ID] = added, added
	w.result.Accounts = append(w.result.Accounts, sitefile.IssuedAccount{AccountID: added.ID, Email: a.Email, Password: c.generated.Reveal()})
	return w.add(nil, drafted)
}

func (w *plan) changeAccount(a sitefile.Account, c credential) error {
	if c.generated != "" { // it was added meanwhile, with another password
		c.hash = ""
	}
	drafted, err := w.accounts.DraftChange(w.by, a.Email, a.Admin, c.hash)
	return w.add(err, drafted...)
}
