package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// writerConn is the connection of the writer, with the statements of the hot path, which
// are prepared once.
type writerConn struct {
	*sql.Conn
	prepared map[string]*sql.Stmt // by their text
}

// exec runs a statement of the hot path.
func (c writerConn) exec(text string, args ...any) (err error) {
	stmt := c.prepared[text]
	if stmt == nil {
		if stmt, err = c.PrepareContext(context.Background(), text); err != nil {
			return fmt.Errorf("preparing %q: %w", text, err)
		}
		c.prepared[text] = stmt
	}
	_, err = stmt.Exec(args...)
	return err
}

// close ends the statements, without which the file would be left with its log beside it,
// and the connection.
func (c writerConn) close() {
	for _, stmt := range c.prepared {
		_ = stmt.Close()
	}
	_ = c.Conn.Close()
}
