package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rsc.io/qr"

	"gatehouse/internal/site"
)

// A terminal shows a row for each station, cut at its width and its height, and every
// drawing is over the one before.
func TestScreen(t *testing.T) {
	far, near := openTerminal(t)
	s := (&app{stdout: near}).screen("STATION", "NAME")
	if s == nil {
		t.Fatal("a terminal is not taken for one")
	}
	set := func(id site.StationID, cells ...string) {
		if err := s.set(id, cells...); err != nil {
			t.Error(err)
		}
	}
	s.rows[7] = []string{"7", "North\x1b[2J" + strings.Repeat("n", 80)}
	set(8, "8", "South") // drawn soon, with station 7
	var seen strings.Builder
	readUntil(t, far, &seen, "\x1b[?7h")
	cut := "7        North\uFFFD[2J" + strings.Repeat("n", 61) + "…"
	want := "\x1b[?7lSTATION  NAME\x1b[K\r\n" + cut + "\x1b[K\r\n8        South\x1b[K\r\n\x1b[J\x1b[?7h"
	if seen.String() != want {
		t.Errorf("got %q, want %q", seen.String(), want)
	}
	s.mu.Lock()
	s.rows[8], s.rows[9] = []string{"8", "South 2"}, []string{"9", "East"}
	s.mu.Unlock()
	set(7)
	s.end()
	readUntil(t, far, &seen, "South 2\x1b[K\r\n9        East\x1b[K\r\n\x1b[J\x1b[?7h")
	if rest := strings.TrimPrefix(seen.String(), want); !strings.HasPrefix(rest, "\x1b[?7l\r\x1b[3ASTATION  NAME\x1b[K\r\n8") {
		t.Errorf("the next drawing is %q", rest)
	}
	s.clear()
	for id := range site.StationID(4) {
		s.rows[20+id] = []string{fmt.Sprint(20 + id), "x"}
	}
	set(20, "20", "x")
	s.end() // on 6 lines
	readUntil(t, far, &seen, "22       x\x1b[K\r\nand 1 station more\x1b[K\r\n\x1b[J")
}

// What is no terminal, or is one that cannot be drawn on, gets lines.
func TestApp_screen_none(t *testing.T) {
	_, near := openTerminal(t)
	for name, a := range map[string]*app{
		"buffer": {stdout: new(bytes.Buffer)}, "JSON": {stdout: near, json: true}, "dumb": {stdout: near, environ: []string{"TERM=dumb"}},
	} {
		if a.screen("STATION") != nil {
			t.Errorf("%s: there is a screen", name)
		}
	}
}

// Only what takes longer than a second shows that it works, only on a terminal, and leaves
// nothing behind.
func TestApp_working(t *testing.T) {
	far, near := openTerminal(t)
	synctest.Test(t, func(t *testing.T) {
		a := &app{stderr: near}
		a.working("Quick")()
		done := a.working("Checking")
		<-time.After(2500 * time.Millisecond)
		done()
		done()
		var seen strings.Builder
		readUntil(t, far, &seen, "2s\x1b[K\r\x1b[K")
		if got := seen.String(); got != "\rChecking … 1s\x1b[K\rChecking … 2s\x1b[K\r\x1b[K" {
			t.Errorf("got %q", got)
		}
		var text bytes.Buffer
		done = (&app{stderr: &text}).working("Checking")
		<-time.After(time.Minute)
		done()
		if text.Len() > 0 {
			t.Errorf("a file has %q", text.String())
		}
	})
}

// The blocks are the modules of the code, with a quiet zone around them.
func TestLines_qr(t *testing.T) {
	const text = "mqtts://station-7:ABCDEFGHIJKLMNOPQRSTUVWXYZ@192.0.2.7:8883"
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		t.Fatal(err)
	}
	for _, colours := range []bool{false, true} {
		var out bytes.Buffer
		(&lines{w: &out}).qr(text, colours)
		rows := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(rows) != (code.Size+8+1)/2 || len(rows) > 30 {
			t.Fatalf("%d rows", len(rows))
		}
		for i, row := range rows {
			bare := strings.TrimSuffix(strings.TrimPrefix(row, "\x1b[38;5;231;48;5;16m"), "\x1b[0m")
			if (bare != row) != colours {
				t.Fatalf("row %d is %q", i, row)
			}
			for x, r := range []rune(bare) {
				above, below := r == '█' || r == '▀', r == '█' || r == '▄'
				if above == code.Black(x-4, 2*i-4) || below == code.Black(x-4, 2*i-3) {
					t.Fatalf("row %d, column %d is %q", i, x, r)
				}
			}
		}
	}
}
