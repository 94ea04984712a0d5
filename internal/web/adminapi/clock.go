package adminapi

func (a *API) clock(*request) (any, error) { return a.Timekeeper.Clock(), nil }

func (a *API) acceptClock(r *request) (any, error) {
	if err := a.Timekeeper.AcceptClock(r.Context(), r.Actor); err != nil {
		return nil, err
	}
	return a.Timekeeper.Clock(), nil
}

func (a *API) resetClock(r *request) (any, error) {
	if err := a.Timekeeper.ResetClock(r.Context(), r.Actor); err != nil {
		return nil, err
	}
	return a.Timekeeper.Clock(), nil
}
