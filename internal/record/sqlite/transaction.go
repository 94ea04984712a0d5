package sqlite

import (
	"context"
	"database/sql"
	"log/slog"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// transaction is what one op may do: SQL on the writer's connection, within the
// transaction of its batch. It never leaves this package.
type transaction struct {
	conn    *sql.Conn
	log     *slog.Logger
	records []site.Record // that the op found to write while it ran, stamped
}

func (t *transaction) exec(query string, args ...any) (rows int64, err error) {
	res, err := t.conn.ExecContext(context.Background(), query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// mustChange is exec for a statement that has to find its row.
func (t *transaction) mustChange(what, query string, args ...any) error {
	rows, err := t.exec(query, args...)
	if err == nil && rows == 0 {
		return fault.New(fault.NotFound, what+" not found")
	}
	return err
}
