package brokertest

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Settle returns when Mosquitto has written down what it was told so far, as it does
// once a second; NATS does so before it acknowledges.
func (b *Broker) Settle(t testing.TB) {
	t.Helper()
	if b.Name != "mosquitto" {
		return
	}
	file := filepath.Join(filepath.Dir(b.log), "mosquitto.db")
	began := time.Now()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if info, err := os.Stat(file); err == nil && info.ModTime().After(began) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("mosquitto does not write its database")
		}
	}
}
