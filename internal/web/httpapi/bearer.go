package httpapi

import (
	"net/http"
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// authenticate sets the actor whom verify finds behind the access token of the
// request, or answers 401 and gives false. Whatever is wrong with the token, the
// answer is the same.
func (x *exchange) authenticate(verify func(site.Secret) (site.Actor, error)) bool {
	token, ok := bearerToken(x.r.Header)
	if ok {
		actor, err := verify(token)
		if err == nil {
			x.actor = actor
			return true
		}
		if !fault.Is(err, fault.Unauthenticated) {
			x.fail(err)
			return false
		}
	}
	x.fail(errToken())
	return false
}

func errToken() error { return fault.New(fault.Unauthenticated, "Token is invalid") }

// bearerToken takes the token out of the Authorization header (RFC 6750, 2.1). A
// request with several is refused: which one counts would be a guess.
func bearerToken(h http.Header) (site.Secret, bool) {
	values := h["Authorization"]
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
