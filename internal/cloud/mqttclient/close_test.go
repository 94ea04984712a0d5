package mqttclient_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/mqttclient"
)

// The broker hears a goodbye, and so publishes no will.
func TestConn_Close(t *testing.T) {
	last := make(chan byte, 1)
	b := listen(t, func(p *peer) {
		_, _ = p.welcome(0)
		for {
			first, _, err := p.read()
			if err != nil {
				return
			}
			last <- first
		}
	})
	c := dial(t, config(b.url()))
	if c.Err() != nil {
		t.Errorf("a live connection has the error %v", c.Err())
	}
	c.Close()
	c.Close()
	within(t, "the end", c.Lost())
	if !errors.Is(c.Err(), mqttclient.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", c.Err())
	}
	if first := <-last; first != 0xE0 {
		t.Errorf("the last packet is %#x, want a DISCONNECT", first)
	}
	d := c.Publish(mqttclient.Message{Topic: "a"})
	within(t, "a message after the end", d.Done())
	if !errors.Is(d.Err(), mqttclient.ErrClosed) {
		t.Errorf("a message after the end: %v", d.Err())
	}
}

// A connection that is dropped ends without a goodbye, so that the broker publishes the
// will.
func TestConn_Drop(t *testing.T) {
	last, ended := make(chan byte, 100), make(chan struct{})
	b := listen(t, func(p *peer) {
		defer close(ended)
		_, _ = p.welcome(0)
		for {
			first, _, err := p.read()
			if err != nil {
				return
			}
			last <- first
		}
	})
	c := dial(t, config(b.url()))
	c.Drop()
	c.Close()
	within(t, "the end", c.Lost())
	within(t, "the broker's end", ended)
	if len(last) > 0 {
		t.Errorf("the broker was sent a packet of %#x", <-last)
	}
}

// The goodbye arrives although much of what the broker sends was not read: a reset does
// not overtake it.
func TestConn_Close_unread(t *testing.T) {
	over, result := make(chan struct{}), make(chan error, 1)
	b := listen(t, func(p *peer) {
		_, _ = p.welcome(1)
		some := message("in", 0, 0, string(make([]byte, 64<<10)))
		for more := 0; more < 100; {
			if _, err := p.Write(some); err != nil {
				result <- err
				return
			}
			select {
			case <-over:
				more++
			default:
			}
		}
		_, err := p.await(disconnect)
		result <- err
	})
	cfg := config(b.url())
	received := make(chan struct{}, mqttclient.MaxReceiving)
	cfg.Topics = []string{"in"}
	cfg.Receive = func(mqttclient.Message) {
		received <- struct{}{}
		<-over
	}
	c := dial(t, cfg)
	for range mqttclient.MaxReceiving {
		<-received
	}
	c.Publish(mqttclient.Message{Topic: "bye"})
	go func() {
		<-c.Lost()
		close(over)
	}()
	c.Close()
	if err := <-result; err != nil {
		t.Errorf("the broker hears no goodbye: %v", err)
	}
}

// However the broker takes the goodbye, the end is our own.
func TestConn_Close_reason(t *testing.T) {
	b := listen(t, (*peer).serve) // it hangs up on DISCONNECT
	for range 200 {
		c := dial(t, config(b.url()))
		c.Close()
		if !errors.Is(c.Err(), mqttclient.ErrClosed) {
			t.Fatalf("got %v, want ErrClosed", c.Err())
		}
	}
}

// A broker that does not read cannot hold the goodbye up, nor what waits to be written.
func TestConn_Close_stuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		c := dial(t, piped(t, func(p *peer) {
			_, _ = p.welcome(0)
			<-end
		}))
		results := make(chan *mqttclient.Delivery)
		for range 10 {
			go func() { results <- c.Publish(mqttclient.Message{Topic: "a"}) }()
		}
		synctest.Wait()
		began := time.Now()
		c.Close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		for range 10 {
			d := <-results
			<-d.Done()
			if !errors.Is(d.Err(), mqttclient.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", d.Err())
			}
		}
		close(end)
	})
}

// Nor can one that reads and never hangs up: its connection is closed in the end.
func TestConn_Close_noAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		c := dial(t, piped(t, func(p *peer) {
			_, _ = p.welcome(0)
			p.silent()
			close(ended)
		}))
		began := time.Now()
		c.Close()
		<-ended
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// Close waits for Receive, and nothing is received after it.
func TestConn_Close_receiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := piped(t, func(p *peer) {
			_, _ = p.welcome(1)
			go func() {
				_, _ = p.await(disconnect)
				_ = p.Close()
			}()
			for {
				if _, err := p.Write(message("in", 1, 1, "x")); err != nil {
					return
				}
			}
		})
		cfg.Topics = []string{"in"}
		received := make(chan func(), 1000)
		cfg.Receive = func(mqttclient.Message) {
			end := make(chan struct{})
			received <- func() { close(end) }
			<-end
		}
		c := dial(t, cfg)
		synctest.Wait()
		closed := make(chan struct{})
		go func() {
			c.Close()
			close(closed)
		}()
		synctest.Wait()
		for range mqttclient.MaxReceiving {
			select {
			case <-closed:
				t.Fatal("Close did not wait for Receive")
			case end := <-received:
				end()
			}
			synctest.Wait()
		}
		<-closed
		if len(received) > 0 {
			t.Errorf("%d messages were received after the end", len(received))
		}
	})
}

// Publishing, receiving and the end at the same time.
func TestConn_concurrently(t *testing.T) {
	b := listen(t, func(p *peer) {
		_, _ = p.welcome(1)
		go func() {
			for n := range 500 {
				p.say(message("in", 1, n+1, "x"))
			}
		}()
		p.serve()
	})
	cfg := config(b.url())
	cfg.Topics = []string{"in"}
	c := dial(t, cfg)
	failed := make(chan error)
	for n := range 8 {
		go func() {
			for {
				d := c.Publish(mqttclient.Message{Topic: fmt.Sprint(n), QoS: byte(n % 2)})
				<-d.Done()
				if d.Err() != nil {
					failed <- d.Err()
					return
				}
			}
		}()
	}
	for range 300 {
		d := c.Publish(mqttclient.Message{Topic: "main", QoS: 1})
		within(t, "a delivery", d.Done())
	}
	c.Close()
	for range 8 {
		if err := <-failed; !errors.Is(err, mqttclient.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	}
}
