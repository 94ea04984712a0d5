package unlock

import (
	"context"
	"time"

	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// departure implements [Departure] for one request.
type departure struct {
	service *Service
	ctx     context.Context //nolint:containedctx // of the client, which may go before the command leaves
	request Request
	command site.CommandID
	detail  string // why it was not sent, where the outcome does not say it
	left    bool   // it was sent
}

// MayLeave asks again what was asked before: the record and a slot may have taken seconds
// to get, and a revocation meanwhile takes effect. Whether the client is still connected
// is checked last.
func (d *departure) MayLeave() bool {
	if !d.service.mayOpen(d.request) || !d.service.Permissions.Lives(d.request.Actor) || d.request.MayLeave != nil && !d.request.MayLeave() {
		return false
	}
	waits := d.ctx.Err() == nil && (d.request.Client == nil || d.request.Client.Waiting())
	if !waits && d.request.Actor.Origin != site.Cloud {
		d.detail = detailGone
		return false
	}
	d.service.Doors.Releasing(d.request.Station, d.request.Lock, d.command)
	return true
}

// NotSubscribed implements [Departure].
func (d *departure) NotSubscribed() { d.detail = detailNotSubscribed }

// Lost implements [Departure].
func (d *departure) Lost() { d.request.stay.end() }

// Left implements [Departure].
func (d *departure) Left() {
	d.left = true
	d.service.Metrics.Leg(metric.Sent).Observe(time.Since(d.request.Accepted))
}
