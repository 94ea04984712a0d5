package attacktest_test

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/test/gatewaytest"
)

// forger rewrites the journal of a stopped gateway: the first account that was added is
// another one, the newest record is gone, and all hashes are right again.
func forge(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var last int64
	var hash []byte
	if err := db.QueryRowContext(t.Context(), "SELECT last, anchor FROM journal_ends").Scan(&last, &hash); err != nil {
		t.Fatal(err)
	}
	change := func(query string, args ...any) {
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	change("DELETE FROM journal WHERE seq = ?", last)
	for seq := int64(1); seq < last; seq++ {
		var body string
		if err := db.QueryRowContext(t.Context(), "SELECT body FROM journal WHERE seq = ?", seq).Scan(&body); err != nil {
			t.Fatal(err)
		}
		body = strings.ReplaceAll(body, gatewaytest.Email, "somebody@example.test")
		sum := sha256.Sum256(append(hash, body...))
		hash = sum[:]
		change("UPDATE journal SET body = ?, hash = ? WHERE seq = ?", body, hash, seq)
	}
	change("UPDATE journal_ends SET last = ?, hash = ?, bytes = (SELECT sum(length(body)) FROM journal)", last-1, hash)
}

// keepLog writes what the gateway has logged where the system keeps it.
func keepLog(t *testing.T, log, path string) {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(log) {
		now := time.Now().UnixMicro()
		_, _ = fmt.Fprintf(&out, "%d.%06d board gatehouse[1]: %s\n", now/1e6, now%1e6, strings.TrimSpace(line))
	}
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Possible: a program that could write to the journal's file changed a record, removed
// the newest, computed all hashes anew, and "journal verify" found it sound. The head of
// the chain is now kept where that one does not reach: in the system log (which a
// program named journalctl has here), and in each backup.
func TestAttack_rewrittenJournal(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	entries, passphrase, saved := filepath.Join(folder, "entries"), filepath.Join(folder, "passphrase"), filepath.Join(folder, "saved.backup")
	for path, text := range map[string]string{
		filepath.Join(folder, "journalctl"): "#!/bin/sh\nexec cat " + entries + "\n", passphrase: "kettle umbrella granite seven\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"PATH=" + folder + ":" + os.Getenv("PATH")}})
	p.AddAccount()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	before := len(p.Log()) // the first start may have logged a head, before the account
	p.Start()              // whose head covers the record of the account
	p.AwaitReady()
	p.Await("the head is logged", func() bool { return strings.Contains(p.Log()[before:], "journal head") })
	expect := func(what string, status int, words string, args ...string) {
		t.Helper()
		out, got := p.Run(append([]string{"journal", "verify"}, args...)...)
		if got != status || !strings.Contains(out, words) {
			t.Errorf("%s: status %d, want %d, and %q in\n%s", what, got, status, words, out)
		}
	}
	expect("no witness", 0, "No witness was found")
	keepLog(t, p.Log()[before:], entries)
	expect("the system log", 0, "the system log (1 head) agrees")
	if out, status := p.Run("backup", "--passphrase-file", passphrase, saved); status != 0 {
		t.Fatal(out)
	}
	ofBackup := []string{"--backup", saved, "--passphrase-file", passphrase}
	expect("the backup", 0, "(1 head) agrees", ofBackup...)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	expect("stopped", 0, "(1 head) agrees", ofBackup...)

	forge(t, filepath.Join(p.Data, "gatehouse.db"))
	expect("rewritten, by the system log", 1, "the journal was rewritten: the system log")
	expect("rewritten, running or not", 1, "CONTRADICTS")
	if err := os.Remove(entries); err != nil {
		t.Fatal(err)
	}
	expect("rewritten, without a witness", 1, "the newest records are missing") // by the head beside it
	expect("rewritten, by the backup", 1, "the journal was rewritten: the backup", ofBackup...)
	p.Start()
	p.AwaitReady()
	expect("rewritten, running, by the backup", 1, "the journal was rewritten: the backup", ofBackup...)
	expect("a wrong use", 2, "SEQ:HASH", "--witness", "7")
}
