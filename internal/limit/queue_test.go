package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/limit"
)

// line is a queue with all who came, each by a path of flows.
type line struct {
	*limit.Queue[string]
	t *testing.T

	mu     sync.Mutex // mu guards served
	served []string
}

// come has one wait; it keeps its slot until the line is served on.
func (l *line) come(name string, path ...string) *limit.Waiter[string] {
	l.t.Helper()
	w, err := l.Join(path...)
	if err != nil {
		l.t.Fatalf("%s: %v", name, err)
	}
	go func() {
		if w.Wait() == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.served = append(l.served, name)
		}
	}()
	return w
}

// serve passes the slot on until nobody waits, and returns who had it.
func (l *line) serve() []string {
	for {
		synctest.Wait()
		l.mu.Lock()
		served := slices.Clone(l.served)
		l.mu.Unlock()
		if l.Waiting() == 0 {
			return served
		}
		l.Leave()
	}
}

func newLine(t *testing.T, order limit.Order) *line {
	return &line{Queue: limit.NewQueue[string](1, order, nil), t: t}
}

// No flow waits for more than one turn of each other flow, at any level, however many
// waiters come and whenever.
func TestQueue_oneTurnOfEachOther(t *testing.T) {
	for _, order := range []limit.Order{limit.OldestFirst, limit.NewestFirst} {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(5, 6))
			l := newLine(t, order)
			l.come("first", "x", "x", "x")
			defer l.serve()
			synctest.Wait()
			type wait struct {
				since int
				n     int
			}
			waiting := make(map[string]wait) // by prefix: how many wait, and since which turn the flow waits for its own
			key := func(path []string, level int) string { return fmt.Sprint(path[:level]) }
			paths := make(map[string][]string)
			for n := range 2000 {
				if random.IntN(2) == 0 || l.Waiting() == 0 {
					path := []string{string(rune('a' + random.IntN(3))), string(rune('a' + random.IntN(4))), string(rune('a' + random.IntN(4)))}
					name := fmt.Sprint(n)
					paths[name] = path
					l.come(name, path...)
					for level := 1; level <= 3; level++ {
						w := waiting[key(path, level)]
						if w.n == 0 {
							w.since = len(l.served)
						}
						w.n++
						waiting[key(path, level)] = w
					}
					continue
				}
				l.Leave()
				synctest.Wait()
				turn := len(l.served)
				path := paths[l.served[turn-1]]
				for level := 1; level <= 3; level++ {
					mine := waiting[key(path, level)]
					others := make(map[string]int) // turns of the siblings while it waited
					for _, name := range l.served[mine.since : turn-1] {
						if other := paths[name]; other != nil && key(other, level-1) == key(path, level-1) {
							others[key(other, level)]++
						}
					}
					for other, turns := range others {
						if turns > 1 && other != key(path, level) {
							t.Fatalf("turn %d: %s waited for %d turns of %s", turn, key(path, level), turns, other)
						}
					}
					mine.n--
					mine.since = turn
					waiting[key(path, level)] = mine
				}
			}
		})
	}
}

// Of one flow the oldest or the newest waiter comes first.
func TestQueue_order(t *testing.T) {
	for order, want := range map[limit.Order]string{
		limit.OldestFirst: "[first a1 b1 a2 a3]", limit.NewestFirst: "[first a3 b1 a2 a1]",
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(t, order)
			l.come("first", "x")
			for _, name := range []string{"a1", "a2", "b1", "a3"} {
				l.come(name, name[:1])
			}
			if got := fmt.Sprint(l.serve()); got != want {
				t.Errorf("the order is %s, want %s", got, want)
			}
		})
	}
}

// A full flow has room for a newcomer that leaves the largest within it no smaller than its
// own; the newest of that goes. Others are refused.
func TestQueue_room(t *testing.T) {
	room := func(level int, _ string) int { return []int{6, 0, 4}[level] }
	l := limit.NewQueue(1, limit.OldestFirst, room)
	join := func(network, client string) (evicted func() bool, err error) {
		w, err := l.Join("lane", network, client)
		ended := make(chan error, 1)
		go func() {
			if err == nil {
				ended <- w.Wait()
			}
		}()
		return func() bool {
			w.Cancel(context.Canceled)
			return errors.Is(<-ended, limit.ErrFull)
		}, err
	}
	must := func(network, client string) func() bool {
		t.Helper()
		evicted, err := join(network, client)
		if err != nil {
			t.Fatalf("%s of %s: %v", client, network, err)
		}
		return evicted
	}
	must("x", "x") // at the slot
	var all []func() bool
	for range 4 {
		all = append(all, must("a", "1"))
	}
	if _, err := join("a", "1"); !errors.Is(err, limit.ErrFull) {
		t.Errorf("a client beyond its room: %v", err)
	}
	all = append(all,
		must("a", "2"), must("a", "3"), // the lane is full
		must("a", "4"), // for the newest of client 1, as the next two
		must("b", "1"), must("b", "1"),
		must("b", "2"), // for the last in turn of network a; three each
		must("b", "3"), // for the second of its own network's client 1
	)
	if _, err := join("b", "4"); !errors.Is(err, limit.ErrFull) {
		t.Errorf("where all have one: %v", err)
	}
	evicted := 0
	for _, was := range all {
		if was() {
			evicted++
		}
	}
	if evicted != 5 || l.Waiting() != 0 {
		t.Errorf("%d were evicted, %d wait", evicted, l.Waiting())
	}
}

// A waiter whose client has gone frees its place, and loses no slot.
func TestQueue_Enter_cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limit.NewQueue[string](1, limit.OldestFirst, nil)
		leave, err := q.Enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { _, err := q.Enter(ctx, "b"); gone <- err }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) || q.Waiting() != 0 {
			t.Errorf("%v, %d wait", err, q.Waiting())
		}
		leave()
		if _, err := q.Enter(ctx, "b"); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		if _, err = q.Enter(t.Context(), "b"); err != nil {
			t.Error(err)
		}
	})
}

// What is urgent comes before all that wait, for a tenth of a second, and then nothing
// else does for as long.
func TestQueue_Pause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limit.NewQueue[string](1, limit.OldestFirst, nil)
		start := time.Now()
		served := make(chan time.Duration, 1)
		enter := func() {
			go func() {
				leave, err := q.Enter(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				served <- time.Since(start)
				leave()
			}()
			synctest.Wait()
		}
		expect := func(after time.Duration) {
			t.Helper()
			if at := <-served; at != after {
				t.Errorf("served after %v, want %v", at, after)
			}
		}
		q.Pause()
		q.Pause()
		enter()
		q.Resume()
		time.Sleep(10 * time.Millisecond)
		q.Resume()
		expect(10 * time.Millisecond)
		q.Pause() // too soon for another pause
		enter()
		expect(10 * time.Millisecond)
		q.Resume()
		time.Sleep(time.Second)
		leave, err := q.Enter(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		q.Pause()
		enter()
		leave() // in the pause
		expect(1110 * time.Millisecond)
		q.Resume()
	})
}

func BenchmarkQueue_Enter(b *testing.B) {
	q := limit.NewQueue(1, limit.OldestFirst, func(int, string) int { return 64 })
	b.ReportAllocs()
	for b.Loop() {
		leave, err := q.Enter(b.Context(), "class", "one", "part")
		if err != nil {
			b.Fatal(err)
		}
		leave()
	}
}
