package link_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// ackAll has the application acknowledge every record when it comes.
func (p *parts) ackAll() {
	p.set(func() {
		p.hear = func(m message) {
			if a, _ := api.ParseTopic(m.Topic); a.Leaf == api.JournalLeaf {
				var seq uint64
				_, _ = fmt.Sscanf(string(m.Payload), `{"seq":%d`, &seq)
				p.ack(seq)
			}
		}
	})
}

// Every record, in order, once: what was there before and what comes later.
func TestOutbox_order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(300)
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 50}, (*parts).ackAll)
		time.Sleep(5 * time.Second)
		h.add(1)
		synctest.Wait()
		h.add(7)
		time.Sleep(20 * time.Second)
		if got, want := p.seqs(api.JournalLeaf), span(1, 308); got != want {
			t.Errorf("got %s", got)
		}
		if p.Status().Delivered != 308 || p.Status().Waiting != 0 {
			t.Errorf("delivered %d, %+v", p.Status().Delivered, p.Status())
		}
		if cursor, _ := h.saved(); cursor != 308 {
			t.Errorf("kept %d", cursor)
		}
	})
}

// Without an application nothing counts as delivered, no more than the window is on its
// way, and that is sent again, ever more seldom; an application that comes asks for it.
func TestOutbox_noApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(20)
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 5})
		time.Sleep(4 * time.Second)
		if got := p.seqs(api.JournalLeaf); got != span(1, 5) {
			t.Errorf("at first %s", got)
		}
		time.Sleep(3 * time.Hour)
		all := p.on(api.JournalLeaf)
		if n := len(all) / 20; n < 15 || n > 30 { // soon all at once, whatever the window
			t.Errorf("sent %d times in 3 hours", n)
		}
		if p.Status().Delivered != 0 {
			t.Errorf("delivered %d", p.Status().Delivered)
		}
		if c := p.health.Conditions(); len(c) != 1 || c[0].Code != health.CloudUnacknowledged {
			t.Errorf("conditions %+v", c)
		}
		before := len(all)
		p.ack(0)
		synctest.Wait()
		if got := len(p.on(api.JournalLeaf)); got != before+20 {
			t.Errorf("asked, it sent %d", got-before)
		}
		p.ack(0) // at once again: no more
		synctest.Wait()
		if got := len(p.on(api.JournalLeaf)); got != before+20 {
			t.Errorf("asked twice, it sent %d", got-before)
		}
		p.ackAll()
		p.ack(5)
		time.Sleep(time.Minute)
		if p.Status().Delivered != 20 || len(p.health.Conditions()) != 0 {
			t.Errorf("delivered %d, conditions %+v", p.Status().Delivered, p.health.Conditions())
		}
	})
}

// After a connection was lost the link goes on behind what was acknowledged.
func TestOutbox_reconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(10)
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 10})
		synctest.Wait()
		p.ack(4)
		p.cut()
		time.Sleep(time.Minute)
		if got, want := p.seqs(api.JournalLeaf), span(1, 10)+" "+span(5, 10); !strings.HasPrefix(got, want) {
			t.Errorf("got %s", got)
		}
		p.ack(9) // of the first connection or the second: it was sent
		synctest.Wait()
		if p.Status().Delivered != 9 {
			t.Errorf("delivered %d", p.Status().Delivered)
		}
	})
}

// What was never sent cannot be acknowledged, and what is retained is no word of now.
func TestOutbox_wildAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(10)
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 3})
		synctest.Wait()
		p.tell(api.AckLeaf, `{"seq":2}`, true)
		for _, bad := range []string{"", "x", "{}", `{"seq":-1}`, `{"seq":"3"}`, `[]`, `{"seq":1e99}`} {
			p.tell(api.AckLeaf, bad, false)
		}
		synctest.Wait()
		if p.Status().Delivered != 0 {
			t.Errorf("delivered %d", p.Status().Delivered)
		}
		p.ack(1 << 60)
		synctest.Wait()
		if p.Status().Delivered != 3 || p.seqs(api.JournalLeaf) != span(1, 6) {
			t.Errorf("delivered %d after %s", p.Status().Delivered, p.seqs(api.JournalLeaf))
		}
	})
}

// Where the broker's acknowledgement counts, one that does not come does not count.
func TestOutbox_brokerAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(10)
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 4, BrokerAcks: true})
		synctest.Wait()
		if p.Status().Delivered != 10 {
			t.Errorf("delivered %d", p.Status().Delivered)
		}
		p.ack(1) // nobody asked
		p.set(func() { p.mute = true })
		h.add(10)
		synctest.Wait()
		if p.Status().Delivered != 10 || p.seqs(api.JournalLeaf) != span(1, 14) {
			t.Errorf("delivered %d after %s", p.Status().Delivered, p.seqs(api.JournalLeaf))
		}
		p.set(func() { p.mute = false })
		p.cut()
		time.Sleep(time.Minute)
		if p.Status().Delivered != 20 || p.seqs(api.JournalLeaf) != span(1, 14)+" "+span(11, 20) {
			t.Errorf("delivered %d after %s", p.Status().Delivered, p.seqs(api.JournalLeaf))
		}
	})
}

// A broker that takes everything and says nothing is left.
func TestOutbox_mute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(10)
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 4})
		synctest.Wait()
		p.set(func() { p.mute = true })
		p.ack(4)
		time.Sleep(2 * time.Minute)
		if len(p.attempts()) < 2 || !strings.Contains(p.Status().Error+p.log.String(), "does not acknowledge") {
			t.Errorf("%d dials, %+v", len(p.attempts()), p.Status())
		}
	})
}

// What is gone or damaged is named in its place.
func TestOutbox_gaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(30)
		h.set(func() {
			for _, gone := range []uint64{1, 2, 3, 10, 20, 21, 29, 30} {
				delete(h.bodies, gone)
			}
			h.bodies[15] = `{"seq":15,`
		})
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 5}, (*parts).ackAll)
		time.Sleep(time.Minute)
		want := "1-3 " + span(4, 9) + " 10-10 " + span(11, 14) + " 15-15 " + span(16, 19) + " 20-21 " + span(22, 28) + " 29-30"
		if got := p.seqs(api.JournalLeaf); got != want || p.Status().Delivered != 30 {
			t.Errorf("delivered %d after %s", p.Status().Delivered, got)
		}
	})
}

// A backlog goes up at its pace; what happens meanwhile goes up at once beside it, and
// in its turn.
func TestOutbox_pace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(1000)
		p := run(t, h, link.Settings{PerSecond: 20, Window: 100}, (*parts).ackAll)
		time.Sleep(10 * time.Second)
		if n := len(p.on(api.JournalLeaf)); n < 200 || n > 225 {
			t.Errorf("%d in 10 s", n)
		}
		if live := p.seqs(api.LiveLeaf); live != "" {
			t.Errorf("live: %s", live)
		}
		h.add(2)
		synctest.Wait()
		if live := p.seqs(api.LiveLeaf); live != "1001 1002" {
			t.Errorf("live: %s", live)
		}
		h.add(500) // more than there is room for on the lane
		time.Sleep(100 * time.Millisecond)
		if n := len(p.on(api.LiveLeaf)); n > 60 || n < 10 {
			t.Errorf("%d live records", n)
		}
		time.Sleep(2 * time.Minute)
		if got := p.seqs(api.JournalLeaf); got != span(1, 1502) {
			t.Errorf("got %s", got)
		}
		live := len(p.on(api.LiveLeaf))
		h.add(1)
		time.Sleep(time.Second)
		if len(p.on(api.LiveLeaf)) != live || p.Status().Delivered != 1503 {
			t.Errorf("delivered %d, a live record of what waits for nothing", p.Status().Delivered)
		}
	})
}

// A backlog goes in packs, at most ten a second, and none is lost of its pace.
func TestOutbox_packs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(2000)
		p := run(t, h, link.Settings{PerSecond: 100, Window: 100}, (*parts).ackAll)
		time.Sleep(11 * time.Second)
		packs := make(map[time.Duration]int)
		var first time.Time
		for _, m := range p.on(api.JournalLeaf) {
			if first.IsZero() {
				first = m.at
			}
			packs[m.at.Sub(first).Truncate(time.Millisecond)]++
		}
		records := 0
		for after, n := range packs {
			records += n
			if after > 0 && n > 11 {
				t.Errorf("%d records after %s", n, after)
			}
		}
		if len(packs) > 111 || records < 1190 || records > 1200 {
			t.Errorf("%d records in %d packs", records, len(packs))
		}
	})
}

// An application that acknowledges many records at once, every few seconds, is sent
// nothing twice for that.
func TestOutbox_slowApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(1000)
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 10})
		for range 40 {
			time.Sleep(8 * time.Second)
			p.ack(uint64(len(p.on(api.JournalLeaf))))
			synctest.Wait()
		}
		if n := len(p.on(api.JournalLeaf)); n > 40*10+40 {
			t.Errorf("%d records were sent for 400", n)
		}
	})
}

// A disk that cannot be read now is read later, without anything new.
func TestOutbox_diskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(10)
		h.set(func() { h.broken = true })
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 20}, (*parts).ackAll)
		time.Sleep(time.Minute)
		synctest.Wait()
		if p.seqs(api.JournalLeaf) != "" {
			t.Fatal("sent what could not be read")
		}
		if c := p.health.Conditions(); len(c) != 1 || c[0].Code != health.CloudUnreadable {
			t.Errorf("conditions %+v", c)
		}
		h.mu.Lock()
		h.broken = false
		h.mu.Unlock()
		time.Sleep(time.Minute)
		if got := p.seqs(api.JournalLeaf); got != span(1, 10) {
			t.Errorf("got %s", got)
		}
		if c := p.health.Conditions(); len(c) != 0 {
			t.Errorf("conditions %+v when all is well", c)
		}
	})
}

// The journal goes up at QoS 1, never retained; live records at QoS 0.
func TestOutbox_quality(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(5)
		p := run(t, h, link.Settings{PerSecond: 1, Window: 10})
		synctest.Wait()
		h.add(1)
		synctest.Wait()
		for _, m := range append(p.on(api.JournalLeaf), p.on(api.LiveLeaf)...) {
			want := mqttclient.Message{Topic: m.Topic, Payload: m.Payload, QoS: 1}
			if strings.HasSuffix(m.Topic, "live") {
				want.QoS = 0
			}
			if fmt.Sprint(m.Message) != fmt.Sprint(want) {
				t.Errorf("%+v", m.Message)
			}
		}
		if len(p.on(api.LiveLeaf)) != 1 {
			t.Error("no live record")
		}
	})
}

// An application that remembers more than this gateway ever sent, such as what was lost
// by a restore, acknowledges nothing of what is sent later.
func TestOutbox_ackOfAnotherJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 100})
		synctest.Wait()
		p.ack(5000)
		synctest.Wait()
		h.add(50)
		time.Sleep(time.Second)
		p.ack(0)
		synctest.Wait()
		if p.Status().Delivered != 0 {
			t.Errorf("delivered %d", p.Status().Delivered)
		}
		p.ack(3)
		synctest.Wait()
		if p.Status().Delivered != 3 {
			t.Errorf("delivered %d", p.Status().Delivered)
		}
	})
}

// A broker that is slow, and goes on, is not left.
func TestOutbox_slowBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(300)
		for id := range site.StationID(300) {
			h.stations[id+1] = site.StationState{ID: id + 1}
		}
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 100, BrokerAcks: true}, func(p *parts) { p.mute = true })
		for range 1300 {
			time.Sleep(500 * time.Millisecond)
			p.confirmOldest()
		}
		seen := make(map[string]bool)
		for _, m := range p.on(api.StateLeaf) {
			seen[m.Topic] = true
		}
		if len(p.attempts()) != 1 || p.Status().Delivered != 300 || len(seen) != 300 {
			t.Errorf("%d connections, held %d, %d states", len(p.attempts()), p.Status().Delivered, len(seen))
		}
	})
}

// What retention may remove is known to the disk as delivered: another run would count
// it as lost.
func TestLink_Held_isOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(100)
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 1000})
		time.Sleep(2 * time.Second)
		p.ack(100)
		for range 30 {
			synctest.Wait()
			if saved, _ := h.saved(); p.Held() > saved {
				t.Fatalf("retention may remove up to %d, the disk knows of %d", p.Held(), saved)
			}
			time.Sleep(time.Second)
		}
		if p.Held() != 100 {
			t.Errorf("held %d", p.Held())
		}
	})
}

// That no application acknowledges is said also of a link that never lasts an hour, counts
// the time without a connection for nothing, and is said until one does.
func TestOutbox_noApplicationOverReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(20)
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 5})
		said := func() bool {
			return slices.ContainsFunc(p.health.Conditions(), func(c health.Condition) bool { return c.Code == health.CloudUnacknowledged })
		}
		connected := time.Duration(0)
		for connected < 3*time.Hour && !said() { // at most that long: it may have come up meanwhile
			time.Sleep(3 * time.Second)
			if connected += 3 * time.Second; !p.Status().Connected {
				connected -= 3 * time.Second
				continue
			}
			p.cut()
			time.Sleep(10 * time.Second)
		}
		if !said() || connected < time.Hour {
			t.Errorf("said: %t, after %s", said(), connected)
		}
		p.ack(5)
		synctest.Wait()
		for !p.Status().Connected {
			time.Sleep(time.Second)
		}
		p.ack(10)
		time.Sleep(time.Second)
		if said() {
			t.Error("still said when an application has acknowledged")
		}
	})
}

// An acknowledgement of what was acknowledged before is answered with the status.
func TestOutbox_saysWhatIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(10)
		p := run(t, h, link.Settings{PerSecond: 1000, Window: 100})
		synctest.Wait()
		p.ack(7)
		time.Sleep(6 * time.Second)
		next := func() (all []string) {
			for _, m := range p.on(api.StatusLeaf) {
				_, after, _ := strings.Cut(string(m.Payload), `"journal":`)
				all = append(all, after)
			}
			return all
		}
		if got := next(); !slices.Equal(got, []string{`{"next":1}}`, `{"next":8,"hash":"hash-7"}}`}) {
			t.Errorf("moved: %v", got)
		}
		for range 100 {
			p.ack(7)
			p.ack(3)
		}
		time.Sleep(2 * time.Second)
		if got := next(); len(got) < 3 || len(got) > 4 || got[2] != `{"next":8,"hash":"hash-7"}}` {
			t.Errorf("asked: %v", got)
		}
	})
}

// An application that has more than this process knows of, and says nothing, is sent what
// is new to it in the end.
func TestOutbox_silentApplicationIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(400)
		p := run(t, h, link.Settings{PerSecond: 10_000, Window: 50})
		time.Sleep(3 * time.Minute)
		if !strings.Contains(p.seqs(api.JournalLeaf), "399 400") {
			t.Error("one window is sent for ever")
		}
	})
}

// An application that acknowledges only progress goes on after a kill, however much of a
// backlog it had acknowledged since the cursor was saved.
func TestOutbox_killInBacklog(t *testing.T) {
	for _, settings := range []link.Settings{{PerSecond: 100, Window: 100}, {PerSecond: 100, Window: 10}, {PerSecond: 1000, Window: 100}} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse()
			h.add(20_000)
			acknowledged := uint64(0)
			ackProgress := func(p *parts) {
				p.hear = func(m message) {
					var seq uint64
					if _, err := fmt.Sscanf(string(m.Payload), `{"seq":%d`, &seq); err == nil && seq == acknowledged+1 {
						acknowledged = seq
						p.ack(seq)
					}
				}
			}
			p := run(t, h, settings, ackProgress)
			time.Sleep(14*time.Second + 900*time.Millisecond)
			saved, _ := h.saved()
			p.stop()
			h.set(func() { h.cursor = saved }) // the kill came before the end
			before := acknowledged
			again := run(t, h, settings, ackProgress)
			time.Sleep(time.Hour)
			again.stop()
			if acknowledged <= before {
				t.Errorf("%+v: %d saved of %d acknowledged, and nothing after that", settings, saved, before)
			}
		})
	}
}

// A gap counts as one message: what comes after a long one is sent to an application that
// has acknowledged it already.
func TestOutbox_longGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.add(9000)
		h.set(func() {
			for seq := range uint64(8000) {
				delete(h.bodies, seq+1)
			}
		})
		p := run(t, h, link.Settings{PerSecond: 100, Window: 100})
		time.Sleep(5 * time.Second)
		if got := p.seqs(api.JournalLeaf); !strings.HasPrefix(got, "1-8000 8001 8002") {
			t.Errorf("got %s", got)
		}
	})
}
