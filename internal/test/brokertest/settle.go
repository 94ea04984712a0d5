package brokertest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gatehouse/internal/test/await"
)

// Settle returns when Mosquitto has written down what it was told so far, which a signal
// asks it for; NATS does so before it acknowledges.
func (b *Broker) Settle(t testing.TB) {
	t.Helper()
	if b.Name != "mosquitto" {
		return
	}
	file := filepath.Join(filepath.Dir(b.log), "mosquitto.db")
	before, _ := os.Stat(file)
	await.Until(t, "mosquitto has replaced its database", func() bool {
		if err := syscall.Kill(b.PID(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(file)
		return err == nil && !os.SameFile(before, now)
	})
}
