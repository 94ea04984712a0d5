package kit

import (
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Bearer returns a guard that admits whom verify finds behind the access token of the
// request. Whatever is wrong with the token, the answer is the same 401.
func Bearer(verify func(site.Secret) (site.Actor, error)) Guard {
	return func(x *Exchange) (site.Actor, error) {
		token, ok := x.Req.Token()
		if !ok {
			return site.Actor{}, errToken()
		}
		return verify(token)
	}
}

func errToken() error { return fault.New(fault.Unauthenticated, "Token is invalid") }

// Token returns the token of the Authorization header (RFC 6750, 2.1). A request with
// several such headers has none: which one counts would be a guess.
func (r *Request) Token() (site.Secret, bool) {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	token = strings.TrimLeft(token, " ")
	return site.Secret(token), token != ""
}

// HasAuthorization reports whether the request has an Authorization header of any kind.
func (r *Request) HasAuthorization() bool { return len(r.Header["Authorization"]) > 0 }
