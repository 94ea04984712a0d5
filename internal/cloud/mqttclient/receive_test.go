package mqttclient_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/mqttclient"
)

// Messages are received one after the other, and each is acknowledged when Receive returns,
// and not before.
func TestConfig_Receive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acknowledged atomic.Int64
		cfg := piped(t, func(p *peer) {
			_, _ = p.welcome(1)
			go p.say(
				message("in/a", 0, 0, "zero"),
				packet(0x33, text("in/b"), u16(7), []byte("one")),
				message("in/c", 1, 8, ""),
			)
			for {
				body, err := p.await(puback)
				if err != nil {
					return
				}
				acknowledged.Add(int64(id(body)))
			}
		})
		got, goOn := make(chan string, 3), make(chan struct{})
		cfg.Topics = []string{"in/#"}
		cfg.Receive = func(m mqttclient.Message) {
			got <- fmt.Sprintf("%s %d %t %q", m.Topic, m.QoS, m.Retained, m.Payload)
			<-goOn
		}
		c := dial(t, cfg)
		for _, step := range []struct {
			message string
			before  int64
		}{{`in/a 0 false "zero"`, 0}, {`in/b 1 true "one"`, 0}, {`in/c 1 false ""`, 7}} {
			synctest.Wait()
			if m := <-got; m != step.message || len(got) > 0 || acknowledged.Load() != step.before {
				t.Errorf("got %s, and %d more; the sum of the acknowledged ids is %d, want %d", m, len(got), acknowledged.Load(), step.before)
			}
			goOn <- struct{}{}
		}
		synctest.Wait()
		if n := acknowledged.Load(); n != 15 {
			t.Errorf("in the end the sum of the acknowledged ids is %d, want 15", n)
		}
		c.Close()
	})
}

// The connection is not read on while Receive has a message.
func TestConfig_Receive_backPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 300
		var written, now, most, received atomic.Int64
		cfg := piped(t, func(p *peer) {
			_, _ = p.welcome(1)
			go p.silent() // what is written there must be read
			for n := range all {
				if _, err := p.Write(message("in", 1, n+1, "x")); err != nil {
					return
				}
				written.Add(1)
			}
			p.silent()
		})
		cfg.Topics = []string{"in"}
		more := make(chan struct{})
		cfg.Receive = func(mqttclient.Message) {
			most.Store(max(most.Load(), now.Add(1)))
			<-more
			now.Add(-1)
			received.Add(1)
		}
		c := dial(t, cfg)
		synctest.Wait()
		if n := written.Load(); n > 10 { // paho has some
			t.Errorf("%d of %d messages were read while one is in Receive", n, all)
		}
		for range all {
			more <- struct{}{}
		}
		synctest.Wait()
		if written.Load() != all || most.Load() != 1 || received.Load() != all {
			t.Errorf("in the end %d were read, %d at once, and %d received", written.Load(), most.Load(), received.Load())
		}
		c.Close()
	})
}

// What comes too fast is read more slowly, and nothing of it is lost; a long message
// counts for as many as it has room for, for all callers.
func TestConfig_PerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			topic   string
			payload int
			want    time.Duration
		}{
			{"in", 10, 9 * time.Second},           // 100 messages, of which 10 are free
			{"out", 10, 9 * time.Second},          // likewise
			{"in", 33 << 10, 5 * 9 * time.Second}, // each counts for 5, of which 2 are free
		} {
			cfg := piped(t, func(p *peer) {
				_, _ = p.welcome(1)
				go func() {
					for range 100 {
						p.say(message(test.topic, 0, 0, strings.Repeat("x", test.payload)))
					}
					p.say(message("in", 0, 0, "the end"))
				}()
				p.silent()
			})
			cfg.Topics, cfg.PerSecond, cfg.Burst = []string{"in"}, 10, 10
			end := make(chan struct{})
			cfg.Receive = func(m mqttclient.Message) {
				if string(m.Payload) == "the end" {
					close(end)
				}
			}
			began := time.Now()
			c := dial(t, cfg)
			<-end
			if took := time.Since(began).Round(time.Second); took < test.want || took > test.want+5*time.Second {
				t.Errorf("%d bytes to %s: it took %s, want %s", test.payload, test.topic, took, test.want)
			}
			c.Close()
		}
	})
}

// A connection that waits for its rate ends when it is closed.
func TestConn_Close_waiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := piped(t, func(p *peer) {
			_, _ = p.welcome(1)
			go p.silent()
			for range 100 {
				p.say(message("in", 0, 0, "x"))
			}
		})
		cfg.Topics, cfg.PerSecond, cfg.Burst = []string{"in"}, 1e-6, 10
		c := dial(t, cfg)
		synctest.Wait()
		began := time.Now()
		c.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("Close took %s", took)
		}
	})
}

func TestConfig_MaxPayload(t *testing.T) {
	const most = 100
	payloads := []int{0, 1, most - 1, most, most + 1, most + 2, 127, 128, 16_384, 1<<20 - 10}
	b := listen(t, func(p *peer) {
		_, _ = p.welcome(1)
		for i, n := range payloads {
			p.say(message("in", 1, i+1, strings.Repeat("x", n)))
		}
		p.silent()
	})
	got := make(chan int, len(payloads))
	cfg := config(b.url())
	cfg.Topics, cfg.MaxPayload = []string{"in"}, most
	cfg.Receive = func(m mqttclient.Message) {
		if strings.Trim(string(m.Payload), "x") != "" {
			t.Errorf("a payload is %q", m.Payload)
		}
		got <- len(m.Payload)
	}
	dial(t, cfg)
	count := make(map[int]int)
	for range payloads {
		count[<-got]++
	}
	if want := fmt.Sprint(map[int]int{0: 1, 1: 1, most - 1: 1, most: 1, most + 1: 6}); fmt.Sprint(count) != want {
		t.Errorf("payloads of these sizes came: %v, want %s", count, want)
	}
}

// A mistake in Receive ends the connection, not the process.
func TestConfig_Receive_panic(t *testing.T) {
	b := listen(t, func(p *peer) {
		_, _ = p.welcome(1)
		p.say(message("in", 1, 1, "x"))
		if _, err := p.await(puback); err == nil {
			t.Error("a message that was not taken is acknowledged")
		}
	})
	cfg := config(b.url())
	cfg.Topics = []string{"in"}
	cfg.Receive = func(mqttclient.Message) { panic("no") }
	c := dial(t, cfg)
	within(t, "the end", c.Lost())
	contains(t, "the reason", c.Err().Error(), "a mistake in the gateway")
}
