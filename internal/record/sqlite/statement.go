package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// statements are the prepared statements of the hot path.
type statements struct {
	begin, commit, rollback, insert, insertMany, ends *sql.Stmt
}

func prepare(ctx context.Context, conn *sql.Conn) (s statements, err error) {
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&s.begin, "BEGIN IMMEDIATE"},
		{&s.commit, "COMMIT"},
		{&s.rollback, "ROLLBACK"},
		{&s.insert, insertText(1)},
		{&s.insertMany, insertText(insertMany)},
		{&s.ends, "UPDATE journal_ends SET last = ?, hash = ?, bytes = ?"},
	} {
		if *p.stmt, err = conn.PrepareContext(ctx, p.text); err != nil { //nolint:sqlclosecheck // see close
			return s, fmt.Errorf("preparing %q: %w", p.text, err)
		}
	}
	return s, nil
}

// close ends the statements. Without it the connection could not be closed whole,
// and the file would be left with its log beside it.
func (s statements) close() {
	for _, stmt := range []*sql.Stmt{s.begin, s.commit, s.rollback, s.insert, s.insertMany, s.ends} {
		_ = stmt.Close()
	}
}

// insertText is the statement that inserts so many rows.
func insertText(rows int) string {
	return "INSERT INTO journal (seq, time, station, body, hash) VALUES (?, ?, ?, ?, ?)" +
		strings.Repeat(", (?, ?, ?, ?, ?)", rows-1)
}
