package await_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/test/await"
)

// failing is a test that notes how it was ended.
type failing struct {
	testing.TB
	why string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.why = format
	_ = args
	panic(f)
}

// fails reports whether do ends its test.
func fails(t *testing.T, do func(testing.TB)) (failed bool) {
	t.Helper()
	f := &failing{TB: t}
	defer func() {
		if recover() != nil {
			failed = strings.HasPrefix(f.why, "waited in vain")
		}
	}()
	do(f)
	return false
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		await.Until(t, "the third look", func() bool { looks++; return looks == 3 })
		if looks != 3 {
			t.Errorf("%d looks", looks)
		}
		began := time.Now()
		if !fails(t, func(tb testing.TB) { await.Until(tb, "never", func() bool { return false }) }) {
			t.Error("a condition that never holds is no failure")
		}
		if waited := time.Since(began); waited < await.Patience {
			t.Errorf("it waited for %v", waited)
		}
	})
}

func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := make(chan int)
		go func() {
			time.Sleep(await.Patience - 1)
			values <- 7
			close(values)
		}()
		if got := await.Receive(t, "a number", values); got != 7 {
			t.Errorf("got %d", got)
		}
		if got := await.Receive(t, "the end", values); got != 0 {
			t.Errorf("got %d", got)
		}
		if !fails(t, func(tb testing.TB) { await.Receive(tb, "nothing", make(chan int)) }) {
			t.Error("a channel that stays silent is no failure")
		}
	})
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := await.Context(t)
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("it ended with %v", ctx.Err())
		}
	})
}
