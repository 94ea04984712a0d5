package kit_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/metric"
	"gatehouse/internal/web/kit"
)

// pulse is a plain service whose beats and clock the test drives. Its route /door answers with
// the age of the request; /slow answers when the test wants it.
type pulse struct {
	t    *testing.T
	kit  *kit.Kit
	now  time.Duration
	slow chan struct{}
	conn net.Conn // of the client
	in   *bufio.Reader
}

func newPulse(t *testing.T) *pulse {
	p := &pulse{t: t, kit: kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)}), slow: make(chan struct{})}
	p.kit.SetClock(func() time.Duration { return p.now })
	routes := []kit.Route{
		{Method: http.MethodPost, Pattern: "/door", Door: true, Serve: func(x *kit.Exchange) error {
			_, err := io.WriteString(x, time.Since(x.Req.Start).String())
			return err
		}},
		{Method: http.MethodPost, Pattern: "/slow", Serve: func(x *kit.Exchange) error {
			<-p.slow
			_, err := io.WriteString(x, "done")
			return err
		}},
	}
	l := &lame{queue: make(queue)}
	s := p.kit.NewService(p.kit.Handler(false, routes), l, limit.NewPool(limit.Limits{}), nil)
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	near, far := net.Pipe()
	p.conn, p.in = near, bufio.NewReader(near)
	synctest.Wait()
	p.pass(time.Second)
	l.queue <- far
	t.Cleanup(func() {
		_ = near.Close()
		close(l.queue)
		_ = s.Server.Close()
		<-served
	})
	return p
}

// pass lets a time pass with every beat.
func (p *pulse) pass(span time.Duration) {
	for end := p.now + span; p.now < end; p.beat(25 * time.Millisecond) {
	}
}

// beat lets a time pass with one beat at its end.
func (p *pulse) beat(after time.Duration) {
	synctest.Wait() // what can run has run
	p.now += after
	p.kit.Beat()
}

// ask sends a request.
func (p *pulse) ask(path string) {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, request(path)); err != nil {
		p.t.Fatal(err)
	}
}

// send is ask of a request that may not be read before the connection ends.
func (p *pulse) send(path string) { _, _ = io.WriteString(p.conn, request(path)) }

func request(path string) string { return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }

// answer reads the next answer.
func (p *pulse) answer() string {
	p.t.Helper()
	answer, err := http.ReadResponse(p.in, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(body)
}

// age asks for the door and returns how old the request was.
func (p *pulse) age() time.Duration {
	p.t.Helper()
	p.ask("/door")
	return p.aged()
}

func (p *pulse) aged() time.Duration {
	p.t.Helper()
	age, err := time.ParseDuration(p.answer())
	if err != nil {
		p.t.Fatal(err)
	}
	return age
}

// usual is the age up to which a request that came just now may seem to be.
const usual = 100 * time.Millisecond

func TestReceipt(t *testing.T) {
	const long = 10 * time.Second
	for name, c := range map[string]struct {
		do          func(p *pulse) time.Duration
		least, most time.Duration
	}{
		"new connection":  {func(p *pulse) time.Duration { return p.age() }, 0, usual},
		"idle connection": {func(p *pulse) time.Duration { p.age(); p.pass(long); return p.age() }, 0, usual},
		"one after another": {func(p *pulse) (most time.Duration) {
			for range 100 {
				most = max(most, p.age())
				p.pass(25 * time.Millisecond)
			}
			return most
		}, 0, usual},
		"a standstill": {func(p *pulse) time.Duration { p.age(); p.pass(time.Second); p.now += long; return p.age() }, long, long + usual},
		"beats before the reader": {func(p *pulse) time.Duration {
			p.age()
			p.pass(time.Second)
			p.beat(long)
			p.pass(usual)
			return p.age()
		}, long, long + 2*usual},
		"long after a standstill": {func(p *pulse) time.Duration { p.age(); p.beat(long); p.pass(long); return p.age() }, 0, usual},
		"a process that is always late": {func(p *pulse) time.Duration {
			for range 100 {
				p.beat(200 * time.Millisecond)
			}
			return p.age()
		}, 0, 500 * time.Millisecond},
		"behind a slow request": {func(p *pulse) time.Duration {
			p.ask("/slow")
			p.pass(time.Second)
			go p.send("/door")
			p.pass(long)
			close(p.slow)
			p.answer()
			return p.aged()
		}, long, long + usual},
		"pipelined": {func(p *pulse) time.Duration {
			if _, err := io.WriteString(p.conn, request("/slow")+request("/door")); err != nil {
				p.t.Fatal(err)
			}
			p.pass(long)
			close(p.slow)
			p.answer()
			return p.aged()
		}, long, long + usual},
		"pipelined, and more later": {func(p *pulse) time.Duration {
			if _, err := io.WriteString(p.conn, request("/slow")+request("/door")); err != nil {
				p.t.Fatal(err)
			}
			p.pass(long)
			go p.send("/door")
			p.pass(usual)
			close(p.slow)
			p.answer()
			return p.aged()
		}, long, long + 2*usual},
		"after a slow request": {func(p *pulse) time.Duration {
			p.ask("/slow")
			p.pass(long)
			close(p.slow)
			p.answer()
			return p.age()
		}, 0, usual},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := c.do(newPulse(t)); got < c.least || got > c.most {
					t.Errorf("the request seems to be %s old, want %s to %s", got, c.least, c.most)
				}
			})
		})
	}
}
