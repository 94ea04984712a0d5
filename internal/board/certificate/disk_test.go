package certificate_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/certificate"
	"gatehouse/internal/health"
	"gatehouse/internal/test/gatewaytest"
)

// steps counts the steps of writing and breaks off before the one with the number.
func steps(count *int, number int, breakOff func(step string) error) func(string) error {
	return func(step string) error {
		if *count++; *count == number {
			return breakOff(step)
		}
		return nil
	}
}

// occasions are when something is written; each returns the CA that clients trust
// already, nil where there is none.
func occasions() map[string]func(h *house) []byte {
	return map[string]func(h *house) []byte{
		"first start": func(*house) []byte { return nil },
		"renewal": func(h *house) []byte {
			ca := h.start().CA()
			h.cfg.Hostname = "porch"
			return ca
		},
		"damaged server key": func(h *house) []byte {
			ca := h.start().CA()
			write(h, h.path("server.key"), "damaged")
			return ca
		},
		"lost CA": func(h *house) []byte {
			ca := h.start().CA()
			remove(h, h.path("ca.crt"))
			h.cfg.Hostname = "porch"
			return ca
		},
	}
}

// number returns how many steps an occasion has.
func number(t *testing.T, prepare func(*house) []byte) int {
	t.Helper()
	h, count := newHouse(t), 0
	prepare(h)
	if _, err := certificate.NewBroken(h.cfg, steps(&count, -1, nil)); err != nil || count == 0 {
		t.Fatalf("%d steps, %v", count, err)
	}
	return count
}

// The power may go before any step: the next start has a whole pair by the CA that
// clients trust, without help.
func TestKeeper_own_powerCut(t *testing.T) {
	for name, prepare := range occasions() {
		for n := 1; n <= number(t, prepare); n++ {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				h, count := newHouse(t), 0
				ca := prepare(h)
				func() {
					defer func() { _ = recover() }()
					_, _ = certificate.NewBroken(h.cfg, steps(&count, n, func(step string) error { panic(step) }))
					t.Error("the power did not go")
				}()
				k := h.start()
				h.codes()
				if ca == nil {
					ca = k.CA()
				}
				h.accepts(k, h.trusting(ca), h.cfg.Hostname+".local")
				h.sound(k)
			})
		}
	}
}

// sound checks that the folder has what is served, whole, and no remains.
func (h *house) sound(k *certificate.Keeper) {
	h.Helper()
	var names []string
	for name := range h.files() {
		names = append(names, name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"ca.crt", "ca.key", "server.crt", "server.key"}) {
		h.Errorf("files %v", names)
	}
	again := h.start()
	if a, b := k.Info(), again.Info(); a.Fingerprint != b.Fingerprint || a.CAFingerprint != b.CAFingerprint || b.Source != certificate.Own {
		h.Errorf("%s, and at the next start %s", short(a), short(b))
	}
	if !bytes.Equal(k.CA(), again.CA()) || k.CA() == nil {
		h.Errorf("CA %q, and at the next start %q", k.CA(), again.CA())
	}
}

// Any step may fail: there is a certificate in use by the CA that clients trust, and
// later it is kept.
func TestKeeper_own_failingDisk(t *testing.T) {
	for name, prepare := range occasions() {
		for n := 1; n <= number(t, prepare); n++ {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				bubble(t, func(h *house) {
					ca := prepare(h)
					var count atomic.Int64
					var mended atomic.Bool
					k, err := certificate.NewBroken(h.cfg, func(string) error {
						if count.Add(1) >= int64(n) && !mended.Load() {
							return errors.New("the disk is worn")
						}
						return nil
					})
					if err != nil {
						h.Fatal(err)
					}
					go func() { _ = k.Run(h.Context()) }()
					pass(certificate.RetryAfter / 2)
					h.codes(health.CertificateNotKept)
					h.reports(h.cfg.Folder, "df and dmesg", "at the next start")
					h.accepts(k, client{now: today}, h.cfg.Hostname)
					if ca != nil {
						h.accepts(k, h.trusting(ca), h.cfg.Hostname+".local")
					}
					if k.CA() != nil && string(k.CA()) != read(h, h.path("ca.crt")) {
						h.Error("a CA is handed out that is not kept")
					}
					if got := count.Load(); got > int64(3*n+12) {
						h.Errorf("%d tries in five minutes", got)
					}
					if got := strings.Count(h.log.String(), "level=WARN"); got != 1 {
						h.Errorf("%d warnings in the log:\n%s", got, h.log)
					}
					before := k.Info()
					mended.Store(true)
					pass(certificate.RetryAfter)
					h.codes()
					h.sound(k)
					if k.Info().Fingerprint != before.Fingerprint {
						h.Errorf("%s, then %s", short(before), short(k.Info()))
					}
				})
			})
		}
	}
}

// A real disk that is read-only, and one that is full.
func TestKeeper_own_realDisk(t *testing.T) {
	if !gatewaytest.InNamespaces(t) {
		return
	}
	mount := func(h *house) (data string) {
		data = filepath.Dir(h.cfg.Folder)
		if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size=64k"); err != nil {
			h.Fatal(err)
		}
		h.Cleanup(func() { _ = unix.Unmount(data, unix.MNT_DETACH) })
		return data
	}
	readOnly := func(h *house, data string) (repair func()) {
		remount := func(flags uintptr) {
			if err := unix.Mount("", data, "", unix.MS_REMOUNT|flags, ""); err != nil {
				h.Fatal(err)
			}
		}
		remount(unix.MS_RDONLY)
		return func() { remount(0) }
	}
	full := func(h *house, data string) (repair func()) {
		filler, err := os.Create(filepath.Join(data, "filler"))
		if err != nil {
			h.Fatal(err)
		}
		defer filler.Close()
		for {
			if _, err := filler.WriteString(strings.Repeat("x", 4096)); errors.Is(err, unix.ENOSPC) {
				return func() { remove(h, filler.Name()) }
			}
		}
	}
	for name, breakDisk := range map[string]func(*house, string) func(){"read-only": readOnly, "full": full} {
		for _, started := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " started before: ", started), func(t *testing.T) {
				bubble(t, func(h *house) {
					data := mount(h)
					var ca []byte
					if started {
						ca = h.start().CA()
						h.cfg.Hostname = "porch"
					}
					repair := breakDisk(h, data)
					k := h.run()
					h.codes(health.CertificateNotKept)
					h.accepts(k, client{now: today}, h.cfg.Hostname)
					if started {
						h.accepts(k, h.trusting(ca), h.cfg.Hostname+".local")
					} else if k.CA() != nil {
						h.Error("a CA is handed out that is not kept")
					}
					repair()
					pass(certificate.RetryAfter)
					h.codes()
					h.sound(k)
				})
			})
		}
	}
}

// A folder that appears late, because its disk does, has the CA that counts.
func TestKeeper_own_lateDisk(t *testing.T) {
	bubble(t, func(h *house) {
		ca := h.start().CA()
		if err := os.Rename(h.cfg.Folder, h.cfg.Folder+".elsewhere"); err != nil {
			h.Fatal(err)
		}
		k, err := certificate.NewBroken(h.cfg, func(string) error { return unix.EROFS })
		if err != nil {
			h.Fatal(err)
		}
		go func() { _ = k.Run(h.Context()) }()
		h.refuses(k, h.trusting(ca), "gate")
		if err := os.Rename(h.cfg.Folder+".elsewhere", h.cfg.Folder); err != nil {
			h.Fatal(err)
		}
		pass(0)
		h.accepts(k, h.trusting(ca), "gate")
		h.codes()
	})
}
