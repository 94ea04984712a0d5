package link

import (
	"errors"
	"fmt"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

const (
	// Records of the link itself: at most recordBurst at once and one more per
	// recordEvery, so that a link that flaps fills no journal.
	recordBurst = 20
	recordEvery = 10 * time.Minute
	// longDown is after how long a link that is down is more than a notice.
	longDown = time.Hour
	// longUnacked is how long records may wait for an application while the link is up.
	longUnacked = time.Hour
)

// adviceHungUp is for a broker that ends the connection again and again.
const adviceHungUp = "Doors are not concerned. When it happens again and again: two gateways with one client_id end each other's " +
	"connection, as a board and a copy of its card do: set the copy up anew; the log of the broker names the other address"

// Status is the state of the link.
type Status struct {
	URL       string    // of the broker; empty without a cloud
	Connected bool      // now
	Since     time.Time // of Connected, or of its absence; zero before the first attempt
	Error     string    // why the last attempt or connection ended; empty while connected
	Advice    string    // what to do about it
	NextTry   time.Time // zero while connected or trying

	BrokerAcks bool      // whose acknowledgement counts
	Delivered  uint64    // the last seq that the cloud has taken
	Sent       uint64    // the last that was sent
	Waiting    uint64    // how many records are not delivered
	LastAck    time.Time // when something was last delivered; zero in this run: never
	Keys       []string  // the ids of the trusted keys
}

// Status returns the state of the link.
func (l *Link) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	status := l.status
	status.URL, status.BrokerAcks, status.Keys = l.settings.Broker.URL, l.settings.BrokerAcks, l.settings.Keys.IDs()
	status.Delivered, status.Sent = l.cursor.Load(), l.sent.Load()
	if latest := l.Journal.Latest(); status.URL != "" && latest > status.Delivered {
		status.Waiting = latest - status.Delivered
	}
	return status
}

// The texts while signed commands are refused because the clock is not trusted.
const (
	refusedByClock = refusesByClock + "; " + adviceClock
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
	l.status = Status{}
	l.mu.Unlock()
	for _, code := range []health.Code{health.CloudDown, health.CloudPlain, health.CloudUnacknowledged, health.CloudUnreadable, health.CloudIdentity, health.CloudClock} {
		l.Health.Clear(code)
	}
}

// up notes that the link is up.
func (l *Link) up(url string) {
	now := l.Clock.Now()
	l.mu.Lock()
	l.status.Connected, l.status.Since = true, now
	l.status.Error, l.status.Advice, l.status.NextTry = "", "", time.Time{}
	l.mu.Unlock()
	l.Health.Clear(health.CloudDown)
	summary := ""
	if plain(url) {
		summary = "The cloud's broker is spoken to in clear text: its password and the records of the doors can be read on the way"
	}
	l.judge(health.CloudPlain, summary, "Set url in [cloud] to tls://…, with the broker's TLS port")
	l.Metrics.Counter("gatehouse_cloud_connections_total").Inc()
	l.Logger.Info("cloud link up", "broker", url)
	l.record(site.KindCloudOnline, "")
}

// down notes that the link is down, and when the next attempt is made.
func (l *Link) down(err error, delay time.Duration) {
	if err == nil {
		err = errors.New("the connection ended")
	}
	reason, advice := err.Error(), "Doors are not concerned. See each step with: gatehouse cloud test"
	var dial *mqttclient.DialError
	if errors.As(err, &dial) && dial.Advice != "" {
		advice = dial.Advice
	}
	now := l.Clock.Now()
	l.mu.Lock()
	was := l.status.Connected
	if was && errors.Is(err, mqttclient.ErrHungUp) {
		advice = adviceHungUp
		l.identity.hungUp(time.Now())
	}
	if was || l.status.Since.IsZero() {
		l.status.Since = now
	}
	same := l.status.Error == reason
	l.status.Connected, l.status.Error, l.status.Advice, l.status.NextTry = false, reason, advice, time.Time{}
	if delay > 0 {
		l.status.NextTry = now.Add(delay)
	}
	since := l.status.Since
	l.mu.Unlock()
	severity := health.Notice
	if now.Sub(since) >= longDown {
		severity = health.Warning
	}
	l.Health.Clear(health.CloudUnreadable)
	l.Health.Raise(health.Condition{
		Code: health.CloudDown, Severity: severity,
		Summary: fmt.Sprintf("The cloud link is down, doors go on working: %s", reason), Advice: advice,
	})
	if !same || was {
		l.Logger.Warn("cloud link down", "error", err, "next", delay.Round(time.Second).String(), "advice", advice)
	}
	if was {
		l.record(site.KindCloudOffline, reason)
	}
}

// errReplaced ends a connection whose settings were replaced.
var errReplaced = errors.New("the settings of the cloud link have changed")

// replaced notes that a connection was ended for other settings.
func (l *Link) replaced() {
	if l.Status().Connected {
		l.down(errReplaced, 0)
	}
}

// record writes a record of the link itself, as far as allowed.
func (l *Link) record(kind site.Kind, detail string) {
	if !l.records.AllowN(time.Now(), 1) {
		l.skipped.Add(1)
		return
	}
	l.Journal.AppendLater(site.Record{Kind: kind, Facts: site.Facts{Detail: detail, Count: int(l.skipped.Swap(0))}})
}

// acknowledgedNow notes that the cloud has just acknowledged records.
func (l *Link) acknowledgedNow() {
	l.mu.Lock()
	l.status.LastAck = l.Clock.Now()
	l.mu.Unlock()
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
