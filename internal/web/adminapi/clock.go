package adminapi

func (a *API) clock(*request) (any, error) { return a.Timekeeper.Clock(), nil }

func (a *API) acceptClock(r *request) (any, error) {
	err := a.Timekeeper.AcceptClock(r.Context(), r.Actor)
	return a.Timekeeper.Clock(), err
}

func (a *API) resetClock(r *request) (any, error) {
	err := a.Timekeeper.ResetClock(r.Context(), r.Actor)
	return a.Timekeeper.Clock(), err
}
