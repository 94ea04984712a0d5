package adminapi

import (
	"gatehouse/internal/site"
)

func (a *API) tokens(*request) (any, error) {
	tokens := []Token{}
	for _, t := range a.Access.Tokens().Tokens() {
		tokens = append(tokens, tokenOf(t))
	}
	return map[string][]Token{"tokens": tokens}, nil
}

func tokenOf(t site.Token) Token {
	return Token{
		TokenID: t.ID, Name: t.Name, Scopes: t.Scope,
		Created: site.At(t.Created), Until: site.At(t.Until), LastUsed: site.At(t.Used),
	}
}

func (a *API) addToken(r *request, in NewToken) (any, error) {
	for _, id := range in.Scopes.Unlock {
		if _, ok := a.Stations.Station(id); !ok {
			return nil, errNotEnrolled(id)
		}
	}
	added, text, err := a.Access.Tokens().Add(r.Context(), r.Actor, in.Name, in.Scopes, in.Until.Time)
	return IssuedToken{Token: tokenOf(added), Text: text.Reveal()}, err
}

func (a *API) removeToken(r *request) (any, error) {
	return nil, a.Access.Tokens().Remove(r.Context(), r.Actor, r.PathValue("name"))
}
