package adminapi

func (a *API) apply(r *request, in ApplyRequest) (any, error) {
	return a.Provisioner.Apply(r.Context(), r.Actor, in.Site, in.Options)
}
