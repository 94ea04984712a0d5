package homeassistant_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/health"
)

// A day without the broker has one line in the log for each reason, although the text of a
// reason differs each time.
func TestLink_down_logsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		attempts, reason := 0, "reset"
		l := newHouse().link()
		l.Logger, l.Broker = slog.New(slog.NewTextHandler(&log, nil)), mqttclient.Broker{URL: "tcp://127.0.0.1"}
		l.Find = func(string) (string, error) {
			attempts++
			return "", fmt.Errorf("read tcp 192.0.2.1:%d->192.0.2.7:1883: %s at %s", attempts, reason, time.Now())
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		for _, next := range []string{"stalled", "reset"} {
			time.Sleep(10 * time.Hour)
			synctest.Wait()
			reason = next
		}
		time.Sleep(4 * time.Hour)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := bytes.Count(log.Bytes(), []byte("\n")); n != 2 {
			t.Errorf("%d lines and %d bytes of %d attempts:\n%.1000s", n, log.Len(), attempts, &log)
		}
		if c := l.Health.Conditions(); len(c) != 1 || c[0].Code != health.HomeAssistantDown {
			t.Errorf("conditions %+v", c)
		}
	})
}
