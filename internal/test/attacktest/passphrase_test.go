package attacktest_test

import (
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/test/gatewaytest"
)

// A backup can be guessed at for years, and took passphrases that any program tries
// within seconds.
func TestAttack_passphrase(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	dir := t.TempDir()
	back := func(passphrase string) (written bool) {
		file, out := filepath.Join(dir, "passphrase"), filepath.Join(dir, "a.backup")
		if err := os.WriteFile(file, []byte(passphrase+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, status := p.Run("backup", "--no-config", "--passphrase-file", file, out)
		_, missing := os.Stat(out)
		return status == 0 || missing == nil
	}
	for _, passphrase := range []string{
		"password1234", "123456789012", "gatehouse2026", "correct horse", "fifteen letters",
		"password12345678", "1234567890123456", "passwordpassword", "qwertyuiopasdfgh", "correct horse battery staple",
	} {
		if back(passphrase) {
			t.Errorf("a backup with the passphrase %q was written", passphrase)
		}
	}
	if !back("tomato violin harbour seven") {
		t.Error("a good passphrase was refused")
	}
}
