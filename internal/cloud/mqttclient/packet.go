package mqttclient

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// maxInbound bounds a message, in bytes. Its payload is dropped beyond [Config.MaxPayload].
const maxInbound = 1 << 20

// breach is something that MQTT 3.1.1, or this connection, does not allow a broker.
type breach string

func (b breach) Error() string { return "the broker breaks the rules of MQTT: " + string(b) }

var errForeign = errors.New("what answers is not an MQTT broker")

// next reads one packet. What paho is to see of it lies in f.ready then.
func (f *filter) next() error {
	first, err := f.in.ReadByte()
	if err != nil {
		return err
	}
	kind, flags := first>>4, first&0x0f
	if !f.begun && kind != packets.Connack {
		return errForeign
	}
	rest, err := binary.ReadUvarint(f.in) // MQTT packs a length in the same way (MQTT 3.1.1, section 2.2.3)
	if err != nil {
		return err
	}
	if rest >= 1<<28 {
		return breach("a length of more than four bytes")
	}
	length := int(rest)
	if kind == packets.Publish {
		return f.message(first, length)
	}
	size, known := map[byte]int{packets.Connack: 2, packets.Puback: 2, packets.Unsuback: 2, packets.Suback: 3, packets.Pingresp: 0}[kind]
	switch {
	case flags != 0:
		return breach("flags that are reserved")
	case !known, kind == packets.Connack && f.begun, length != size:
		return breach(fmt.Sprintf("a packet of type %d with %d bytes", kind, length))
	}
	body, err := f.take(length)
	if err != nil {
		return err
	}
	switch kind {
	case packets.Connack:
		return f.connack(body)
	case packets.Puback, packets.Unsuback:
		return f.answered(kind, body, 0)
	case packets.Suback:
		return f.answered(kind, body, body[2])
	}
	f.ready = []byte{first, 0}
	return f.slow(1) // paho accepts an unexpected PINGRESP, too
}

// take reads n bytes, which are valid until the next call.
func (f *filter) take(n int) ([]byte, error) {
	f.body = slices.Grow(f.body[:0], n)[:n]
	_, err := io.ReadFull(f.in, f.body)
	return f.body, err
}

func (f *filter) connack(body []byte) error {
	switch {
	case body[0] > 1 || body[1] > packets.ErrRefusedNotAuthorised:
		return breach(fmt.Sprintf("an answer to CONNECT with %d, %d", body[0], body[1]))
	case body[1] != packets.Accepted:
		return fmt.Errorf("the broker refuses the login: %w (code %d)", packets.ConnErrors[body[1]], body[1])
	}
	f.begun, f.ready = true, []byte{packets.Connack << 4, 2, body[0], body[1]}
	return nil
}

// subscriptionRefused is the code of a SUBACK (MQTT 3.1.1, section 3.9.3).
const subscriptionRefused = 0x80

// answered takes a PUBACK or UNSUBACK, or a SUBACK with its code. They end here: paho knows nothing of
// what goes out. A SUBACK with more codes than were asked for would make it panic.
func (f *filter) answered(kind byte, body []byte, code byte) error {
	switch {
	case code > 1 && code != subscriptionRefused:
		return breach(fmt.Sprintf("the code %#x for a subscription", code))
	case !f.answer(binary.BigEndian.Uint16(body), kind, code):
		return breach("an answer to nothing that was sent")
	}
	return nil
}

// message reads a PUBLISH. It is packed anew, so that paho sees no more of a payload than it
// should.
func (f *filter) message(first byte, length int) error {
	qos := int(first >> 1 & 3)
	if qos > 1 || length < 2 || length > maxInbound {
		return breach(fmt.Sprintf("a message with QoS %d and %d bytes", qos, length))
	}
	body, err := f.take(length)
	if err != nil {
		return err
	}
	topic := 2 + int(binary.BigEndian.Uint16(body)) // its end
	payload := topic + 2*qos                        // its beginning: a packet id lies before it
	switch {
	case payload > length || topic > 2+maxTopic:
		return breach(fmt.Sprintf("a topic of %d bytes in %d", topic-2, length))
	case !validTopic(string(body[2:topic])):
		return breach("a message without a valid topic")
	case qos > 0 && body[topic]|body[topic+1] == 0:
		return breach("a message with the id 0")
	}
	if err := f.slow(1 + (length-payload)/(8<<10)); err != nil {
		return err
	}
	body = body[:min(length, payload+f.most+1)]
	f.ready = append(binary.AppendUvarint([]byte{first}, uint64(len(body))), body...) // as MQTT packs a length
	return nil
}

// slow waits until so many messages may come. Meanwhile nothing is read, so that TCP
// makes the broker wait too.
func (f *filter) slow(messages int) error {
	now := time.Now()
	timer := time.NewTimer(f.pace.ReserveN(now, min(messages, f.pace.Burst())).DelayFrom(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-f.over:
		return errOver
	}
}

// maxTopic bounds a topic, in bytes.
const maxTopic = 1024

// validTopic reports whether a message may bear the topic (MQTT 3.1.1, section 4.7).
func validTopic(topic string) bool {
	return topic != "" && utf8.ValidString(topic) && !strings.ContainsAny(topic, "+#\x00")
}
