package stationlink_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

const byResult = `{"answers":"result"}`

// A station that answers by results opens a door only with a "done" within the deadline,
// whatever its library has acknowledged before.
func TestLink_Call_answersByResult(t *testing.T) {
	type station struct {
		*stationlink.Link
		t  *testing.T
		k  *conn
		id uint16
	}
	says := func(s station, word string) { results(s.Link, s.k, result(s.t, command, word)) }
	for name, c := range map[string]struct {
		before string // the report before the command
		answer func(s station)
		want   site.Outcome
		reset  bool
	}{
		"puback alone":        {byResult, func(s station) { s.Acknowledged(s.k, s.id, 0) }, site.Expired, false},
		"puback, done":        {byResult, func(s station) { s.Acknowledged(s.k, s.id, 0); says(s, "done") }, site.Done, false},
		"puback, refused":     {byResult, func(s station) { s.Acknowledged(s.k, s.id, 0); says(s, "refused") }, site.Refused, false},
		"puback, failed":      {byResult, func(s station) { s.Acknowledged(s.k, s.id, 0); says(s, "failed") }, site.Failed, false},
		"done, puback":        {byResult, func(s station) { says(s, "done"); s.Acknowledged(s.k, s.id, 0) }, site.Done, false},
		"refused, puback":     {byResult, func(s station) { says(s, "refused"); s.Acknowledged(s.k, s.id, 0) }, site.Refused, false},
		"a code that refuses": {byResult, func(s station) { s.Acknowledged(s.k, s.id, 0x83) }, site.Refused, false},
		"a code, then done":   {byResult, func(s station) { s.Acknowledged(s.k, s.id, 0x10); says(s, "done") }, site.Done, false},
		"silence":             {byResult, func(station) {}, site.Expired, true},
		"puback, lost":        {byResult, func(s station) { s.Acknowledged(s.k, s.id, 0); s.Disconnected(s.k, "lost") }, site.Expired, false},
		"done at the last moment": {byResult, func(s station) {
			s.Acknowledged(s.k, s.id, 0)
			<-time.After(5*time.Second - time.Millisecond)
			says(s, "done")
		}, site.Done, false},
		"done after it": {byResult, func(s station) {
			s.Acknowledged(s.k, s.id, 0)
			<-time.After(5 * time.Second)
			says(s, "done")
		}, site.Expired, false},
		"puback at the last moment": {byResult, func(s station) {
			<-time.After(5*time.Second - time.Millisecond)
			s.Acknowledged(s.k, s.id, 0)
		}, site.Expired, false},
		"stated while the command is under way": {`{}`, func(s station) {
			report(s.Link, s.k, []byte(byResult))
			s.Acknowledged(s.k, s.id, 0)
		}, site.Expired, false},
		"not stated again": {byResult, func(s station) {
			report(s.Link, s.k, []byte(`{"uptime":7}`))
			s.Acknowledged(s.k, s.id, 0)
		}, site.Expired, false},
		"another word": {`{"answers":"puback"}`, func(s station) { s.Acknowledged(s.k, s.id, 0) }, site.Acknowledged, false},
		"a wrong type": {`{"answers":["result"]}`, func(s station) { s.Acknowledged(s.k, s.id, 0) }, site.Acknowledged, false},
		"puback, then a connection that does not state it": {byResult, func(s station) {
			s.Acknowledged(s.k, s.id, 0)
			s.Disconnected(s.k, "lost")
			next := &conn{qos: 1, number: 2}
			connect(s.t, s.Link, next)
			report(s.Link, next, []byte(`{}`))
		}, site.Expired, false},
		"taken back": {byResult, func(s station) {
			report(s.Link, s.k, []byte(`{"answers":"puback"}`))
			s.Acknowledged(s.k, s.id, 0)
		}, site.Expired, false},
	} {
		for _, wantResult := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, _ := newLink(t)
					l.Follow(func(site.CommandID, site.StationID, site.LockID, site.Outcome) bool { return true })
					k := &conn{qos: 1}
					k.onSend = func(id uint16) { go c.answer(station{l, t, k, id}) }
					connect(t, l, k)
					report(l, k, []byte(c.before))
					if got := l.Call(cmd(5*time.Second), wantResult, at(yes, noop)); got != c.want {
						t.Errorf("outcome %s, want %s", got, c.want)
					}
					if _, reset := k.state(); (reset != "") != c.reset {
						t.Errorf("reset %q, want a reset: %v", reset, c.reset)
					}
					synctest.Wait()
				})
			})
		}
	}
}

// A station that answers by results does so over a restart of the gateway, until it reports again.
func TestLink_Call_answersOverARestart(t *testing.T) {
	for name, c := range map[string]struct {
		report string // to the gateway that has restarted
		want   site.Outcome
	}{
		"no report":        {"", site.Expired},
		"stated again":     {byResult, site.Expired},
		"not stated again": {`{}`, site.Acknowledged},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before, p := newLink(t)
				report(before, connect(t, before, &conn{qos: 1}), []byte(byResult))
				l := stationlink.New(p, &health.Registry{}, metric.New(), slog.New(slog.DiscardHandler))
				k := connect(t, l, &conn{qos: 1})
				if c.report != "" {
					report(l, k, []byte(c.report))
				}
				outcome := underWay(l, command, 2, false)
				l.Acknowledged(k, k.sent[0], 0)
				if got := <-outcome; got != c.want {
					t.Errorf("outcome %s, want %s", got, c.want)
				}
			})
		})
	}
}

// A result that cannot be read fails the command whose id it contains, so that its PUBACK is no
// success.
func TestLink_Call_resultThatCannotBeRead(t *testing.T) {
	const refused = `{"id":"` + string(command) + `","result":"refused"}`
	for name, c := range map[string]struct {
		payload string
		want    site.Outcome
	}{
		"trailing NUL":     {refused + "\x00", site.Failed},
		"byte order mark":  {"\ufeff" + refused, site.Failed},
		"truncated":        {refused[:len(refused)-1], site.Failed},
		"in a list":        {"[" + refused + "]", site.Failed},
		"single quotes":    {strings.ReplaceAll(refused, `"`, `'`), site.Failed},
		"space before id":  {strings.Replace(refused, `:"`, `:" `, 1), site.Failed},
		"braces":           {strings.Replace(refused, string(command), "{"+string(command)+"}", 1), site.Failed},
		"upper case":       {"[" + strings.ToUpper(refused) + "]", site.Failed},
		"id in a list":     {`{"id":["` + string(command) + `"],"result":"done"}`, site.Failed},
		"another's id":     {"[" + strings.Replace(refused, "1", "2", 1) + "]", site.Acknowledged},
		"nothing of an id": {"refused", site.Acknowledged},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := newLink(t)
				k := connect(t, l, &conn{qos: 1})
				outcome := underWay(l, command, 2, false)
				results(l, k, []byte(c.payload))
				l.Acknowledged(k, k.sent[0], 0)
				if got := <-outcome; got != c.want {
					t.Errorf("outcome %s, want %s", got, c.want)
				}
			})
		})
	}
}
