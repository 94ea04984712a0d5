package adminapi

import "gatehouse/internal/web/kit"

func (a *API) apply(r *request) (any, error) {
	in, err := kit.Decode[ApplyRequest](&r.Request)
	if err != nil {
		return nil, err
	}
	return a.Provisioner.Apply(r.Context(), r.Actor, in.Site, in.Options)
}
