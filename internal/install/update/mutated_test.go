package update_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/fault"
)

var digits = regexp.MustCompile(`\d+`)

// mutations is how many files the board must refuse.
const mutations = 1000

// mutant makes bad updates.
type mutant struct {
	*rand.Rand
	good    []byte
	foreign [][]byte // whole files that are not for this board
	newer   []byte   // another good one
}

// place returns a place in the file, half of the time in its head.
func (m *mutant) place() int {
	if m.IntN(2) == 0 {
		return m.IntN(2000)
	}
	return m.IntN(len(m.good))
}

// next returns a bad file and what is wrong with it.
func (m *mutant) next() (raw []byte, what string) {
	raw = slices.Clone(m.good)
	at, n := m.place(), 1+m.IntN(5000)
	to := min(at+n, len(raw))
	switch m.IntN(9) {
	case 0:
		raw[at] ^= 1 << m.IntN(8)
		return raw, fmt.Sprintf("a flipped bit of byte %d", at)
	case 1:
		return raw[:at], fmt.Sprintf("cut at %d", at)
	case 2:
		return slices.Delete(raw, at, to), fmt.Sprintf("without %d to %d", at, to)
	case 3:
		return slices.Insert(raw, at, m.good[at:to]...), fmt.Sprintf("with %d to %d twice", at, to)
	case 4:
		other := m.place()
		length := min(n, len(raw)-at, len(raw)-other)
		copy(raw[at:at+length], m.good[other:])
		copy(raw[other:other+length], m.good[at:])
		return raw, fmt.Sprintf("%d bytes of %d and %d swapped", length, at, other)
	case 5:
		clear(raw[at:to])
		return raw, fmt.Sprintf("zeros from %d to %d", at, to)
	case 6:
		return append(raw, m.newer[:n]...), fmt.Sprintf("%d bytes behind its end", n)
	case 7:
		return append(raw[:at], m.newer[min(at, len(m.newer)):]...), fmt.Sprintf("the file of another version from %d", at)
	default:
		kind := m.IntN(len(m.foreign))
		return m.foreign[kind], fmt.Sprintf("foreign file %d", kind)
	}
}

// A thousand bad files: each is refused before the one shot is set, and the running slot,
// its kernel and the default are what they were, byte by byte.
func TestUpdate_mutated(t *testing.T) {
	b := newBoard(t)
	wrong, err := api.Generate("release")
	if err != nil {
		t.Fatal(err)
	}
	family, slotless := release("1.3.0"), release("1.3.0")
	family.Family, slotless.Entry = "gatehouse-amd64", strings.NewReader("version 1.3.0\n")
	m := &mutant{
		Rand: rand.New(rand.NewPCG(12, 2026)), good: b.genuine("1.3.0"), newer: b.genuine("1.4.0"),
		foreign: [][]byte{
			b.genuine("1.2.2"), b.genuine("1.2.3"), pack(t, wrong, release("1.3.0")),
			pack(t, b.key, family), pack(t, b.key, slotless),
		},
	}
	path := b.put(nil)
	before, other := b.running(), b.Read("dev/mmcblk0p3")
	reasons := map[string]int{}
	for made := 0; made < mutations; {
		raw, what := m.next()
		if bytes.Equal(raw, m.good) || bytes.Equal(raw, m.newer) {
			continue // zeros over zeros
		}
		made++
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		err := b.install(path)
		if !fault.Is(err, fault.Invalid) || strings.ContainsAny(fault.Sentence(err), "\n") {
			t.Errorf("%s: %v", what, err)
		}
		if b.cannotStart(); b.restarts != 0 || b.oneShot() != "" {
			t.Errorf("%s: the one shot was set", what)
		}
		if made%100 == 0 { // nothing restores what one of them changes
			b.untouched(before)
			if b.Read("dev/mmcblk0p3") != other {
				t.Error("the other slot was written to")
			}
		}
		if t.Failed() {
			t.FailNow()
		}
		reasons[strings.TrimRight(digits.ReplaceAllString(fault.Sentence(err), "N")[:30], " ")]++
	}
	t.Logf("%d files: %v", mutations, reasons)
	if err := os.WriteFile(path, m.good, 0o600); err != nil { // the control
		t.Fatal(err)
	}
	if err := b.install(path); err != nil {
		t.Error(err)
	}
	b.holds("1.3.0")
}
