package adminapi

func (a *API) tokens(*request) (any, error) {
	return map[string][]Token{"tokens": a.Access.Tokens().Tokens()}, nil
}

func (a *API) addToken(r *request, in NewToken) (any, error) {
	for _, id := range in.Scopes.Unlock {
		if _, ok := a.Stations.Station(id); !ok {
			return nil, errNotEnrolled(id)
		}
	}
	added, text, err := a.Access.Tokens().Add(r.Context(), r.Actor, in.Name, in.Scopes, in.Until.Time)
	return IssuedToken{Token: added, Text: text.Reveal()}, err
}

func (a *API) removeToken(r *request) (any, error) {
	return nil, a.Access.Tokens().Remove(r.Context(), r.Actor, r.PathValue("name"))
}
