package kit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/web/kit"
)

func TestAwait(t *testing.T) {
	broken := errors.New("broken")
	got, err := kit.Await(t.Context(), func(context.Context) (int, error) { return 7, broken })
	if got != 7 || !errors.Is(err, broken) {
		t.Errorf("%d, %v", got, err)
	}
}

// A call that notices the end of its context has the word.
func TestAwait_ended(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := kit.Await(ctx, func(ctx context.Context) (int, error) {
		cancel()
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A call that waits for a disk that hangs keeps its caller no longer than the deadline.
func TestAwait_hanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := make(chan struct{})
		defer close(disk)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		_, err := kit.Await(ctx, func(context.Context) (int, error) { <-disk; return 1, nil })
		if !fault.Is(err, fault.Unavailable) || time.Since(began) != 11*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// A panic is an error with its place and without its words.
func TestAwait_panic(t *testing.T) {
	_, err := kit.Await(t.Context(), func(context.Context) (int, error) { panic("a secret") })
	if err == nil || !strings.HasPrefix(err.Error(), "panic: string\n") || !strings.Contains(err.Error(), "TestAwait_panic") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if fault.KindOf(err) != fault.Internal {
		t.Errorf("it is %d", fault.KindOf(err))
	}
}
