package sqlite

import (
	"context"
	"database/sql"
	"iter"
)

// queryer is a connection, a pool or a transaction.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each yields what scan reads of each row of a query. After the error of a row the caller
// may go on with the next; the error of the query is the last that is yielded.
func each[T any](ctx context.Context, q queryer, scan func(*sql.Rows) (T, error), text string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		rows, err := q.QueryContext(ctx, text, args...)
		if err != nil {
			yield(*new(T), err)
			return
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			if !yield(scan(rows)) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(*new(T), err)
		}
	}
}

// column reads the only column. A [sql.RawBytes] is valid only until the next row.
func column[T any](rows *sql.Rows) (value T, err error) {
	err = rows.Scan(&value)
	return value, err
}

// scanAny reads a row of any table.
func scanAny(rows *sql.Rows) ([]any, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	return values, rows.Scan(into...)
}
