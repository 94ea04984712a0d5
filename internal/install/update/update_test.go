package update_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/board/slot"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/update"
	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/site"
)

func TestUpdate(t *testing.T) {
	b := newBoard(t)
	before, file := b.running(), b.file("1.3.0")
	out, err := b.updater().Update(t.Context(), update.Order{From: update.Source{Path: file}})
	if err != nil {
		t.Fatal(err)
	}
	if out.Version != "1.3.0" || out.Slot != slot.B || out.Current != "1.2.3" || out.Written == 0 || out.Written >= 2<<20 {
		t.Errorf("the outcome is %+v; the zeros of the root were there already", out)
	}
	b.holds("1.3.0")
	if b.oneShot() != slot.B || b.restarts != 1 {
		t.Errorf("the one shot is %q after %d restarts", b.oneShot(), b.restarts)
	}
	for path, want := range before {
		if b.Read(path) != want {
			t.Errorf("%s was changed", path)
		}
	}
	if s := b.status(); s.Phase != site.UpdateRestarting || s.Target != "1.3.0" || s.Other.Version != "1.3.0" || s.Default != "a" {
		t.Errorf("the status is %+v", s)
	}
	var phases []site.UpdatePhase
	for _, s := range b.seen {
		phases = append(phases, s.Phase)
	}
	if got := slices.Compact(phases); !slices.Equal(got, []site.UpdatePhase{"checking", "writing", "verifying", "idle", "restarting"}) &&
		!slices.Equal(got, []site.UpdatePhase{"checking", "writing", "verifying", "restarting"}) {
		t.Errorf("the phases were %v", got)
	}
	if err := b.install(file); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "about to restart") {
		t.Errorf("another update at once: %v", err)
	}
}

// What is written reaches the card piece by piece: a commit of the gateway waits for what the
// card has queued.
func TestUpdate_flushes(t *testing.T) {
	t.Setenv("TMPDIR", disk)
	b := newBoard(t)
	most := map[site.UpdatePhase]int64{}
	b.onShow = func(s site.UpdateStatus) {
		switch s.Phase {
		case site.UpdateFetching:
			most[s.Phase] = max(most[s.Phase], b.Waiting("var/lib/gatehouse-update/download"))
		case site.UpdateWriting:
			most[s.Phase] = max(most[s.Phase], b.Waiting("dev/mmcblk0p3"))
		}
	}
	if err := b.fetch(serve(t, &server{raw: b.big()})); err != nil {
		t.Fatal(err)
	}
	for phase, waiting := range most {
		if waiting > 2*durable.FlushSize {
			t.Errorf("%s: %d bytes waited", phase, waiting)
		}
	}
	if len(most) != 2 {
		t.Errorf("seen were %v", most)
	}
}

// What the card has already is not written again.
func TestUpdate_again(t *testing.T) {
	b := newBoard(t)
	order := update.Order{From: update.Source{Path: b.file("1.3.0")}, At: time.Now().Add(time.Hour)}
	if _, err := b.updater().Update(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	out, err := b.updater().Update(t.Context(), order)
	if err != nil || out.Written != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	order.From.Path = b.file("1.4.1")
	if out, err = b.updater().Update(t.Context(), order); err != nil || out.Written == 0 || out.Written > 1<<19 {
		t.Errorf("of a version with one other block: %+v, %v", out, err)
	}
	b.holds("1.4.1")
	if s := b.status(); s.Phase != site.UpdateWaiting || s.Target != "1.4.1" || !s.At.Equal(site.At(order.At).Time) || b.wakes != 6 {
		t.Errorf("the status is %+v after %d wakes", s, b.wakes)
	}
}

func TestUpdate_refuses(t *testing.T) {
	other, err := api.Generate("other")
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*updatefile.Release)) updatefile.Release {
		r := release("1.3.0")
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		raw     func(b *board) []byte
		prepare func(b *board)
		sum     string
		want    string
	}{
		"an older version": {raw: func(b *board) []byte { return b.genuine("1.2.2") }, want: "older than 1.2.3"},
		"the same version": {raw: func(b *board) []byte { return b.genuine("1.2.3") }, want: "runs already"},
		"a release before": {raw: func(b *board) []byte { return b.genuine("1.2.3~rc1") }, want: "older than 1.2.3"},
		"another family": {raw: func(b *board) []byte {
			return pack(t, b.key, changed(func(r *updatefile.Release) { r.Family = "gatehouse-amd64" }))
		}, want: "for boards of the family gatehouse-amd64"},
		"an unknown key":  {raw: func(*board) []byte { return pack(t, other, release("1.3.0")) }, want: "signed with the key other"},
		"no key":          {raw: func(b *board) []byte { return b.genuine("1.3.0") }, prepare: func(b *board) { b.trust() }, want: "This image has no key"},
		"no file of keys": {raw: func(b *board) []byte { return b.genuine("1.3.0") }, prepare: func(b *board) { _ = os.Remove(b.Path("usr/lib/gatehouse-image/update-keys")) }, want: "This image has no key"},
		"another file":    {raw: func(*board) []byte { return []byte("PK") }, want: "no update of Gatehouse"},
		"a root too large": {raw: func(b *board) []byte {
			return pack(t, b.key, changed(func(r *updatefile.Release) { r.Root = strings.NewReader(string(make([]byte, 8<<20))) }))
		}, want: "no room for the update: it needs"},
		"a foreign entry": {raw: func(b *board) []byte {
			return pack(t, b.key, changed(func(r *updatefile.Release) { r.Entry = strings.NewReader("version 1.3.0\noptions gatehouse.slot=a\n") }))
		}, want: "does not start version 1.3.0 from slot b"},
		"a long entry": {raw: func(b *board) []byte {
			return pack(t, b.key, changed(func(r *updatefile.Release) {
				r.ShellEntry = strings.NewReader("version 1.3.0\noptions gatehouse.slot=@SLOT@ " + strings.Repeat("x", 600) + "\n")
			}))
		}, want: "does not start version 1.3.0 from slot b"},
		"another SHA-256":   {raw: func(b *board) []byte { return b.genuine("1.3.0") }, sum: strings.Repeat("0", 64), want: "another SHA-256"},
		"another start":     {raw: func(b *board) []byte { return b.genuine("1.3.0") }, prepare: func(b *board) { b.Fill("b", "1.2.9"); b.run("b") }, want: "chosen by hand"},
		"a damaged content": {raw: func(b *board) []byte { raw := b.genuine("1.3.0"); raw[len(raw)-1] ^= 1; return raw }, want: "is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			if c.prepare != nil {
				c.prepare(b)
			}
			before, slotB := b.running(), b.Read("dev/mmcblk0p3")
			order := update.Order{From: update.Source{Path: b.put(c.raw(b))}}
			if c.sum != "" {
				order.SHA256 = new(updatefile.Sum)
				if err := order.SHA256.UnmarshalText([]byte(c.sum)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := b.updater().Update(t.Context(), order)
			if sentence := fault.Sentence(err); !strings.Contains(sentence, c.want) || strings.Contains(sentence, "\n") {
				t.Errorf("%v, want %q", err, c.want)
			}
			b.untouched(before)
			if b.Read("dev/mmcblk0p3") != slotB {
				t.Error("the other slot was written to")
			}
			s := b.status()
			if s.Last == nil || s.Last.Outcome != site.UpdateRefused || !strings.Contains(s.Last.Reason, c.want) || s.Phase != site.UpdateIdle {
				t.Errorf("the status is %+v", s)
			}
		})
	}
}

func TestUpdate_check(t *testing.T) {
	b := newBoard(t)
	before := b.running()
	b.settle() // as each start does; it publishes the status
	if _, err := b.updater().Update(t.Context(), update.Order{From: update.Source{Path: b.file("1.2.0")}, Check: true}); !fault.Is(err, fault.Invalid) {
		t.Errorf("of an older version: %v", err)
	}
	b.onShow = func(now site.UpdateStatus) {
		if s := b.status(); s.Phase != site.UpdateIdle { // if it is killed now, nothing was interrupted
			t.Errorf("while %s: the status is %+v", now.Phase, s)
		}
	}
	out, err := b.updater().Update(t.Context(), update.Order{From: update.Source{Path: b.file("1.3.0")}, Check: true})
	if err != nil || !out.Checked || out.Version != "1.3.0" {
		t.Errorf("%+v, %v", out, err)
	}
	b.untouched(before)
	b.cannotStart()
	if s := b.status(); s.Last != nil || s.Phase != site.UpdateIdle {
		t.Errorf("the status is %+v", s)
	}
}

// A signal in whatever phase leaves the board as it was, and the same command continues.
func TestUpdate_interrupted(t *testing.T) {
	for _, phase := range []site.UpdatePhase{site.UpdateChecking, site.UpdateWriting, site.UpdateVerifying} {
		t.Run(string(phase), func(t *testing.T) {
			b := newBoard(t)
			before, file := b.running(), b.file("1.3.0")
			b.Fill("b", "1.2.2")
			ctx, cancel := context.WithCancel(t.Context())
			b.onShow = func(s site.UpdateStatus) {
				if s.Phase == phase && (s.Percent > 20 || phase == site.UpdateVerifying) {
					cancel()
				}
			}
			_, err := b.updater().Update(ctx, update.Order{From: update.Source{Path: file}})
			if err == nil || ctx.Err() == nil {
				t.Fatalf("it went on: %v", err)
			}
			b.untouched(before)
			if phase != site.UpdateChecking {
				b.cannotStart()
			}
			if s := b.status(); s.Last == nil || s.Last.Outcome != site.UpdateFailed || !strings.Contains(s.Last.Reason, "interrupted") {
				t.Errorf("the status is %+v", s)
			}
			b.onShow = nil
			if err := b.install(file); err != nil {
				t.Error(err)
			}
			b.holds("1.3.0")
		})
	}
}

// One process updates at a time. A turn of the service is waited for.
func TestUpdate_locked(t *testing.T) {
	for held, refused := range map[time.Duration]bool{10 * time.Second: false, time.Hour: true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBoard(t)
			b.settle()
			f, err := os.OpenFile(b.Path("var/lib/gatehouse-update/lock"), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			release := time.AfterFunc(held, func() { _ = f.Close() })
			err = b.install(b.file("1.3.0"))
			if fault.Is(err, fault.Conflict) != refused || refused != (err != nil && strings.Contains(err.Error(), "gatehouse update status")) {
				t.Errorf("held for %v: %v", held, err)
			}
			if release.Stop() {
				_ = f.Close()
			}
		})
	}
}

// A card that fails within an update leaves a slot that cannot start, and says so.
func TestUpdate_failingCard(t *testing.T) {
	b := newBoard(t)
	before, file := b.running(), b.file("1.3.0")
	b.onShow = func(s site.UpdateStatus) {
		if s.Phase == site.UpdateWriting && s.Percent > 50 {
			if err := os.Truncate(b.Path("dev/mmcblk0p3"), 1<<20); err != nil {
				t.Error(err)
			}
		}
	}
	if err := b.install(file); !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.Sentence(err), "The card cannot be written") {
		t.Errorf("%v", err)
	}
	b.untouched(before)
	b.cannotStart()
	if s := b.status(); s.Last == nil || s.Last.Outcome != site.UpdateFailed {
		t.Errorf("the status is %+v", s)
	}
}

// Blocks of the other slot that cannot be read, as a power cut within a write may leave them, are
// written. The file that stands for the slot has only its beginning, so that no read behind it succeeds.
func TestUpdate_unreadableBlocks(t *testing.T) {
	b := newBoard(t)
	if err := os.Truncate(b.Path("dev/mmcblk0p3"), 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := b.install(b.file("1.3.0")); err != nil || b.restarts != 1 {
		t.Fatalf("%v, %d restarts", err, b.restarts)
	}
	b.holds("1.3.0")
}

// What the card has made of it is read past every cache.
func TestUpdate_wornCard(t *testing.T) {
	b := newBoard(t)
	before, file := b.running(), b.file("1.3.0")
	b.onShow = func(s site.UpdateStatus) {
		if s.Phase == site.UpdateVerifying {
			b.Write("dev/mmcblk0p3", "x"+b.Read("dev/mmcblk0p3")[1:])
		}
	}
	if err := b.install(file); !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.Sentence(err), "worn out") {
		t.Errorf("%v", err)
	}
	b.untouched(before)
	b.cannotStart()
}

func TestParseSource(t *testing.T) {
	for text, want := range map[string]update.Source{
		"gatehouse.update":            {Path: "gatehouse.update"},
		"/media/usb/x.update":         {Path: "/media/usb/x.update"},
		"https://example.test/x":      {URL: "https://example.test/x"},
		"http://u:p@example.test/?k=": {URL: "http://u:p@example.test/?k="},
	} {
		if got, err := update.ParseSource(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"ftp://secret@example.test/x", "https://", "https://%zz:secret@/", "secret:x://host"} {
		if _, err := update.ParseSource(text); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
