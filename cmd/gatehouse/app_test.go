package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Every command explains itself: a reader of --help finds what it does, and each
// flag what it is for.
func TestRoot_everyCommandIsDescribed(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "help" {
			return
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short description %q", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Args == nil {
			t.Errorf("%s does not say which arguments it takes", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Long) {
			if len(line) > 90 {
				t.Errorf("%s: a line of %d characters: %s", cmd.CommandPath(), len(line), line)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
}

func TestApp_exit(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		started bool
		code    int
		says    string
	}{
		"done":              {nil, true, 0, ""},
		"usage before":      {errors.New("unknown flag: --x"), false, 2, "gatehouse: unknown flag: --x\nRun 'gatehouse --help' for how to use it.\n"},
		"usage seen later":  {wrongUsagef("no such kind"), true, 2, "gatehouse: no such kind\nRun 'gatehouse --help' for how to use it.\n"},
		"failure":           {errors.New("reading the file: no such file"), true, 1, "gatehouse: reading the file: no such file\n"},
		"several problems":  {errors.New("a.toml:1: bad\na.toml:2: worse"), true, 1, "gatehouse: a.toml:1: bad\ngatehouse: a.toml:2: worse\n"},
		"sentence only":     {fmt.Errorf("calling: %w", fault.Wrap(fault.Conflict, "Station 7 exists", errors.New("UNIQUE constraint"))), true, 1, "gatehouse: station 7 exists\n"},
		"internal":          {fault.New(fault.Internal, "Internal error"), true, 1, "gatehouse: internal error; the log of the gateway says why\n"},
		"come back later":   {fault.Throttle("Too many", 30*time.Second), true, 1, "gatehouse: too many; try again in 30s\n"},
		"said already":      {fault.Throttle("Too many logins at once; try again", 5*time.Second), true, 1, "gatehouse: too many logins at once; try again in 5s\n"},
		"said with later":   {fault.Throttle("Too many failed logins; try again later", time.Minute), true, 1, "gatehouse: too many failed logins; try again in 1m0s\n"},
		"interrupted":       {fmt.Errorf("calling: %w", context.Canceled), true, 1, "gatehouse: interrupted\n"},
		"usage, no address": {wrongUsage(errors.New("bad")), true, 2, "gatehouse: bad\nRun 'gatehouse --help' for how to use it.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr strings.Builder
			a := &app{stderr: &stderr, started: test.started}
			if code := a.exit(a.root(), test.err); code != test.code {
				t.Errorf("status %d, want %d", code, test.code)
			}
			if stderr.String() != test.says {
				t.Errorf("says %q, want %q", stderr.String(), test.says)
			}
		})
	}
}

// A station's name or an app's words must not control the terminal on which they are
// listed.
func TestLines_neverControlTheTerminal(t *testing.T) {
	evil := "North\x1b]0;owned\x07\n\u202egate\u009b31m"
	var out strings.Builder
	w := &lines{w: &out}
	w.table([][]string{{"NAME"}, {evil}})
	w.table([][]string{{"Name", evil}})
	w.printf("%s", factsText(site.Record{Facts: site.Facts{Station: 1, Detail: evil, Remote: evil}}, map[site.StationID]string{1: evil}))
	if text := out.String(); strings.ContainsAny(text, "\x1b\x07\u202e\u009b") || strings.Count(text, "\n") != 4 {
		t.Errorf("%q", text)
	}
}

func TestFactsText(t *testing.T) {
	const common = `porter@example.test  by uid 0 (root) (signed by kid)  station 1042 (North entrance)  lock-1  late  answer puback  unlocked  3.71 V  from 192.0.2.7  from the cloud  said "no", twice  `
	for want, change := range map[string]func(*site.Record){
		"2 times  jti jti":            func(r *site.Record) { r.From, r.To = 0, 0 },
		"2 sessions  jti jti":         func(r *site.Record) { r.From, r.To, r.Kind = 0, 0, site.KindRestored },
		"records 101 to 500  jti jti": func(*site.Record) {},
		"records 500 to 500":          func(r *site.Record) { r.From, r.JTI = 500, "" },
	} {
		r := fullRecord()
		r.Origin = site.Cloud
		change(&r)
		if got := factsText(r, map[site.StationID]string{1042: "North entrance"}); got != common+want {
			t.Errorf("got  %s\nwant %s", got, common+want)
		}
	}
}

// blockingReader reports that it is read, and returns nothing until the test ends.
type blockingReader struct {
	t    *testing.T
	read func()
}

func (b blockingReader) Read([]byte) (int, error) {
	b.read()
	<-b.t.Context().Done()
	return 0, io.EOF
}

// An interrupt ends a command that waits for a password.
func TestRun_interruptedAtThePassword(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var stderr strings.Builder
	args := []string{"account", "add", "porter@example.test", "--password-stdin", "--socket", "none.sock"}
	if code := run(ctx, args, blockingReader{t, cancel}, io.Discard, &stderr, nil); code != exitFailed {
		t.Errorf("status %d, want 1", code)
	}
	if stderr.String() != "gatehouse: interrupted\n" {
		t.Errorf("says %q", stderr.String())
	}
}

// fullRecord returns a record in which every field is set.
func fullRecord() site.Record {
	voltage := 3.71
	return site.Record{
		Seq: 17, Time: site.At(time.Date(2026, 11, 21, 8, 0, 0, 5e6, time.UTC)), ClockTrusted: true, Boot: "boot", Kind: site.KindUnlock,
		Facts: site.Facts{
			Origin: site.Local, Account: "acc", Email: "porter@example.test", Session: "ses", By: "uid 0 (root)",
			Station: 1042, Lock: "lock-1", Command: "cmd", Outcome: site.Late, Answer: "puback", IdempotencyKey: "key",
			Status: site.Unlocked, BatteryVoltage: &voltage, Remote: "192.0.2.7", Detail: `said "no", twice`, Count: 2,
			JTI: "jti", KeyID: "kid", From: 101, To: 500,
		},
	}
}
