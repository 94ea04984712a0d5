package mqttclient_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/mqttclient"
)

// cluster is a configuration whose name has those addresses. Each answers by its open.
func cluster(open func(ctx context.Context, address string) (net.Conn, error), addresses ...string) mqttclient.Config {
	return mqttclient.Config{
		Broker: mqttclient.Broker{URL: "tcp://cluster.example.test", ClientID: "gateway", Keepalive: time.Minute},
		Lookup: func(context.Context, string) ([]string, error) { return addresses, nil },
		Open:   func(ctx context.Context, _, address string) (net.Conn, error) { return open(ctx, address) },
	}
}

// Of several addresses each has its share of the time, whatever step it fails at.
func TestDial_turns(t *testing.T) {
	for name, bad := range map[string]func(ctx context.Context) (net.Conn, error){
		"refuses": func(context.Context) (net.Conn, error) { return nil, errors.New("refused") },
		"does not answer TCP": func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"accepts and says nothing": func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = theirs.Read(make([]byte, 1024)); _, _ = theirs.Read(make([]byte, 1)) }()
			return ours, nil
		},
		"accepts and hangs up": func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = theirs.Read(make([]byte, 1024)); _ = theirs.Close() }()
			return ours, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var tried []string
			began := time.Now()
			conn, err := mqttclient.Dial(t.Context(), cluster(func(ctx context.Context, address string) (net.Conn, error) {
				tried = append(tried, address)
				if strings.HasPrefix(address, "192.0.2.2:") {
					return answering(), nil
				}
				return bad(ctx)
			}, "192.0.2.1", "192.0.2.2", "192.0.2.3"))
			if err != nil || strings.Join(tried, " ") != "192.0.2.1:1883 192.0.2.2:1883" || time.Since(began) > 10*time.Second {
				t.Fatalf("%s: %v, tried %v for %s", name, err, tried, time.Since(began))
			}
			conn.Close()
		})
	}
}

// Of more addresses than there is time for, each has its turn in some attempt: the first
// may all be of a network that swallows what is sent, as IPv6 often is.
func TestDial_manyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addresses := []string{
			"2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4", "2001:db8::5", "2001:db8::6", "2001:db8::7", "2001:db8::8", "192.0.2.1",
		}
		cfg := cluster(func(ctx context.Context, address string) (net.Conn, error) {
			if address == "192.0.2.1:1883" {
				return answering(), nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}, addresses...)
		for range 60 {
			if conn, err := mqttclient.Dial(t.Context(), cfg); err == nil {
				conn.Close()
				return
			}
		}
		t.Error("the ninth address is never tried")
	})
}

// Where all fail, the error is that of the one that came furthest, and names it.
func TestDial_turnsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := mqttclient.Dial(t.Context(), cluster(func(ctx context.Context, address string) (net.Conn, error) {
			if address != "[2001:db8::1]:1883" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			ours, theirs := net.Pipe()
			_ = theirs.Close()
			return ours, nil
		}, "192.0.2.1", "2001:db8::1", "192.0.2.3"))
		failed, ok := errors.AsType[*mqttclient.DialError](err)
		if !ok || failed.Step != mqttclient.StepLogin || !strings.Contains(err.Error(), "[2001:db8::1]:1883") || time.Since(began) > 30*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// answering is a connection to a broker that lets everybody in.
func answering() net.Conn {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		if _, err := theirs.Read(make([]byte, 1024)); err == nil {
			_, err = theirs.Write([]byte{0x20, 2, 0, 0})
			for err == nil {
				_, err = theirs.Read(make([]byte, 1024))
			}
		}
	}()
	return ours
}
