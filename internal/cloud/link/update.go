package link

import (
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"gatehouse/internal/board/updates"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

const (
	// maxApartUpdates is maxApart of updates, which take no record from an unlock.
	maxApartUpdates = 8
	// Root is asked for so many updates at once, and then for one in updateEvery: each has
	// records, and costs a download.
	maxUpdatesAtOnce = 4
	updateEvery      = 5 * time.Minute
)

// Updates asks root for updates of the system; package updates satisfies it. Safe for
// concurrent use; nothing of it waits for root.
type Updates interface {
	// Status returns how updates stand, and Sentence the same as a text.
	Status() site.UpdateStatus
	Sentence() string
	// Request asks root for an update, after the record of that is durable. An error
	// without an id: nothing was done. Conflict where the system is no image, takes no update, or
	// has one or a request in progress; Forbidden where the order is no longer permitted.
	Request(by site.Actor, o updates.Order) (site.CommandID, error)
}

// updating is what commands keep for updates.
type updating struct {
	allowed  atomic.Bool // by the configuration
	pace     limit.Bucket
	refusals *limit.Digest[[2]string] // as those of commands
}

// pace bounds the updates that root is asked for.
func pace() limit.Rate { return limit.Rate{Burst: maxUpdatesAtOnce, Every: updateEvery} }

func (u *updating) wait() time.Duration { return u.pace.Wait(time.Now(), pace()) }
func (u *updating) take()               { u.pace.Take(time.Now(), pace()) }

// allowUpdates sets whether updates may be asked for from now on.
func (c *commands) allowUpdates(allowed bool) { c.updates.allowed.Store(allowed) }

// judgeUpdate is judge for an update.
func (c *commands) judgeUpdate(cmd api.Command) *refused {
	if !c.updates.allowed.Load() {
		return newRefused(cmd, api.UpdatesOff, "this gateway takes no updates from the cloud: from_cloud in [update] of its configuration is false")
	}
	if status := c.Updates.Status(); !status.Image {
		return newRefused(cmd, api.NotImage, strings.TrimSuffix(status.Advice, "."))
	}
	return nil
}

// update carries out an update whose id is claimed: it asks root. How the update ends is in
// the status and in the journal.
func (c inbox) update(cmd api.Command, key api.Key) {
	defer func() {
		if broken := recover(); broken != nil {
			c.Logger.Error("carrying out a cloud command broke down", "jti", cmd.ID, "panic", broken, "stack", string(debug.Stack()))
			c.end(cmd.ID, site.Unresolved, api.Result{})
		}
	}()
	answer, err := c.Unlocker.Once(cmd.ID, func() (unlock.Answer, bool, error) {
		order := updates.Order{URL: cmd.URL, SHA256: cmd.SHA256, JTI: cmd.ID}
		now, end := c.Clock.Now(), cmd.IssuedAt.Add(cmd.Window)
		if cmd.Window > 0 && now.Before(end) {
			order.At, order.Until = cmd.Moment(), end
			if order.At.Before(now) {
				order.At = now // written later, it has another moment
			}
		}
		order.Permitted = func() bool { return c.updates.allowed.Load() && c.ring.Load().Trusts(key) }
		id, err := c.Updates.Request(site.Actor{Origin: site.Cloud, Name: cmd.Actor, KeyID: cmd.KeyID}, order)
		return unlock.Answer{Command: id, Outcome: requested(err)}, id != "", err
	})
	switch {
	case err == nil:
		c.Logger.Info("cloud command carried out", "jti", cmd.ID, "key", cmd.KeyID, "actor", cmd.Actor, "command", answer.Command, "outcome", answer.Outcome)
		c.end(cmd.ID, answer.Outcome, api.Result{Command: answer.Command})
	case fault.Is(err, fault.Forbidden):
		c.forbid(cmd, answer, api.NotPermitted, "the key that signed it is no longer trusted, or updates from the cloud were switched off")
	case fault.Is(err, fault.Conflict):
		c.forbid(cmd, answer, api.Busy, fault.Sentence(err))
	case answer.Command != "":
		c.end(cmd.ID, answer.Outcome, api.Result{Command: answer.Command, Message: fault.Sentence(err)})
	default: // without a durable record; those of the refusal are kept
		c.Metrics.Refused("cloud-" + string(api.Busy))
		c.end(cmd.ID, site.Refused, api.Result{Reason: string(api.Busy), Message: fault.Sentence(err)})
	}
}

// requested is the outcome of a request to root.
func requested(err error) site.Outcome {
	switch {
	case err == nil:
		return site.Accepted
	case fault.Is(err, fault.Unavailable):
		return site.Failed
	default:
		return site.Refused
	}
}

// recordUpdate records a refused update, or as many as it counts.
func (c *commands) recordUpdate(facts site.Facts) {
	facts.Origin, facts.Outcome = site.Cloud, site.Refused
	c.Journal.AppendLater(site.Record{Kind: site.KindUpdate, Facts: facts})
}

// updateStatus returns how updates stand, for the status; nil where nothing is known.
func (l *Link) updateStatus() *api.StatusUpdate {
	s := &api.StatusUpdate{UpdateStatus: l.Updates.Status()}
	switch {
	case s.Image:
		s.Text = l.Updates.Sentence()
	case s.Advice == "":
		return nil
	}
	return s
}
