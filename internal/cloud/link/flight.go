package link

import (
	"errors"
	"time"
)

// deliveryPatience is how long the broker may acknowledge nothing of what is on its way.
// One that takes longer is as good as gone.
const deliveryPatience = time.Minute

// errNoPuback ends a connection whose broker takes messages and says nothing.
var errNoPuback = errors.New("the broker does not acknowledge what it is sent")

// flight holds the messages of one lane that are on their way, in order, each with what
// the lane wants to know when it has arrived. It belongs to one goroutine.
type flight[T any] struct {
	all   []flying[T]
	heard time.Time // when the broker last acknowledged one
}

// flying is a message on its way to the broker.
type flying[T any] struct {
	delivery delivery
	what     T
	sent     time.Time
}

// add puts a message at the end.
func (f *flight[T]) add(d delivery, what T) {
	f.all = append(f.all, flying[T]{d, what, time.Now()})
}

// arrived is closed when the oldest message has arrived, or never will; nil without any.
func (f *flight[T]) arrived() <-chan struct{} {
	if len(f.all) == 0 {
		return nil
	}
	return f.all[0].delivery.Done()
}

// land takes the oldest message off, whose arrived is closed, or gives why the broker
// will not acknowledge it.
func (f *flight[T]) land() (what T, err error) {
	oldest := f.all[0]
	if err := oldest.delivery.Err(); err != nil {
		return what, err
	}
	f.all, f.heard = f.all[1:], time.Now()
	return oldest.what, nil
}

// patience is how long the broker may go on saying nothing; errNoPuback when it is over.
func (f *flight[T]) patience() (time.Duration, error) {
	if len(f.all) == 0 {
		return deliveryPatience, nil
	}
	left := deliveryPatience - min(time.Since(f.all[0].sent), time.Since(f.heard))
	if left <= 0 {
		return 0, errNoPuback
	}
	return left, nil
}
