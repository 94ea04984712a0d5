package access_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/argon2"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

func TestCheckPassword(t *testing.T) {
	if err := access.CheckPassword(porter, right); err != nil {
		t.Errorf("a good one is refused: %v", err)
	}
	for password, want := range map[string]string{ // no sentence repeats the password
		"short12":                "The password is too short: 8 characters at least",
		strings.Repeat("x", 257): "The password is too long: 256 bytes at most",
		porter:                   "The password must not be the e-mail address",
		"Qwertyuiop":             "The password is one of the most common ones; choose another",
	} {
		err := access.CheckPassword(porter, site.Secret(password))
		if !fault.Is(err, fault.Invalid) || err.Error() != want {
			t.Errorf("%q: %v", password, err)
		}
	}
}

func TestGeneratePassword(t *testing.T) {
	seen := make(map[site.Secret]bool)
	used := make(map[rune]bool)
	for range 500 {
		password := access.GeneratePassword()
		if len(password) != 20 || seen[password] || strings.ContainsAny(password.Reveal(), "0O1lIio ") {
			t.Fatalf("%q is no good password", password.Reveal())
		}
		if err := access.CheckPassword(porter, password); err != nil {
			t.Fatal(err)
		}
		seen[password] = true
		for _, c := range password.Reveal() {
			used[c] = true
		}
	}
	if len(used) != 31 {
		t.Errorf("%d characters are used, want all 31", len(used))
	}
}

// A byte that would make some characters likelier than others, 248 or above, is skipped.
func TestGeneratePassword_skipsUnfairBytes(t *testing.T) {
	before := rand.Reader
	t.Cleanup(func() { rand.Reader = before })
	drawn := []byte{248, 255, 247}
	for b := range byte(37) {
		drawn = append(drawn, b)
	}
	rand.Reader = bytes.NewReader(drawn) // two draws of 20 bytes
	if got := access.GeneratePassword().Reveal(); got != "9abcdefghjkmnpqrstuv" {
		t.Errorf("the password is %q", got)
	}
}

func TestDefaultParams(t *testing.T) {
	const mb = 1 << 20
	large, small := access.Params{MemoryKiB: 19456, Time: 2, Threads: 1}, access.Params{MemoryKiB: 7168, Time: 5, Threads: 1}
	for ram, want := range map[uint64]access.Params{
		0: small, 427 * mb: small, 512*mb - 1: small, 512 * mb: large, 8192 * mb: large,
	} {
		if got := access.DefaultParams(ram); got != want {
			t.Errorf("%d bytes: %+v, want %+v", ram, got, want)
		}
	}
}

// The stored form is argon2's own, so that other programs can check it.
func TestService_AddAccount_hash(t *testing.T) {
	h := open(t, func(c *access.Config) { c.Params = access.DefaultParams(0) })
	account := h.add(porter)
	stored := h.store.accounts[account.ID].Password.Reveal()
	if !strings.HasPrefix(stored, "$argon2id$v=19$m=7168,t=5,p=1$") || len(strings.Split(stored, "$")) != 6 {
		t.Errorf("the stored hash is %q", stored)
	}
	if _, again, err := access.ReadHash(stored); err != nil || again != stored {
		t.Errorf("it reads back as %q, %v", again, err)
	}
	other := h.add(guest)
	if h.store.accounts[other.ID].Password == h.store.accounts[account.ID].Password {
		t.Error("the same password has the same hash twice")
	}
	h.ok(h.try(porter, right, address(1)))
}

// Hashes that were made elsewhere (argon2's reference command line) are understood
// and made anew in our own form.
func TestService_Login_foreignHash(t *testing.T) {
	for name, c := range map[string]struct {
		salt   string
		params access.Params
		length uint32
	}{
		"other parameters": {"sixteen byte salt", access.Params{MemoryKiB: 64, Time: 2, Threads: 1}, 32},
		"short salt":       {"somesalt", cheap(), 32},
		"short sum":        {"sixteen byte salt", cheap(), 24},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			account := h.add(porter)
			sum := argon2.IDKey([]byte("a foreign password"), []byte(c.salt), c.params.Time, c.params.MemoryKiB, 1, c.length)
			foreign := fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=1$%s$%s", c.params.MemoryKiB, c.params.Time, b64(c.salt), b64(string(sum)))
			account.Password = site.Secret(foreign)
			h.store.accounts[account.ID] = account
			h.restart()
			h.refused(h.try(porter, right, address(1)), "Invalid credentials")
			h.ok(h.try(porter, "a foreign password", address(1)))
			stored := h.store.accounts[account.ID].Password.Reveal()
			if params, _, err := access.ReadHash(stored); err != nil || params != cheap() || stored == foreign {
				t.Errorf("the hash was not made anew: %q, %v", stored, err)
			}
			h.ok(h.try(porter, "a foreign password", address(1)))
		})
	}
}

func FuzzReadHash(f *testing.F) {
	for _, text := range append(badHashes(), goodHash) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		params, again, err := access.ReadHash(text)
		if err != nil {
			return
		}
		if again != text {
			t.Errorf("%q reads as %q", text, again)
		}
		if params.MemoryKiB > 64<<10 || params.Time > 16 || params.Threads > 4 || params.Threads < 1 || params.Time < 1 ||
			params.MemoryKiB < 8*uint32(params.Threads) || len(text) > 256 {
			t.Errorf("%q is out of bounds: %+v", text, params)
		}
	})
}
