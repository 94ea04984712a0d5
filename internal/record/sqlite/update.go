package sqlite

import (
	"context"

	"gatehouse/internal/site"
)

// UpdateEnd returns what the last RecordUpdate was called with, "" before the first.
func (db *DB) UpdateEnd(ctx context.Context) (string, error) { return db.meta(ctx, metaUpdate) }

// RecordUpdate remembers an outcome of an update and writes its record, both or neither.
func (db *DB) RecordUpdate(ctx context.Context, end string, r site.Record) error {
	return db.do(ctx, func(t *transaction) error { return t.setMeta(metaUpdate, end) }, r)
}
