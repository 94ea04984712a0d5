package mqttclient_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/mqttclient"
)

// The connection ends without a DISCONNECT, so that the broker publishes the will.
func TestConn_Close(t *testing.T) {
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
	if c.Err() != nil {
		t.Errorf("a live connection has the error %v", c.Err())
	}
	c.Close()
	c.Close()
	within(t, "the end", c.Lost())
	if !errors.Is(c.Err(), mqttclient.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", c.Err())
	}
	within(t, "the broker's end", ended)
	if len(last) > 0 {
		t.Errorf("the broker was sent a packet of %#x", <-last)
	}
	d := c.Publish(mqttclient.Message{Topic: "a"})
	within(t, "a message after the end", d.Done())
	if !errors.Is(d.Err(), mqttclient.ErrClosed) {
		t.Errorf("a message after the end: %v", d.Err())
	}
}

// A broker that does not read cannot hold the end up, nor what waits to be written.
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

// Nor can one that reads and never closes its end.
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
			go p.silent()
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
		select {
		case <-closed:
			t.Fatal("Close did not wait for Receive")
		case end := <-received:
			end()
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
