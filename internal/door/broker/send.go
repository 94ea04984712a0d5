package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"gatehouse/internal/door/stationlink"
)

// The errors of [Conn.Send], beside those of a write that failed.
var (
	// ErrClosed means that the connection has ended.
	ErrClosed = errors.New("the connection has ended")
	// ErrLate means that the deadline passed before anything was written.
	ErrLate = errors.New("the deadline has passed")
	// ErrNotSubscribed means that the station does not listen for commands at that QoS.
	ErrNotSubscribed = errors.New("the station is not subscribed to its commands at that QoS")
)

// A station may send two packets in answer to one command, PUBACK and result. What
// it does not use it keeps, up to a bound that only guards the counter.
const (
	creditsPerCommand = 2
	mostCredits       = 1 << 16
)

// Send implements [stationlink.Conn]: it writes one PUBLISH to stations/<id>/command and
// returns when it is in the kernel's hands. The packet id (1 to 65535) is the caller's,
// who must not use it twice at a time; at QoS 0 it is ignored. Nothing is queued: if
// another packet is being written, Send waits no longer than to the deadline. It writes
// until the deadline or the write timeout, whichever is first; a packet that is not
// written whole by then ends the connection in a reset.
func (c *Conn) Send(packetID uint16, qos byte, m stationlink.Message, until time.Time) error {
	granted, ok := c.Subscribed()
	switch {
	case c.Ended():
		return ErrClosed
	case !ok || qos > granted:
		return ErrNotSubscribed
	}
	deadline, err := c.takeWriting(until)
	if err != nil {
		return err
	}
	defer c.unlock()
	buffer := c.server.buffers.Get().(*[]byte)
	defer c.server.buffers.Put(buffer)
	words, patience, err := m.Payload((*buffer)[:0])
	if err != nil {
		return err
	}
	*buffer = appendPublish(words, c.Version(), c.topics.Command, packetID, qos, words)
	packet := (*buffer)[len(words):]
	if c.credit.Add(creditsPerCommand) > mostCredits { // for the answers that are due
		c.credit.Add(-creditsPerCommand)
	}
	c.loaded = true
	c.patience.limit(patience, until)
	return c.put(packet, deadline)
}

// appendPublish encodes a PUBLISH (MQTT 5, section 3.3).
func appendPublish(b []byte, version byte, topic string, packetID uint16, qos byte, payload []byte) []byte {
	size := 2 + len(topic) + len(payload)
	if qos > 0 {
		size += 2
	}
	if version == 5 {
		size++
	}
	b = append(b, typePublish<<4|qos<<1)
	b = binary.AppendUvarint(b, uint64(size)) // the same encoding as MQTT's lengths
	b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
	b = append(b, topic...)
	if qos > 0 {
		b = binary.BigEndian.AppendUint16(b, packetID)
	}
	if version == 5 {
		b = append(b, 0) // no properties
	}
	return append(b, payload...)
}

// write writes one whole packet that is no command within the write timeout.
func (c *Conn) write(packet []byte) error {
	deadline, err := c.takeWriting(time.Time{})
	if err != nil {
		return err
	}
	defer c.unlock()
	c.patience.lift()
	return c.put(packet, deadline)
}

// takeWriting acquires the right to write, and returns by when that must be done: by the
// deadline or the write timeout. A zero deadline stands for the timeout alone.
func (c *Conn) takeWriting(deadline time.Time) (time.Time, error) {
	now := time.Now()
	if !deadline.IsZero() && !now.Before(deadline) {
		return deadline, ErrLate
	}
	if most := now.Add(c.server.cfg.Limits.WriteTimeout); deadline.IsZero() || most.Before(deadline) {
		deadline = most
	}
	if err := c.lock(deadline.Sub(now)); err != nil {
		return deadline, err
	}
	if c.Ended() {
		c.unlock()
		return deadline, ErrClosed
	}
	return deadline, nil
}

// put writes one whole packet by the deadline; the lock is held.
func (c *Conn) put(packet []byte, deadline time.Time) error {
	_ = c.stream.SetWriteDeadline(deadline)
	_, err := c.stream.Write(packet)
	if c.stream != c.raw { // TLS writes of its own accord too, and must not find a deadline that is past
		_ = c.stream.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		c.Reset(reasonNotTaking)
		return fmt.Errorf("writing to the station: %w", err)
	}
	return nil
}

// lock takes the right to write within that time.
func (c *Conn) lock(patience time.Duration) error {
	select {
	case c.writing <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case c.writing <- struct{}{}:
		return nil
	case <-c.done:
		return ErrClosed
	case <-timer.C:
		return ErrLate
	}
}

func (c *Conn) unlock() { <-c.writing }
