package sqlite_test

import (
	"database/sql"
	"log/slog"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/sqlite"
)

// planted are statements that alter the schema, and what of it is named.
func planted() map[string]string {
	return map[string]string{
		"CREATE TRIGGER undo AFTER DELETE ON session BEGIN INSERT INTO session VALUES ('s-1', 'a-1', x'01', 0, 0, 0, '', '', 0); END": "trigger undo",
		"CREATE VIEW everyone AS SELECT * FROM account":                                      "view everyone",
		"CREATE UNIQUE INDEX one_session ON session (account)":                               "index one_session",
		"CREATE TABLE more (id INTEGER PRIMARY KEY)":                                         "table more",
		"DROP INDEX session_account":                                                         "index session_account",
		"ALTER TABLE meta ADD COLUMN more TEXT":                                              "table meta",
		"CREATE TRIGGER \"odd\"\"name\" AFTER UPDATE ON account BEGIN DELETE FROM meta; END": `trigger odd"name`,
	}
}

func TestFiles_Audit_altered(t *testing.T) {
	path, _ := lived(t)
	tamper(t, path, "ANALYZE")
	if _, _, err := (sqlite.Files{}).Audit(t.Context(), path, "The file"); err != nil {
		t.Errorf("a gateway's own: %v", err)
	}
	for statement, name := range planted() {
		path, _ := lived(t)
		tamper(t, path, statement)
		if _, _, err := (sqlite.Files{}).Audit(t.Context(), path, "The file"); !fault.Is(err, fault.Invalid) ||
			err.Error() != "The file was altered: its "+name+" is not as gatehouse makes it; use another backup" {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// A start removes what was planted and can act by itself, says so, and goes on.
func TestOpen_foreignSchema(t *testing.T) {
	path, _ := lived(t)
	for statement := range planted() {
		tamper(t, path, statement)
	}
	var log strings.Builder
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range planted() {
		if !strings.Contains(strings.ReplaceAll(log.String(), `\"`, `"`), name) {
			t.Errorf("the log does not name the %s", name)
		}
	}
	file, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var left int
	err = file.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view') OR name = 'one_session'").Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d are left, %v", left, err)
	}
}
