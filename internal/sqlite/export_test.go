package sqlite

import (
	"context"
	"fmt"
)

// MaxLater is how many records wait in memory at most.
const MaxLater = maxLater

// LimitPages makes the disk full: the file may not grow past its present size
// (full) or may grow again (!full).
func (db *DB) LimitPages(ctx context.Context, full bool) error {
	return db.do(ctx, func(t *transaction) error {
		var pages int
		if err := t.conn.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
			return err
		}
		if !full {
			pages = 1 << 30
		}
		return t.conn.QueryRowContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages)).Scan(&pages)
	})
}

// Hold keeps the writer busy until release is closed, and says when it has begun.
func (db *DB) Hold(release <-chan struct{}) (held <-chan struct{}) {
	begun := make(chan struct{})
	go func() {
		_ = db.do(context.Background(), func(*transaction) error {
			close(begun)
			<-release
			return nil
		})
	}()
	return begun
}

// Waiting is how many use cases wait for the writer.
func (db *DB) Waiting() int {
	db.queue.mu.Lock()
	defer db.queue.mu.Unlock()
	return len(db.queue.ops)
}
