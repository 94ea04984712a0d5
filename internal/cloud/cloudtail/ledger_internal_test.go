package cloudtail

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
)

const gatewayID = site.GatewayID("6f1c7a3e-0000-4000-8000-000000000001")

// book is a ledger with what it said.
type book struct {
	*ledger
	said []string
	now  time.Time
}

func newBook(asking bool) *book {
	b := &book{now: time.Unix(0, 0)}
	b.ledger = newLedger(gatewayID, asking, b.note)
	return b
}

func (b *book) note(e Event) {
	switch e.Kind {
	case Record, Live:
		b.said = append(b.said, fmt.Sprintf("%s %d%s", e.Kind, e.Record.Seq, e.Record.Boot))
	case Restored:
		b.said = append(b.said, fmt.Sprintf("%s %d", e.Kind, e.From))
	default:
		b.said = append(b.said, fmt.Sprintf("%s %d-%d", e.Kind, e.From, e.To))
	}
}

// record is what a gateway sends.
func record(seq uint64, boot site.BootID) []byte {
	return api.Encode(site.Record{Seq: seq, Boot: boot, Kind: site.KindLogin})
}

// take has words such as "3a" (record 3 of start a) and "4-6" (a gap) come in.
func (b *book) take(words ...string) {
	for _, word := range words {
		var from, to uint64
		var payload []byte
		if n, _ := fmt.Sscanf(word, "%d-%d", &from, &to); n == 2 {
			payload = api.Encode(api.NewGap(from, to))
		} else {
			_, _ = fmt.Sscanf(word, "%d", &from)
			payload = record(from, site.BootID(strings.TrimLeft(word, "0123456789")))
		}
		it, err := parseItem(payload)
		if err != nil {
			panic(err)
		}
		b.receive(b.now, it)
	}
}

// pass lets time pass.
func (b *book) pass(d time.Duration) {
	for end := b.now.Add(d); b.now.Before(end); {
		b.now = b.now.Add(tickEvery)
		b.tick(b.now)
	}
}

// expect compares what was said since the last call.
func (b *book) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(b.said, want) {
		t.Errorf("said %q, want %q", b.said, want)
	}
	b.said = nil
}

func (b *book) expectAck(t *testing.T, want uint64) {
	t.Helper()
	if seq, ok := b.acknowledge(); seq != want || ok != (want > 0) {
		t.Errorf("acknowledges %d, %t; want %d", seq, ok, want)
	}
}

func TestLedger_order(t *testing.T) {
	b := newBook(true)
	b.take("1a", "2a", "4a", "3a", "2a", "5b", "6b")
	b.expect(t, "record 1a", "record 2a", "record 3a", "record 4a")
	b.expectAck(t, 4)
	b.pass(3 * time.Second) // another start is not believed at once
	b.expect(t)
	b.take("5b", "6b")
	b.pass(2 * time.Second)
	b.expect(t, "record 5b", "record 6b")
	b.expectAck(t, 6)
	b.take("7b", "9a")
	b.connected(b.now.Add(time.Minute)) // what is held is of another time
	b.said = nil
	b.take("8c")
	b.expect(t)
	b.pass(2 * time.Second)
	b.expect(t, "record 8c")
	b.expectAck(t, 8)
	b.take("4a", "3a")
	b.expect(t)
	b.expectAck(t, 4) // what came again, and no further
	b.expectAck(t, 0)
}

func TestLedger_gapOfTheGateway(t *testing.T) {
	b := newBook(true)
	b.take("1-500", "501a", "502-502", "503a", "1-500", "502-502")
	b.expect(t, "gap 1-500", "record 501a", "gap 502-502", "record 503a")
	b.expectAck(t, 503)
	b.take("500-510") // it grew while it was on its way
	b.expect(t, "gap 504-510")
	b.expectAck(t, 510)
	b.take("501a", "503a", "511a")
	b.expect(t, "record 511a")
	b.take("505a") // overtaken by the gap, and never again
	b.pass(time.Minute)
	b.take("512a")
	b.pass(time.Minute)
	b.expect(t, "record 512a")
	b.expectAck(t, 512)
}

// A gap that is not the gateway's own, however far it reaches, does not silence it, and
// what came of it is not acknowledged.
func TestLedger_forgedGap(t *testing.T) {
	for name, forged := range map[string]string{"at first": "1-9223372036854775807", "later": "1-3 4a 5a 2-9223372036854775807"} {
		b := newBook(true)
		b.take(strings.Fields(forged)...)
		b.acknowledge()
		b.said = nil
		for range sure {
			b.expectAck(t, 0)
			b.expect(t)
			b.take("6a", "7a", "8b", "9b")
			b.pass(2 * time.Second)
		}
		for range sure {
			b.take("8b", "9b")
			b.pass(2 * time.Second)
		}
		if want := []string{"restored 6", "record 6a", "record 7a", "record 8b", "record 9b"}; !slices.Equal(b.said, want) {
			t.Errorf("%s: said %q", name, b.said)
		}
		b.expectAck(t, 9)
	}
}

// A gateway that was restored writes records where a gap stood before: they are given.
func TestLedger_restoredIntoAGap(t *testing.T) {
	b := newBook(true)
	b.take("1a", "2-500", "501a")
	b.expect(t, "record 1a", "gap 2-500", "record 501a")
	b.acknowledge()
	b.connected(b.now)
	for range sure {
		b.take("201b", "202b")
		b.pass(2 * time.Second)
	}
	b.expect(t, "restored 201", "record 201b", "record 202b")
	b.expectAck(t, 202)
}

// A gateway that was restored into a gap, and has been without an application for so long
// that it sends again every ten minutes only, is asked and believed soon all the same.
func TestLedger_restoredIntoAGap_longAgo(t *testing.T) {
	b := newBook(true)
	b.take("1-500", "501a")
	b.acknowledge()
	b.said = nil
	b.take("300b", "301b")
	sent := b.now
	for end := b.now.Add(time.Minute); b.now.Before(end) && len(b.said) == 0; b.pass(tickEvery) {
		if ago := b.now.Sub(sent); b.due(b.now) && ago >= 3*time.Second || ago >= 10*time.Minute {
			b.take("300b", "301b")
			sent = b.now
		}
	}
	b.expect(t, "restored 300", "record 300b", "record 301b")
	b.expectAck(t, 301)
}

// Nor is anything forgotten of one for which the broker's word counts, which never sends
// again.
func TestLedger_restoredIntoAGap_brokersWord(t *testing.T) {
	b := newBook(true)
	b.take("1-500", "501a")
	b.acknowledge()
	b.said = nil
	b.take("300b", "301b")
	b.pass(giveUpAfter + time.Minute)
	b.expect(t)
	b.take("302b")
	b.pass(2 * time.Second)
	b.expect(t, "restored 300", "record 300b", "record 301b", "record 302b")
}

// One record in whose place a gap was given is not asked for without end, and forgotten
// with the next one.
func TestLedger_lateForAGap(t *testing.T) {
	b := newBook(true)
	b.take("1-500", "501a", "300a")
	b.acknowledge()
	for range giveUpAfter / askEvery {
		b.pass(askEvery)
		if b.asks == 0 && b.due(b.now) {
			t.Fatal("it asks for what is not missing")
		}
	}
	b.take("502a")
	if len(b.ahead) != 0 {
		t.Errorf("%d are held", len(b.ahead))
	}
	b.expect(t, "gap 1-500", "record 501a", "record 502a")
}

// It does not hold up another start for ever, nor does what came under a number that was
// given, when the gateway sends again without it.
func TestLedger_lateForAGap_anotherStart(t *testing.T) {
	for _, late := range []string{"300a", "501c"} {
		b := newBook(true)
		b.take("1-500", "501a", late)
		b.acknowledge()
		b.said = nil
		for range giveUpAfter/(4*time.Second) + 3 {
			b.take("502b", "503b")
			b.pass(4 * time.Second)
		}
		b.expect(t, "record 502b", "record 503b")
		if len(b.ahead) != 0 {
			t.Errorf("%s: %d are held", late, len(b.ahead))
		}
	}
}

// What the broker lost is asked for, and nothing after it is acknowledged until it has
// come.
func TestLedger_lost(t *testing.T) {
	b := newBook(true)
	b.take("1a", "2a", "5a", "6a")
	b.expect(t, "record 1a", "record 2a")
	b.expectAck(t, 2)
	if b.due(b.now) {
		t.Error("it asks at once")
	}
	b.pass(settling)
	if !b.due(b.now) || b.due(b.now) {
		t.Error("it does not ask once")
	}
	b.pass(reportAfter)
	b.expect(t, "waiting 3-4")
	if !b.due(b.now) {
		t.Error("it does not ask again")
	}
	b.pass(time.Hour)
	b.expectAck(t, 0)
	b.take("3a")
	b.expect(t, "record 3a")
	b.take("4a")
	b.expect(t, "record 4a", "record 5a", "record 6a")
	b.expectAck(t, 6)
}

// What the gateway, asked again, begins after is not to be had any more.
func TestLedger_missing(t *testing.T) {
	b := newBook(true)
	b.take("1a", "2a", "8a", "9a")
	b.pass(4 * time.Second)
	b.take("7a", "6a", "8a", "9a") // it begins with 6
	b.pass(4 * time.Second)
	b.expect(t, "record 1a", "record 2a", "waiting 3-7")
	for range 3 {
		b.expect(t)
		b.take("6a", "7a")
		b.pass(4 * time.Second)
	}
	b.expect(t, "missing 3-5", "record 6a", "record 7a", "record 8a", "record 9a")
	b.expectAck(t, 9)
}

// A gateway for which the broker's word counts never sends again.
func TestLedger_missing_goesOn(t *testing.T) {
	b := newBook(true)
	b.take("1a", "3a")
	b.pass(giveUpAfter + time.Minute)
	b.expect(t, "record 1a", "waiting 2-2")
	b.take("4a")
	b.pass(2 * time.Second)
	b.expect(t, "missing 2-2", "record 3a", "record 4a")

	for seq := uint64(6); seq <= 6+widest; seq++ { // more than any window holds
		b.take(fmt.Sprintf("%da", seq))
	}
	b.pass(2 * time.Second)
	if b.said[0] != "missing 5-5" || b.last != 6+widest {
		t.Errorf("%s, up to %d", b.said[0], b.last)
	}
}

// One that looks on, and acknowledges nothing, does not wait long.
func TestLedger_lookingOn(t *testing.T) {
	b := newBook(false)
	b.take("11a", "10a")
	b.pass(2 * time.Second)
	b.expect(t, "live 11a", "live 10a", "record 10a", "record 11a")
	b.take("13a")
	b.pass(10 * time.Second)
	b.expect(t, "waiting 12-12", "missing 12-12", "record 13a")
}

// Who begins in the middle begins with the first record that the gateway does not count
// as delivered, and shows the others meanwhile.
func TestLedger_beginsInTheMiddle(t *testing.T) {
	b := newBook(true)
	b.take("104a")
	b.pass(4 * time.Second)
	b.expect(t, "live 104a")
	b.expectAck(t, 0)
	b.take("101a", "102a", "103a", "104a")
	b.pass(4 * time.Second)
	b.expect(t, "live 101a", "live 102a", "live 103a")
	for range 3 {
		b.expectAck(t, 0)
		b.take("102a", "101a", "103a", "104a", "101a")
		b.pass(2 * time.Second)
	}
	b.expect(t, "record 101a", "record 102a", "record 103a", "record 104a")
	b.expectAck(t, 104)
}

// After a restore numbers come again with other records.
func TestLedger_restored(t *testing.T) {
	b := newBook(true)
	b.take("1a", "2a", "3a", "4a", "5a", "6a")
	b.expectAck(t, 6)
	b.said = nil
	b.take("3a", "4a", "5b")
	b.expectAck(t, 4) // not 6: its own 5 and 6 it has not given yet
	b.take("6b", "7b")
	b.pass(4 * time.Second)
	b.expect(t)
	b.expectAck(t, 0)
	for range 3 {
		b.take("5b", "6b", "7b")
		b.pass(2 * time.Second)
	}
	b.expect(t, "restored 5", "record 5b", "record 6b", "record 7b")
	b.expectAck(t, 7)
	b.take("5b", "4a")
	b.expect(t)
	b.expectAck(t, 5)
}

func TestLedger_holdsNoMoreThanItMay(t *testing.T) {
	b := newBook(true)
	b.take("1a")
	b.acknowledge()
	for seq := uint64(5); seq < 5+2*maxAhead; seq++ {
		b.hold(b.now, item{from: seq, to: seq, boot: "a", record: &site.Record{Seq: seq}, payload: make([]byte, maxPayload)})
	}
	if len(b.ahead) > maxAhead || b.size > maxAheadBytes+maxPayload {
		t.Errorf("it holds %d records of %d bytes", len(b.ahead), b.size)
	}
}

func TestParseItem_refuses(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `{"seq":0,"kind":"login"}`, `{"seq":"7","kind":"login"}`, `{"seq":-1,"kind":"login"}`, `{"seq":7}`, `{"seq":7,"kind":"login"`,
		`{"seq":9223372036854775808,"kind":"login"}`, `{"seq":18446744073709551615,"kind":"gap","from":1,"to":18446744073709551615}`,
		`{"seq":500,"kind":"gap","from":0,"to":500}`, `{"seq":500,"kind":"gap","from":501,"to":500}`, `{"seq":501,"kind":"gap","from":100,"to":500}`,
	} {
		if it, err := parseItem([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, it)
		}
	}
	// A record of the journal about a gap is a record like any other.
	it, err := parseItem([]byte(`{"seq":501,"kind":"gap","boot":"a","from":100,"to":500}`))
	if err != nil || it.record == nil || it.from != 501 {
		t.Errorf("%+v, %v", it, err)
	}
}

// world is a gateway, a broker that loses, repeats and reorders, and an application
// that now and then starts again with the state that it has kept.
type world struct {
	*book

	// The gateway.
	journal []site.BootID // of record n at n-1
	cursor  uint64
	sent    uint64 // in this session
	boot    int
	fork    string // the first record since the last restore, until it was given
	backup  struct {
		length int
		cursor uint64
	}

	way    []string        // messages between them
	lost   map[string]int  // how often
	given  map[string]bool // by seq and boot
	kept   progress        // the application's state
	unkept []string        // given since then
}

func (w *world) write(n int) {
	for range n {
		w.journal = append(w.journal, site.BootID(fmt.Sprintf("b%d", w.boot)))
	}
}

// send sends what the window lets through.
func (w *world) send(window uint64) {
	for w.sent < min(uint64(len(w.journal)), w.cursor+window) {
		w.sent++
		w.way = append(w.way, fmt.Sprintf("%d%s", w.sent, w.journal[w.sent-1]))
	}
}

func (w *world) sendAgain() { w.sent = w.cursor }

// carry brings what is on its way to the application.
func (w *world) carry(t *rapid.T, reliable bool) {
	for i := range w.way {
		j := min(i+rapid.IntRange(0, 8).Draw(t, "overtaking"), len(w.way)-1)
		w.way[i], w.way[j] = w.way[j], w.way[i]
	}
	for _, word := range w.way {
		// That the broker loses what a gateway sends after a restore, and just so much
		// that the rest goes on where the application is, nobody can tell.
		if !reliable && w.fork == "" && w.lost[word] < 2 && rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
			w.lost[word]++
			continue
		}
		w.take(word)
		switch rapid.IntRange(0, 19).Draw(t, "then") {
		case 0:
			w.take(word)
		case 1, 2:
			w.pass(tickEvery)
		}
	}
	w.way = nil
	w.check(t)
}

// check reads what the application was given.
func (w *world) check(t *rapid.T) {
	for _, said := range w.said {
		kind, what, _ := strings.Cut(said, " ")
		switch kind {
		case "record":
			if w.given[what] {
				t.Fatalf("%s was given twice", what)
			}
			w.given[what] = true
			if what == w.fork {
				w.fork = ""
			}
			w.unkept = append(w.unkept, what)
		case "missing":
			t.Fatalf("%s, which the gateway still has", said)
		}
	}
	w.said = nil
}

// acknowledgements reach the gateway, or do not.
func (w *world) acknowledgements(t *rapid.T, reliable bool) {
	w.kept, w.unkept = progress{Last: w.last, Boots: slices.Clone(w.boots)}, nil
	seq, ok := w.acknowledge()
	if !ok || !reliable && rapid.Bool().Draw(t, "acknowledgement lost") {
		return
	}
	if seq = min(seq, w.sent); seq > w.cursor {
		for n := w.cursor + 1; n <= seq; n++ {
			if what := fmt.Sprintf("%d%s", n, w.journal[n-1]); !w.given[what] {
				t.Fatalf("%d is acknowledged, and %s was never given", seq, what)
			}
		}
		w.cursor = seq
	}
}

// restartApplication kills it: what it was given since it kept its state is given again.
func (w *world) restartApplication() {
	for _, what := range w.unkept {
		delete(w.given, what)
	}
	w.unkept = nil
	w.begin()
	w.begun, w.last, w.boots = w.kept.Last > 0, w.kept.Last, slices.Clone(w.kept.Boots)
}

func (w *world) begin() {
	now := w.book.now
	w.book = newBook(true)
	w.book.now = now
}

// Whatever is lost, repeated and reordered, whoever starts again, and whatever backup
// is restored: nothing is acknowledged that was not given, nothing is given twice, and
// in the end everything has come.
func TestLedger_world(t *testing.T) {
	for range 20 {
		rapid.Check(t, playWorld)
	}
}

func playWorld(t *rapid.T) {
	w := &world{book: newBook(true), given: make(map[string]bool), lost: make(map[string]int)}
	window := rapid.Uint64Range(1, 50).Draw(t, "window")
	t.Repeat(map[string]func(*rapid.T){
		"write": func(t *rapid.T) { w.write(rapid.IntRange(1, 20).Draw(t, "records")) },
		"send":  func(*rapid.T) { w.send(window) },
		"carry": func(t *rapid.T) { w.carry(t, false) },
		"pass": func(t *rapid.T) {
			w.pass(time.Duration(rapid.IntRange(1, 50).Draw(t, "ticks")) * tickEvery)
			w.check(t)
		},
		"ack":   func(t *rapid.T) { w.acknowledgements(t, false) },
		"again": func(t *rapid.T) { w.carry(t, false); w.pass(3 * time.Second); w.check(t); w.sendAgain() },
		"restart": func(t *rapid.T) {
			w.carry(t, false)
			w.pass(2 * time.Second)
			w.check(t)
			w.boot++
			w.connected(w.now)
			w.sendAgain()
		},
		"backup": func(*rapid.T) { w.backup.length, w.backup.cursor = len(w.journal), w.cursor },
		"restore": func(t *rapid.T) {
			w.way = nil
			w.pass(2 * time.Second)
			w.check(t)
			w.acknowledgements(t, false) // while nobody is there to hear them
			w.boot++
			w.journal, w.cursor = slices.Clone(w.journal[:w.backup.length]), w.backup.cursor
			w.connected(w.now)
			w.fork = fmt.Sprintf("%db%d", len(w.journal)+1, w.boot)
			w.sendAgain()
		},
		"application": func(t *rapid.T) { w.check(t); w.restartApplication() },
	})
	w.write(1)
	for range 100 + 3*len(w.journal) {
		w.send(window)
		w.carry(t, true)
		w.pass(2 * time.Second)
		w.check(t)
		w.acknowledgements(t, true)
		if w.cursor == uint64(len(w.journal)) {
			return
		}
		w.pass(3 * time.Second)
		w.check(t)
		if rapid.Bool().Draw(t, "sends again") {
			w.sendAgain()
		}
	}
	t.Fatalf("the gateway has %d records and counts %d as delivered; held %d, last %d", len(w.journal), w.cursor, len(w.ahead), w.last)
}
