package mqttclient_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/mqttclient"
)

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
		}, func(err error, wait time.Duration) {
			most := 20 * time.Second
			if tries == 1 || tries == 100 {
				most = 4 * time.Second
			}
			if longest = max(longest, wait); !errors.Is(err, why) || wait < time.Second || wait > most {
				t.Errorf("after try %d: %v, a wait of %s", tries, err, wait)
			}
		})
		if tries != 101 || longest < 10*time.Second {
			t.Errorf("%d tries, the longest wait was %s", tries, longest)
		}
		cancel()
		began := time.Now()
		mqttclient.Backoff{}.Retry(ctx, func(context.Context) error { return why }, func(error, time.Duration) { t.Error("it has ended") })
		if time.Since(began) > 0 {
			t.Error("it waits after its end")
		}
	})
}
