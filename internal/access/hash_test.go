package access_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"gatehouse/internal/access"
)

// b64 encodes as PHC strings do.
func b64(text string) string { return base64.RawStdEncoding.EncodeToString([]byte(text)) }

// goodHash is a hash within bounds.
const goodHash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"

// badHashes are near goodHash, or what a tampered database would hold.
func badHashes() []string {
	swap := func(old, with string) string { return strings.Replace(goodHash, old, with, 1) }
	return []string{
		"", "$", "$$$$$", "password", goodHash + "$", goodHash + "=", " " + goodHash, goodHash + "\n", goodHash[1:],
		swap("argon2id", "argon2i"), swap("argon2id", "argon2d"), swap("argon2id", "ARGON2ID"), swap("argon2id", "scrypt"),
		swap("v=19", "v=16"), swap("v=19", "v=019"), swap("$v=19", ""), swap("v=19", "19"),
		swap("m=19456", "m=4194304"), swap("m=19456", "m=4294967295"), swap("m=19456", "m=4294967296"), swap("m=19456", "m=65537"),
		swap("m=19456", "m=7"), swap("m=19456", "m=0"), swap("m=19456", "m=-1"), swap("m=19456", "m=019456"),
		swap("m=19456", "m=+9"), swap("m=19456", "m=0x99"), swap("m=19456", "m="), swap("m=19456", "m=19_456"),
		swap("t=2", "t=0"), swap("t=2", "t=17"), swap("t=2", "t=4294967295"), swap("t=2", "t= 2"),
		swap("p=1", "p=0"), swap("p=1", "p=5"), swap("p=1", "p=256"), swap("p=1", "p=1,keyid=x"),
		swap("m=19456,t=2", "t=2,m=19456"), swap(",p=1", ""), swap("m=19456,t=2,p=1", "m=8,t=2,p=2"),
		swap("c2FsdHNhbHRzYWx0c2FsdA", ""), swap("c2FsdHNhbHRzYWx0c2FsdA", b64("1234567")),
		swap("c2FsdHNhbHRzYWx0c2FsdA", "c2FsdHNhbHRzYWx0c2FsdB"), swap("c2Fs", "c2\nFs"), swap("c2Fs", "c2-_"),
		swap("c2FsdHNhbHRzYWx0c2FsdA", b64(strings.Repeat("x", 65))),
		goodHash[:strings.LastIndex(goodHash, "$")+1], goodHash[:len(goodHash)-23],
		goodHash[:strings.LastIndex(goodHash, "$")+1] + b64(strings.Repeat("x", 65)),
		goodHash + strings.Repeat("A", 1<<20),
	}
}

func TestReadHash(t *testing.T) {
	params, again, err := access.ReadHash(goodHash)
	if err != nil || again != goodHash || params != (access.Params{MemoryKiB: 19456, Time: 2, Threads: 1}) {
		t.Errorf("%+v %q %v", params, again, err)
	}
	for _, bound := range []struct {
		params    string
		salt, sum int
	}{{"m=8,t=1,p=1", 8, 16}, {"m=32,t=1,p=4", 8, 16}, {"m=65536,t=16,p=4", 64, 64}} {
		text := "$argon2id$v=19$" + bound.params + "$" + b64(strings.Repeat("x", bound.salt)) + "$" + b64(strings.Repeat("y", bound.sum))
		if _, _, err := access.ReadHash(text); err != nil {
			t.Errorf("%+v: %v", bound, err)
		}
	}
	for _, text := range badHashes() {
		if _, _, err := access.ReadHash(text); err == nil {
			t.Errorf("%.120q is taken", text)
		} else if len(text) > 20 && strings.Contains(err.Error(), text[10:20]) {
			t.Errorf("the error repeats the hash: %v", err)
		}
	}
}
