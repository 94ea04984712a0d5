package mqttclient_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/mqttclient"
)

// A broker that chooses other words for each refusal has a bounded number of them logged, and
// an error that differs in its numbers alone is one reason.
func TestBackoff_Retry_reasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tries, logged := 0, 0
		mqttclient.Backoff{}.Retry(ctx, func(context.Context) error {
			if tries++; tries == 200 {
				cancel()
			}
			word := ""
			if tries > 100 {
				word = string(rune('a' + tries - 100))
			}
			return fmt.Errorf("lookup mqtt7.example on 192.0.2.1:53: read udp 192.0.2.2:%d->192.0.2.1:53: i/o timeout %s", 40000+tries, word)
		}, func(l mqttclient.Loss) {
			if l.New {
				logged++
			}
			if tries == 100 && logged != 1 || logged > 16 {
				t.Fatalf("%d reasons are new after %d tries", logged, tries)
			}
		})
		if logged != 16 {
			t.Errorf("%d reasons were new", logged)
		}
	})
}

// The waits grow, within their bounds, and begin anew after a connection that has lasted.
func TestBackoff_Retry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		longest, tries := time.Duration(0), 0
		why := errors.New("why")
		mqttclient.Backoff{Least: time.Second, Most: 20 * time.Second}.Retry(ctx, func(context.Context) error {
			if tries++; tries == 100 {
				time.Sleep(time.Minute)
			} else if tries == 101 {
				cancel()
			}
			return why
		}, func(l mqttclient.Loss) {
			most := 20 * time.Second
			if tries == 1 || tries == 100 {
				most = 4 * time.Second
			}
			if longest = max(longest, l.Wait); !errors.Is(l.Err, why) || l.Wait < time.Second || l.Wait > most {
				t.Errorf("after try %d: %v, a wait of %s", tries, l.Err, l.Wait)
			}
			if l.New != (tries == 1 || tries == 100) {
				t.Errorf("after try %d: new is %t", tries, l.New)
			}
		})
		if tries != 101 || longest < 10*time.Second {
			t.Errorf("%d tries, the longest wait was %s", tries, longest)
		}
		cancel()
		began := time.Now()
		mqttclient.Backoff{}.Retry(ctx, func(context.Context) error { return why }, func(mqttclient.Loss) { t.Error("it has ended") })
		if time.Since(began) > 0 {
			t.Error("it waits after its end")
		}
	})
}
