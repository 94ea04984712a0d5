package systemlog_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/systemlog"
	"gatehouse/internal/test/await"
)

// stuck is a reader that takes nothing until it is released.
type stuck struct {
	release chan struct{}
	text    bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.release
	return s.text.Write(p)
}

// The log has no reader: no call waits, what does not fit is dropped and counted, and
// what matters is not lost to chatter.
func TestQueue_noReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{release: make(chan struct{})}
		q := systemlog.New(out, false, slog.LevelInfo)
		log := q.Logger().With("part", "test")
		log.Info("first") // in the hands of the writer
		synctest.Wait()
		const lines = 20_000
		for i := range lines {
			log.Info("chatter", "n", i)
		}
		for i := range 1000 {
			log.Warn("record kept in memory", "n", i)
		}
		close(out.release)
		q.Close(time.Second)
		text := out.text.String()
		kept := strings.Count(text, "msg=chatter")
		if kept == 0 || kept == lines || strings.Count(text, "record kept in memory") != 1000 {
			t.Errorf("%d lines of chatter and %d records were kept", kept, strings.Count(text, "record kept in memory"))
		}
		if want := `level=WARN msg="log lines dropped" count=` + strconv.Itoa(lines-kept) + "\n"; !strings.HasSuffix(text, want) {
			t.Errorf("the log ends with %q, want %q", text[max(0, len(text)-100):], want)
		}
		if !strings.HasPrefix(text, "time=") || !strings.Contains(text, "msg=first part=test") {
			t.Errorf("the log begins with %q", text[:100])
		}
	})
}

// A reader that never comes back does not keep the process from ending.
func TestQueue_Close_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{release: make(chan struct{})}
		q := systemlog.New(out, true, slog.LevelInfo)
		q.Logger().Info("one")
		began := time.Now()
		q.Close(time.Second)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("waited for %s", waited)
		}
		close(out.release)
	})
}

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// A reader that has gone ends nothing.
func TestQueue_readerGone(t *testing.T) {
	q := systemlog.New(gone{}, false, slog.LevelInfo)
	for range 100 {
		q.Logger().Info("one")
	}
	q.Close(await.Patience)
}

func TestQueue_formatAndLevel(t *testing.T) {
	var out bytes.Buffer
	q := systemlog.New(&out, true, slog.LevelWarn)
	q.Logger().Info("hidden")
	q.Logger().WithGroup("g").Error("shown", "n", 1)
	q.Close(await.Patience)
	if text := out.String(); !strings.HasSuffix(text, `"level":"ERROR","msg":"shown","g":{"n":1}}`+"\n") || strings.Contains(text, "hidden") {
		t.Errorf("logged %q", text)
	}
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := systemlog.NewLimiter(slog.New(slog.NewTextHandler(&out, nil)), time.Second, 3)
		for range 10 {
			l.Info("event", "station", 1)
		}
		<-time.After(time.Second)
		l.Warn("event", "station", 1)
		text := out.String()
		if n := strings.Count(text, "\n"); n != 4 {
			t.Errorf("%d lines, want 4", n)
		}
		if !strings.HasSuffix(text, "level=WARN msg=event station=1 skipped=7\n") {
			t.Errorf("logged %q", text)
		}
	})
}
