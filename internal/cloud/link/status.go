package link

import (
	"cmp"
	"errors"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// longUnacked is how long records may wait for an application while the link is up.
const longUnacked = time.Hour

// Status returns the state of the link.
func (l *Link) Status() site.CloudStatus {
	latest := l.Journal.Latest() // without the lock: retention asks Held
	l.mu.Lock()
	defer l.mu.Unlock()
	status := l.status
	status.URL, status.Keys, status.Acknowledgement = l.settings.Broker.URL, append([]string{}, l.settings.Keys.IDs()...), "application"
	if l.settings.BrokerAcks {
		status.Acknowledgement = "broker"
	}
	status.Delivered = l.cursor.Load()
	if status.URL != "" && latest > status.Delivered {
		status.Waiting = latest - status.Delivered
	}
	return status
}

// The texts while signed commands are refused because the clock is not trusted.
const (
	refusedByClock = refusesByClock + ". " + adviceClock
	refusesByClock = "Commands from the cloud are refused: the gateway's clock is not trusted"
	adviceClock    = "Give this machine a time server that it can reach; where there is none, compare its date with a watch and run: gatehouse clock accept"
)

// judgeClock warns while every signed command is refused, because the clock is not trusted.
func (l *Link) judgeClock() {
	l.mu.Lock()
	expected := l.settings.Enabled() && l.settings.Keys.Len() > 0
	l.mu.Unlock()
	summary := ""
	if expected && !l.Clock.Trusted() {
		summary = refusesByClock
	}
	l.judge(health.CloudClock, summary, adviceClock)
}

// judge raises a warning, or clears it where the summary is "".
func (l *Link) judge(code health.Code, summary, advice string) {
	if summary == "" {
		l.Health.Clear(code)
		return
	}
	l.Health.Raise(health.Condition{Code: code, Severity: health.Warning, Summary: summary, Advice: advice})
}

// none notes that there is no cloud.
func (l *Link) none() {
	l.mu.Lock()
	l.status = site.CloudStatus{}
	l.mu.Unlock()
	for _, code := range []health.Code{health.CloudDown, health.CloudPlain, health.CloudUnacknowledged, health.CloudUnreadable, health.CloudIdentity, health.CloudClock} {
		l.Health.Clear(code)
	}
}

// judgePlain warns before a login over a connection that anyone on the way can read.
func (l *Link) judgePlain(authenticated bool) {
	summary := ""
	if !authenticated {
		summary = "The connection to the cloud's broker is not encrypted: its password and the records of the doors can be read on the way"
	}
	l.judge(health.CloudPlain, summary, "Set url in [cloud] to tls://…, with the broker's TLS port")
}

// up notes that the link is up.
func (l *Link) up(url string) {
	l.mu.Lock()
	l.status = site.CloudStatus{Connected: true, Since: site.At(l.Clock.Now()), LastDelivery: l.status.LastDelivery}
	l.mu.Unlock()
	l.Health.Clear(health.CloudDown)
	if !l.flaps {
		l.Logger.Info("cloud link up", "broker", url)
	}
	l.Journal.AppendLater(site.Record{Kind: site.KindCloudOnline})
}

// errReplaced ends a connection whose settings were replaced.
var errReplaced = errors.New("the settings of the cloud link have changed")

// down notes that the link is down, and when the next attempt is made.
func (l *Link) down(loss mqttclient.Loss) {
	l.flaps = loss.Flaps
	reason, advice := loss.Err.Error(), cmp.Or(loss.Advice, "Doors are not affected. See each step with: gatehouse cloud test")
	now := l.Clock.Now()
	l.mu.Lock()
	before := l.status
	if before.Connected && errors.Is(loss.Err, mqttclient.ErrHungUp) {
		advice = adviceIdentity
		l.identity.hungUp(time.Now())
	}
	l.status = site.CloudStatus{Since: before.Since, Error: reason, Advice: advice, LastDelivery: before.LastDelivery}
	if before.Connected || before.Since.IsZero() {
		l.status.Since = site.At(now)
	}
	if loss.Wait > 0 {
		l.status.NextTry = site.At(now.Add(loss.Wait))
	}
	l.mu.Unlock()
	l.Health.Clear(health.CloudUnreadable)
	l.Health.Raise(health.Condition{
		Code: health.CloudDown, Severity: health.Notice,
		Summary: "The cloud link is down, doors go on working: " + reason, Advice: advice,
	})
	if loss.New {
		l.Logger.Warn("cloud link down", "error", loss.Err, "next", loss.Wait.Round(time.Second).String(), "advice", advice)
	}
	if before.Connected {
		l.Journal.AppendLater(site.Record{Kind: site.KindCloudOffline, Facts: site.Facts{Detail: reason}})
	}
}

// judgeWaiting warns while records wait and no application acknowledges them. The warning
// lasts until one does, also while there is no connection.
func (s *session) judgeWaiting(progress time.Time, waiting bool) {
	summary := ""
	if waiting && time.Since(progress) >= longUnacked {
		summary = "No application has acknowledged a record in an hour with the cloud link up; records wait"
	}
	s.judge(health.CloudUnacknowledged, summary, "See that the application runs and publishes to the topic ack; where there is none, set ack = \"broker\" in [cloud]")
}
