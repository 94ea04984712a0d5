package attacktest_test

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "gatehouse/internal/record/sqlite" // the driver
	"gatehouse/internal/test/gatewaytest"
)

// undoTriggers bring back each session that ends.
const undoTriggers = `
CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM session;
CREATE TRIGGER undo AFTER DELETE ON session BEGIN INSERT OR IGNORE INTO session
VALUES (OLD.id, OLD.account, OLD.refresh, OLD.created, OLD.expires, OLD.clock_trusted, OLD.remote); END;`

func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// A database brought its own triggers along: what they did outlived the end of
// sessions and the removal of accounts. A restore refuses them, a start removes them.
func TestAttack_triggers(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	access, _ := p.Login()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	database, copied := filepath.Join(p.Data, "gatehouse.db"), filepath.Join(t.TempDir(), "copy.db")
	text, err := os.ReadFile(database)
	if err == nil {
		err = os.WriteFile(copied, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	execute(t, copied, undoTriggers)
	if out, status := p.Run("restore", copied); status != 1 || !strings.Contains(out, "was altered: its t") {
		t.Errorf("restoring it: %d %s", status, out)
	}

	execute(t, database, undoTriggers)
	p.Start()
	p.AwaitReady()
	answer := p.Do(http.MethodPost, "/v1/auth/revoke", access, nil)
	if answer.Status != http.StatusOK {
		t.Fatalf("revoking: %d %s", answer.Status, answer.Body)
	}
	p.Kill()
	p.Start()
	p.AwaitReady()
	if out, status := p.Run("account", "sessions", gatewaytest.Email, "--json"); status != 0 || strings.TrimSpace(out) != "[]" {
		t.Errorf("the session that was revoked is back: %d %s", status, out)
	}
}
