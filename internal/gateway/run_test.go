package gateway_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/gateway"
)

// A component that does not come back delays the end by its budget, and not for ever.
func TestStage_budget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, began := make(chan struct{}), time.Now()
		err := gateway.StopStage(func(context.Context) error { <-release; return nil }, 6*time.Second)
		if err == nil || time.Since(began) != 6*time.Second {
			t.Errorf("ended with %v after %v", err, time.Since(began))
		}
		close(release)
	})
}
