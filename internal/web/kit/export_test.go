package kit

import (
	"net"
	"time"

	"gatehouse/internal/fault"
)

// StatusOf is the table from kinds of errors to statuses.
func StatusOf(kind fault.Kind) int { return statusOf(kind) }

// OneTurn has one request at a time compute its answer, as on a board with one processor.
func (k *Kit) OneTurn() { k.turns = newTurns(1) }

// SetClock sets the clock of the beats, before there is a listener; Beat adds one.
func (k *Kit) SetClock(clock func() time.Duration) { k.beat = newBeat(clock) }

func (k *Kit) Beat() { k.beat.tick() }

// Since returns the earliest arrival of what a connection of [Kit.Receive] reads first.
func Since(c net.Conn) time.Duration { return c.(*receiver).since }
