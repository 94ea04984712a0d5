package httpapi

import (
	"context"
	"net/http"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/deadline"
)

// setupTimeout is how long making the first account may take, also when the client
// has gone meanwhile: it would not know whether there is an account.
const setupTimeout = 15 * time.Second

// setUp makes the first administrator. Once there is an account, nothing tells that
// this was ever here.
func (a *API) setUp(x *exchange) {
	if a.setup == nil || !a.setup.Open() {
		x.refuse(http.StatusNotFound, "Not found")
		return
	}
	if !x.tls && !remoteAddr(x.r).IsLoopback() {
		x.fail(fault.New(fault.Forbidden, "The password would cross the network in clear text: use https, or the gateway's own machine"))
		return
	}
	var values [3]string
	f, _, err := x.readFields()
	for i, name := range []string{"code", "email", "password"} {
		if err == nil {
			values[i], err = f.need(name)
		}
	}
	if err != nil {
		x.fail(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), setupTimeout)
	defer cancel()
	remote := remoteAddr(x.r)
	account, err := deadline.Await(ctx, func(ctx context.Context) (site.Account, error) {
		return a.setup.Begin(ctx, remote, site.Secret(values[0]), values[1], site.Secret(values[2]))
	})
	if err != nil {
		x.fail(err)
		return
	}
	x.buf = append(x.buf[:0], `{"accountId":`...)
	x.buf = appendText(x.buf, string(account.ID))
	x.buf = append(x.buf, `,"email":`...)
	x.buf = appendText(x.buf, string(account.Email))
	x.buf = append(x.buf, '}')
	x.json(http.StatusCreated, x.buf)
}
