package certificate_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gatehouse/internal/board/certificate"
	"gatehouse/internal/health"
)

// damages is what can happen to a file.
func damages(t testing.TB) map[string]func(path string) {
	t.Helper()
	other := newHouse(t)
	other.start()
	return map[string]func(path string){
		"gone":      func(path string) { remove(t, path) },
		"empty":     func(path string) { write(t, path, "") },
		"garbage":   func(path string) { write(t, path, strings.Repeat("\x00\xff-----BEGIN ", 100)) },
		"cut":       func(path string) { text := read(t, path); write(t, path, text[:len(text)/3]) }, // within the first of two certificates
		"bent":      func(path string) { write(t, path, bend(read(t, path))) },
		"another's": func(path string) { write(t, path, read(t, other.path(path[strings.LastIndex(path, "/")+1:]))) },
		"a folder": func(path string) {
			remove(t, path)
			if err := os.MkdirAll(path+"/x", 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"endless": func(path string) {
			remove(t, path)
			if err := os.Symlink("/dev/zero", path); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// bend changes a character of a PEM text, in a key one of its secret part.
func bend(text string) string {
	at := len(text) * 2 / 5
	for text[at] == '\n' || text[at+1] == '\n' || text[at:at+2] == "AA" {
		at++
	}
	return text[:at] + string(text[at+1]) + "A" + text[at+2:]
}

// A damaged server key or certificate is made again, by the same CA.
func TestKeeper_own_damagedServer(t *testing.T) {
	for what, damage := range damages(t) {
		for _, file := range []string{"server.key", "server.crt"} {
			t.Run(what+" "+file, func(t *testing.T) {
				h := newHouse(t)
				first := h.start()
				ca, before := first.CA(), h.files()
				damage(h.path(file))
				k := h.start()
				h.accepts(k, h.trusting(ca), "gate", "192.168.1.20")
				if what == "a folder" { // it cannot be written over
					h.codes(health.CertificateNotKept)
					return
				}
				h.codes()
				again := h.start()
				if a, b := k.Info(), again.Info(); a.Fingerprint != b.Fingerprint || a.CAFingerprint != first.Info().CAFingerprint {
					t.Errorf("%s, and at the next start %s", short(a), short(b))
				}
				after := h.files()
				if before["ca.key"] != after["ca.key"] || before["ca.crt"] != after["ca.crt"] {
					t.Error("the CA was written")
				}
				if file == "server.crt" && before["server.key"] != after["server.key"] {
					t.Error("a good key was replaced")
				}
			})
		}
	}
}

// A damaged CA is left as it is and reported; the certificate stays in use.
func TestKeeper_own_damagedCA(t *testing.T) {
	for what, damage := range damages(t) {
		for _, file := range []string{"ca.key", "ca.crt"} {
			if what == "gone" && file == "ca.crt" {
				continue // TestKeeper_own_lostCA
			}
			t.Run(what+" "+file, func(t *testing.T) {
				h := newHouse(t)
				first := h.start()
				ca := first.CA()
				damage(h.path(file))
				states := func() (all []string) {
					for _, name := range []string{"ca.key", "ca.crt", "server.key", "server.crt"} {
						info, err := os.Lstat(h.path(name))
						if err != nil {
							all = append(all, name+" is gone")
							continue
						}
						all = append(all, fmt.Sprint(name, info.Sys().(*syscall.Stat_t).Ino, info.ModTime(), info.Mode()))
					}
					return all
				}
				before := states()
				h.cfg.Hostname = "another" // would be a reason to renew
				h.set(today.Add(300*day), true)
				k := h.start()
				if got := k.Info(); got.Fingerprint != first.Info().Fingerprint || got.Source != certificate.Own {
					t.Errorf("%s, then %s", short(first.Info()), short(got))
				}
				h.accepts(k, h.trusting(ca), "gate")
				if after := states(); !slices.Equal(before, after) {
					t.Errorf("files %v, then %v", before, after)
				}
				h.codes(health.CertificateInvalid)
				h.reports(h.cfg.Folder, "remove")
				want := string(ca)
				if file == "ca.crt" { // what is there should not be installed
					want = ""
				}
				if got := string(k.CA()); got != want {
					t.Errorf("the CA handed out is %q, want %q", got, want)
				}
			})
		}
	}
}
