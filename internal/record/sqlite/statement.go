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

// texts returns the text of each statement.
func (s *statements) texts() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		&s.begin: "BEGIN IMMEDIATE", &s.commit: "COMMIT", &s.rollback: "ROLLBACK",
		&s.insert: insertText(1), &s.insertMany: insertText(insertMany),
		&s.ends: "UPDATE journal_ends SET last = ?, hash = ?, bytes = ?",
	}
}

func prepare(ctx context.Context, conn *sql.Conn) (s statements, err error) {
	for stmt, text := range s.texts() {
		if *stmt, err = conn.PrepareContext(ctx, text); err != nil { //nolint:sqlclosecheck // see close
			return s, fmt.Errorf("preparing %q: %w", text, err)
		}
	}
	return s, nil
}

// close ends the statements. Without it the connection could not be closed whole,
// and the file would be left with its log beside it.
func (s statements) close() {
	for stmt := range s.texts() {
		_ = (*stmt).Close()
	}
}

// insertText is the statement that inserts so many rows.
func insertText(rows int) string {
	return "INSERT INTO journal (seq, time, station, body, hash) VALUES (?, ?, ?, ?, ?)" +
		strings.Repeat(", (?, ?, ?, ?, ?)", rows-1)
}
