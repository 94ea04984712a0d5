package httpapi

import (
	"context"
	"net/http"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// setupTimeout is how long creating the first account may take, also when the client
// has disconnected: it would not know whether there is an account.
const setupTimeout = 15 * time.Second

// maySetUp is the guard of the setup. Once there is an account, it is as if there was no
// such path.
func (a *API) maySetUp(x *kit.Exchange) (site.Actor, error) {
	if !a.setupOpen() {
		return site.Actor{}, kit.NotFound()
	}
	return kit.FromPage(x)
}

// setupOpen reports whether the first account can be created.
func (a *API) setupOpen() bool { return a.Setup != nil && a.Setup.Open() }

// setupState is what a console has to know before anyone can sign in.
type setupState struct {
	Open bool   `json:"open"` // whether the first account can be created
	Name string `json:"name"` // of the gateway on the network
}

// showSetup reports whether there is something to set up.
func (a *API) showSetup(x *kit.Exchange) error {
	return x.Encode(http.StatusOK, setupState{a.setupOpen(), a.Name})
}

// setUp creates the first administrator.
func (a *API) setUp(x *kit.Exchange) error {
	given, err := x.Req.Need("code", "email", "password")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.Req.Context()), setupTimeout)
	defer cancel()
	remote := x.Req.Remote()
	account, err := kit.Await(ctx, func(ctx context.Context) (site.Account, error) {
		return a.Setup.Begin(ctx, remote, site.Secret(given[0]), given[1], site.Secret(given[2]))
	})
	if err != nil {
		return err
	}
	return x.Encode(http.StatusCreated, firstAccount{account.ID, account.Email})
}

// firstAccount is the answer to the setup.
type firstAccount struct {
	AccountID site.AccountID `json:"accountId"`
	Email     site.Email     `json:"email"`
}
