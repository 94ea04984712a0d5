package certificate_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/certificate"
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
		"cut":       func(path string) { text := read(t, path); write(t, path, text[:len(text)/2]) },
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
	for text[at] == '\n' || text[at+1] == '\n' {
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
						all = append(all, name+info.ModTime().String()+info.Mode().String())
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
				h.says(h.cfg.Folder, "remove")
				if file == "ca.key" && what != "another's" && string(k.CA()) != string(ca) {
					t.Errorf("the CA handed out is %q", k.CA())
				}
			})
		}
	}
}

// The advice works: without the damaged ca.crt it is made again from its key, and who
// trusts the lost one trusts what it signs.
func TestKeeper_own_lostCA(t *testing.T) {
	bubble(t, func(h *house) {
		old := h.start().CA()
		write(h, h.path("ca.crt"), "damaged")
		h.cfg.Name = "renamed meanwhile"
		k := h.run()
		h.codes(health.CertificateInvalid)
		remove(h, h.path("ca.crt"))
		pass(0)
		h.codes()
		if leaf(h, read(h, h.path("ca.crt"))).Subject.String() != leaf(h, string(old)).Subject.String() {
			h.Error("the CA made again has another subject")
		}
		before := k.Info().Fingerprint
		h.set(today.Add(300*day), true) // renewed by the CA that was made again
		pass(0)
		if k.Info().Fingerprint == before {
			h.Error("not renewed")
		}
		h.accepts(k, h.trusting(old), "gate")
		h.accepts(k, h.trusting(k.CA()), "gate")
		if string(k.CA()) != read(h, h.path("ca.crt")) {
			h.Error("another CA is handed out")
		}
	})
}

// The other advice works: without both files there is a new CA.
func TestKeeper_own_newCA(t *testing.T) {
	bubble(t, func(h *house) {
		old := h.start().CA()
		write(h, h.path("ca.key"), "damaged")
		k := h.run()
		h.codes(health.CertificateInvalid)
		remove(h, h.path("ca.key"), h.path("ca.crt"))
		pass(0)
		h.codes()
		h.accepts(k, h.trusting(k.CA()), "gate")
		h.refuses(k, h.trusting(old), "gate")
		h.accepts(h.start(), h.trusting(k.CA()), "gate")
	})
}

// Without any good file there is still a certificate, and nothing is written.
func TestKeeper_own_allDamaged(t *testing.T) {
	h := newHouse(t)
	h.start()
	for name := range h.files() {
		write(t, h.path(name), "damaged "+name)
	}
	before := h.files()
	k := h.start()
	if got := k.Info(); got.Source != certificate.Passing || k.CA() != nil || got.CAFingerprint != "" {
		t.Errorf("%+v", got)
	}
	h.accepts(k, client{now: today}, "gate")
	h.codes(health.CertificateInvalid)
	if !maps.Equal(before, h.files()) {
		t.Error("something was written")
	}
}

// A certificate that can no longer be renewed is reported before its end, and replaced
// by one that says less after it.
func TestKeeper_own_cannotRenew(t *testing.T) {
	bubble(t, func(h *house) {
		h.start()
		write(h, h.path("ca.key"), "damaged")
		k := h.run()
		h.set(today.Add(344*day+time.Hour), true)
		pass(0)
		h.codes(health.CertificateInvalid, health.CertificateExpiring)
		if k.Info().Source != certificate.Own {
			h.Errorf("%s", short(k.Info()))
		}
		h.set(today.Add(366*day), true)
		pass(0)
		if k.Info().Source != certificate.Passing {
			h.Errorf("%s", short(k.Info()))
		}
		h.codes(health.CertificateInvalid)
	})
}

// A reload reads the files again: a restored CA is taken up, a damaged one does no
// harm to what is in use.
func TestKeeper_Reload_own(t *testing.T) {
	h := newHouse(t)
	other := newHouse(t)
	otherCA := other.start().CA()
	k := h.start()
	first := k.Info()
	good := h.files()
	for name := range good {
		write(t, h.path(name), "damaged")
	}
	reload := func() {
		t.Helper()
		if err := k.Reload("", ""); err != nil {
			t.Error(err)
		}
	}
	reload()
	if got := k.Info(); got.Fingerprint != first.Fingerprint {
		t.Errorf("%s, then %s", short(first), short(got))
	}
	h.codes(health.CertificateInvalid)
	for name, text := range other.files() {
		write(t, h.path(name), text)
	}
	reload()
	h.codes()
	h.accepts(k, h.trusting(otherCA), "gate")
	remove(t, h.path("ca.key"), h.path("ca.crt"), h.path("server.key"), h.path("server.crt"))
	reload()
	h.codes()
	h.refuses(k, h.trusting(otherCA), "gate")
	h.accepts(k, h.trusting([]byte(read(t, h.path("ca.crt")))), "gate")
}
