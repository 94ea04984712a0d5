package adminapi

import (
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

// Door is one of the two ways into the admin API.
type Door int

// The doors.
const (
	// Socket trusts the credentials of the peer. Its server must listen by [Listen]
	// and have [ConnContext] as its ConnContext; without them it admits no one.
	Socket Door = iota
	// Web wants the access token or the cookie of an administrator account, the latter as
	// [kit.Session] does.
	Web
)

// guard returns the guard of a door.
func (a *API) guard(door Door) kit.Guard {
	if door == Socket {
		return a.admitPeer
	}
	session := kit.Session(a.Gateway, a.Access.Authenticate, a.Access.AuthenticateCookie)
	return func(x *kit.Exchange) (site.Actor, error) {
		by, err := session(x)
		if err != nil {
			return refuse(x, "admin-token", err)
		}
		if !by.Admin {
			return refuse(x, "admin-account", fault.New(fault.Forbidden, "Forbidden: this account is not an administrator"))
		}
		by.Origin, by.Name = site.Admin, string(by.Email)
		return by, nil
	}
}

// admitPeer is the guard of the socket: it admits whom the credentials of the connection
// allow.
func (a *API) admitPeer(x *kit.Exchange) (site.Actor, error) {
	p := peerOf(x.Req.Context())
	if p == nil {
		return refuse(x, "no-credentials", fault.New(fault.Forbidden, "Forbidden: this connection carries no credentials"))
	}
	name, allowed := p()
	if !allowed {
		a.Logger.Warn("admin socket refused a peer", "peer", name)
		return refuse(x, "admin-peer", fault.New(fault.Forbidden,
			"Forbidden: only root, the user of the gateway and members of the socket's group may use it"))
	}
	return site.Actor{Origin: site.Admin, Admin: true, Name: name}, nil
}

// refuse counts why a caller was not admitted.
func refuse(x *kit.Exchange, reason string, err error) (site.Actor, error) {
	x.Refused(reason)
	return site.Actor{}, err
}
