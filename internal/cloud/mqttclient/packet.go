package mqttclient

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// maxInbound bounds the length of a message, with its topic, of which the payload is
// read and dropped beyond [Config.MaxPayload].
const maxInbound = 1 << 20

// breach is something that MQTT 3.1.1, or this connection, does not allow a broker.
type breach string

func (b breach) Error() string { return "the broker breaks the rules of MQTT: " + string(b) }

// foreign is a first byte that is no MQTT broker's.
type foreign byte

func (foreign) Error() string { return "what answers is not an MQTT broker" }

// next reads one packet. It lies in f.ready then, if paho is to see it.
func (f *filter) next() error {
	first, err := f.in.ReadByte()
	if err != nil {
		return err
	}
	kind, flags := first>>4, first&0x0f
	if !f.begun && kind != packets.Connack {
		return foreign(first)
	}
	length, err := f.length()
	if err != nil {
		return err
	}
	switch {
	case kind == packets.Publish:
		return f.message(flags, length)
	case flags != 0:
		return breach("flags that are reserved")
	case kind == packets.Connack && !f.begun:
		return f.connack(length)
	case kind == packets.Puback:
		return f.puback(length)
	case kind == packets.Suback:
		return f.suback(length)
	case kind == packets.Pingresp:
		return f.pingresp(length)
	}
	return breach(fmt.Sprintf("a packet of type %d", kind))
}

// length reads the length of a packet's rest: one to four bytes (MQTT 3.1.1, section
// 2.2.3).
func (f *filter) length() (int, error) {
	n := 0
	for shift := 0; shift < 28; shift += 7 {
		b, err := f.in.ReadByte()
		if err != nil {
			return 0, err
		}
		n |= int(b&0x7f) << shift
		if b&0x80 == 0 {
			return n, nil
		}
	}
	return 0, breach("a length of more than four bytes")
}

// short reads the rest of a packet without a payload into f.packet, behind its header.
func (f *filter) short(kind byte, length, want int) (body []byte, err error) {
	if length != want {
		return nil, breach(fmt.Sprintf("a packet of type %d with %d bytes", kind, length))
	}
	f.packet = append(f.packet[:0], kind<<4, byte(length))
	return f.take(length)
}

// take reads n bytes and appends them to f.packet.
func (f *filter) take(n int) ([]byte, error) {
	at := len(f.packet)
	f.packet = slices.Grow(f.packet, n)[:at+n]
	_, err := io.ReadFull(f.in, f.packet[at:])
	return f.packet[at:], err
}

func (f *filter) connack(length int) error {
	body, err := f.short(packets.Connack, length, 2)
	switch {
	case err != nil:
		return err
	case body[0] > 1 || body[1] > packets.ErrRefusedNotAuthorised:
		return breach(fmt.Sprintf("an answer to CONNECT with %d, %d", body[0], body[1]))
	case body[1] != packets.Accepted:
		return fmt.Errorf("the broker refuses the login: %w (code %d)", packets.ConnErrors[body[1]], body[1])
	}
	f.begun, f.ready = true, f.packet
	return nil
}

// puback and suback end here: paho knows nothing of what goes out. A SUBACK with more
// codes than were asked for would make it panic.
func (f *filter) puback(length int) error {
	body, err := f.short(packets.Puback, length, 2)
	if err != nil {
		return err
	}
	id := binary.BigEndian.Uint16(body)
	if !f.answer(id, false, 0) {
		return breach("an acknowledgement of nothing that was sent")
	}
	return nil
}

func (f *filter) suback(length int) error {
	body, err := f.short(packets.Suback, length, 3)
	if err != nil {
		return err
	}
	id, code := binary.BigEndian.Uint16(body), body[2]
	if code > 1 && code != subscriptionRefused {
		return breach(fmt.Sprintf("the code %#x for a subscription", code))
	}
	if !f.answer(id, true, code) {
		return breach("an answer to no subscription")
	}
	return nil
}

// subscriptionRefused is the code of a SUBACK (MQTT 3.1.1, section 3.9.3).
const subscriptionRefused = 0x80

func (f *filter) pingresp(length int) error {
	if _, err := f.short(packets.Pingresp, length, 0); err != nil {
		return err
	}
	f.ready = f.packet
	return f.slow(1) // paho accepts an unexpected one, too
}

// message reads a PUBLISH. It is packed anew, so that paho sees no more of a payload
// than it should.
func (f *filter) message(flags byte, length int) error {
	qos, idSize := flags>>1&3, 0
	if qos == 1 {
		idSize = 2
	}
	if qos > 1 || length < 2 || length > maxInbound {
		return breach(fmt.Sprintf("a message with QoS %d and %d bytes", qos, length))
	}
	var size [2]byte
	if _, err := io.ReadFull(f.in, size[:]); err != nil {
		return err
	}
	topicSize := int(binary.BigEndian.Uint16(size[:]))
	payload := length - 2 - topicSize - idSize
	if payload < 0 || topicSize > maxTopic {
		return breach(fmt.Sprintf("a topic of %d bytes in %d", topicSize, length))
	}
	kept := min(payload, f.most+1)
	f.packet = append(f.packet[:0], packets.Publish<<4|flags)
	f.packet = binary.AppendUvarint(f.packet, uint64(length-payload+kept)) // as MQTT packs a length
	f.packet = append(f.packet, size[:]...)
	return f.messageBody(topicSize, idSize, kept, payload)
}

// messageBody reads the rest of a PUBLISH, and waits until Receive can take it.
func (f *filter) messageBody(topicSize, idSize, kept, payload int) error {
	topic, err := f.take(topicSize)
	if err != nil {
		return err
	}
	if !validTopic(string(topic)) {
		return breach("a message without a valid topic")
	}
	if id, err := f.take(idSize); err != nil || idSize > 0 && id[0]|id[1] == 0 {
		return firstOf(err, breach("a message with the id 0"))
	}
	if _, err := f.take(kept); err != nil {
		return err
	}
	if _, err := f.in.Discard(payload - kept); err != nil {
		return err
	}
	if err := f.slow(1 + payload/(8<<10)); err != nil {
		return err
	}
	select {
	case f.places <- struct{}{}:
		f.ready = f.packet
		return nil
	case <-f.over:
		return errOver
	}
}

func firstOf(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// slow waits until so many messages may come. Meanwhile nothing is read, so that TCP
// makes the broker wait too.
func (f *filter) slow(messages int) error {
	now := time.Now()
	wait := f.pace.ReserveN(now, min(messages, f.pace.Burst())).DelayFrom(now)
	if wait == 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-f.over:
		return errOver
	}
}
