// Package turn orders what touches the same thing and lets the rest happen at the
// same time. The rules packages take a turn across a change of memory and the call
// of the store that belongs to it: so the two cannot diverge, and changes of
// different things meet in the store, which writes them with one flush of the disk.
//
// It knows nothing of what the keys name, and starts nothing.
package turn

import (
	"context"
	"sync"
)

// Keyed hands out turns by key: for each key one holder at a time, different keys
// regardless of each other. It remembers a key only while its turn is held or waited
// for. The zero Keyed is ready. Safe for concurrent use; not to be copied.
type Keyed[K comparable] struct {
	mu    sync.Mutex // mu guards lines, and people in each
	lines map[K]*line
}

// line is who has the turn of one key, and who waits for it.
type line struct {
	turn   chan struct{} // capacity 1: holds a token while somebody has the turn
	people int           // the line ends with the last of them
}

// Take waits for the turn of key and returns a function that releases it, to be called
// once. It returns the error of ctx if that ends first. It is not reentrant: the holder of
// the turn of a key must not take it again.
func (k *Keyed[K]) Take(ctx context.Context, key K) (give func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := k.join(key)
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; k.leave(key, l) }, nil
	case <-ctx.Done():
		k.leave(key, l)
		return nil, ctx.Err()
	}
}

func (k *Keyed[K]) join(key K) *line {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[key]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		if k.lines == nil {
			k.lines = make(map[K]*line)
		}
		k.lines[key] = l
	}
	l.people++
	return l
}

func (k *Keyed[K]) leave(key K, l *line) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.people--; l.people == 0 {
		delete(k.lines, key)
	}
}
