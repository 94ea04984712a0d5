package mqttclient

import (
	"errors"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// errFull is why a message is not sent. The connection goes on.
var errFull = errors.New("too many messages wait for the broker's acknowledgement")

// Delivery is a message on its way to the broker.
type Delivery struct {
	answer byte   // the type of the packet that answers it; 0: there is none
	topic  string // of a subscription, for which the package itself uses a Delivery
	done   chan struct{}
	err    error // set before done is closed
}

// Done is closed when the broker has acknowledged the message (QoS 0: when it is
// written), when it was not accepted, and in any case when the connection is over.
func (d *Delivery) Done() <-chan struct{} { return d.done }

// Err waits for Done. It is nil only if the broker's acknowledgement of this very message
// came in (QoS 0: if it was written).
func (d *Delivery) Err() error {
	<-d.done
	return d.err
}

// finish is called once.
func (d *Delivery) finish(err error) {
	d.err = err
	close(d.done)
}

// Publish hands a message to the connection and does not wait for the broker's answer.
// Messages leave in the order of the calls. It may wait until the broker reads, for at
// most 20 s: then the connection is over. The payload is not kept.
func (c *Conn) Publish(m Message) *Delivery {
	packet := &packets.PublishPacket{
		FixedHeader: packets.FixedHeader{MessageType: packets.Publish, Qos: m.QoS, Retain: m.Retained},
		TopicName:   m.Topic, Payload: m.Payload,
	}
	d := &Delivery{done: make(chan struct{})}
	if m.QoS > 0 {
		d.answer = packets.Puback
	}
	c.request(d, packet, &packet.MessageID)
	return d
}

// request writes a packet. One that is answered gets an id, under which its Delivery waits
// from before it is written.
func (c *Conn) request(d *Delivery, packet packets.ControlPacket, id *uint16) {
	if !c.lock() {
		d.finish(c.Err())
		return
	}
	defer c.unlock()
	if err := c.await(d, id); err != nil {
		d.finish(err)
		return
	}
	c.send(encode(packet))
	if d.answer == 0 {
		d.finish(c.Err())
	}
}

// maxUnanswered bounds what waits for an answer. There are 65,535 ids.
const maxUnanswered = 16 << 10

// await has a Delivery wait for its answer, if there is one, and sets an id that is not in
// use.
func (c *Conn) await(d *Delivery, id *uint16) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case d.answer == 0:
		return nil
	case len(c.unanswered) >= maxUnanswered:
		return errFull
	}
	for used := true; used || c.lastID == 0; {
		c.lastID++
		_, used = c.unanswered[c.lastID]
	}
	c.unanswered[c.lastID] = d
	*id = c.lastID
	return nil
}

// answer takes an answer of a type, with the code of one to a subscription; false when
// nothing waits for it.
func (c *Conn) answer(id uint16, kind, code byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.unanswered[id]
	if d == nil || d.answer != kind {
		return false
	}
	delete(c.unanswered, id)
	if code == subscriptionRefused {
		d.finish(unsubscribed{d.topic})
	} else {
		d.finish(nil)
	}
	return true
}

// unsubscribed is the error of a topic that the broker refuses.
type unsubscribed struct{ topic string }

func (u unsubscribed) Error() string { return "the broker refuses the subscription to " + u.topic }
