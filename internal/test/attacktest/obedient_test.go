package attacktest_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// obedient is a station that follows the contract: it reports its uptime before it
// subscribes, opens on a command at once unless its own uptime is past notAfter, and
// refuses such a command before it acknowledges it. It connects again when it must.
type obedient struct {
	t     *testing.T
	login adminapi.MQTTLogin
	dial  func() (net.Conn, error)
	delay func() time.Duration // what a report seems to travel; nil: nothing
	rate  float64              // of its clock; 0: right

	mu      sync.Mutex // mu guards what follows
	started time.Time
	opened  map[string]time.Time // by command, when
	refused int
	bare    int // commands without notAfter
	twice   int // commands that came again
	lives   int // connections
	conn    net.Conn
	ended   bool
	done    chan struct{}
}

func newObedient(t *testing.T, login adminapi.MQTTLogin, dial func() (net.Conn, error)) *obedient {
	return &obedient{
		t: t, login: login, dial: dial, started: time.Now().Add(-time.Hour),
		opened: make(map[string]time.Time), done: make(chan struct{}),
	}
}

// run plays the station until stop.
func (o *obedient) run() {
	defer close(o.done)
	for o.live() { //nolint:revive // all of it is in live
	}
}

// stop ends the station and waits for it.
func (o *obedient) stop() {
	o.mu.Lock()
	o.ended = true
	conn := o.conn
	o.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
	<-o.done
}

// restart ends the connection, and the station counts its uptime from zero.
func (o *obedient) restart() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started = time.Now()
	_ = o.conn.Close()
}

// live is one connection; it reports whether there shall be another.
func (o *obedient) live() bool {
	conn, err := o.dial()
	o.mu.Lock()
	if o.ended || err != nil {
		o.mu.Unlock()
		if err == nil {
			_ = conn.Close()
		}
		return err != nil && !o.isEnded() // an attempt that failed
	}
	o.conn = conn
	o.mu.Unlock()
	defer func() { _ = conn.Close() }()
	s := &gatewaytest.Station{T: o.t, Conn: conn, Login: o.login, Version: 4}
	if s.TryConnect() != nil || o.report(s) != nil || s.TrySubscribe(1) != nil {
		return !o.isEnded()
	}
	o.mu.Lock()
	o.lives++
	o.mu.Unlock()
	for {
		c, err := s.NextCommand()
		if err != nil {
			return !o.isEnded()
		}
		o.obey(s, c)
	}
}

func (o *obedient) isEnded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// uptime is the station's own clock, in milliseconds; mu is held.
func (o *obedient) uptime() int64 {
	age := float64(time.Since(o.started)) // real time: the clock by which the station obeys a deadline
	if o.rate != 0 {
		age *= o.rate
	}
	return int64(age / float64(time.Millisecond))
}

func (o *obedient) report(s *gatewaytest.Station) error {
	o.mu.Lock()
	uptime := o.uptime()
	o.mu.Unlock()
	if o.delay != nil {
		uptime = max(uptime-o.delay().Milliseconds(), 0)
	}
	return s.TryPublish("report", fmt.Appendf(nil, `{"uptime":%d}`, uptime))
}

func (o *obedient) obey(s *gatewaytest.Station, c gatewaytest.Command) {
	o.mu.Lock()
	_, again := o.opened[c.ID]
	past := c.NotAfter != 0 && o.uptime() > c.NotAfter
	switch {
	case c.NotAfter == 0:
		o.bare++
	case again:
		o.twice++
	case past:
		o.refused++
	}
	if !past {
		o.opened[c.ID] = time.Now()
	}
	o.mu.Unlock()
	if past {
		_ = s.TryPublish("result", fmt.Appendf(nil, `{"id":%q,"result":"refused"}`, c.ID))
	}
	_ = s.TryAck(c)
}

// connections counts those on which the station subscribed.
func (o *obedient) connections() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lives
}

// lastOpening is when the station opened last; zero: never.
func (o *obedient) lastOpening() (last time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, at := range o.opened {
		if at.After(last) {
			last = at
		}
	}
	return last
}
