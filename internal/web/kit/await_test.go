package kit_test

import (
	"context"
	"errors"
	"fmt"
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

func TestAwait_panic(t *testing.T) {
	defer func() {
		got, ok := recover().(*kit.Panic)
		if !ok || got.Value != "broken" || !strings.Contains(string(got.Stack), "TestAwait_panic") {
			t.Errorf("recovered %+v", got)
		}
		if text := fmt.Sprint(got); !strings.HasPrefix(text, "broken\n\n") || !strings.Contains(text, "TestAwait_panic") {
			t.Errorf("it prints as %s", text)
		}
	}()
	_, _ = kit.Await(t.Context(), func(context.Context) (int, error) { panic("broken") })
}
