package mqttclient

import (
	"bytes"
	"context"
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

// NewDelivery returns one that is on its way.
func NewDelivery() *Delivery { return &Delivery{done: make(chan struct{})} }

// Done is closed when the broker has acknowledged the message (QoS 0: when it is
// written), when it was not accepted, and in any case when the connection is over.
func (d *Delivery) Done() <-chan struct{} { return d.done }

// Err waits for Done. It is nil only if the broker's acknowledgement of this very message
// came in (QoS 0: if it was written).
func (d *Delivery) Err() error {
	<-d.done
	return d.err
}

// Finish is called once, by the connection that has it.
func (d *Delivery) Finish(err error) {
	d.err = err
	close(d.done)
}

// Publish hands a message to the connection and does not wait for the broker's answer.
// Messages leave in the order of the calls. It waits until the broker reads, for at most
// 10 s a message: then the connection is over. The payload is not kept.
func (c *Conn) Publish(m Message) *Delivery {
	packet := &packets.PublishPacket{
		FixedHeader: packets.FixedHeader{MessageType: packets.Publish, Qos: m.QoS, Retain: m.Retained},
		TopicName:   m.Topic, Payload: m.Payload,
	}
	d := NewDelivery()
	if m.QoS > 0 {
		d.answer = packets.Puback
	}
	c.filter.request(d, packet, &packet.MessageID)
	return d
}

// ErrUnacknowledged is why a connection is over whose broker takes messages and does not
// acknowledge them.
var ErrUnacknowledged = errors.New("the broker does not acknowledge what it is sent")

// Deliver publishes at QoS 1 and waits for the acknowledgement. Where ctx ends before, the
// connection is over: what is retained and what is not cannot be known any more.
func (c *Conn) Deliver(ctx context.Context, m Message) error {
	m.QoS = 1
	defer context.AfterFunc(ctx, func() { c.filter.finish(ErrUnacknowledged) })()
	return c.Publish(m).Err()
}

// subscribe asks for the messages of a topic; the Delivery is done with the answer.
func (f *filter) subscribe(topic string) *Delivery {
	packet := &packets.SubscribePacket{
		FixedHeader: packets.FixedHeader{MessageType: packets.Subscribe, Qos: 1}, // as section 3.8.1 wants it
		Topics:      []string{topic}, Qoss: []byte{1},
	}
	d := NewDelivery()
	d.answer, d.topic = packets.Suback, topic
	f.request(d, packet, &packet.MessageID)
	return d
}

// request writes a packet. One that is answered gets an id, under which its Delivery waits
// from before it is written.
func (f *filter) request(d *Delivery, packet packets.ControlPacket, id *uint16) {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	if err := f.await(d, id); err != nil {
		d.Finish(err)
		return
	}
	var whole bytes.Buffer
	_ = packet.Write(&whole) // to memory
	f.send(whole.Bytes())
	if d.answer == 0 {
		d.Finish(f.cause())
	}
}

// maxUnanswered bounds what waits for an answer. There are 65,535 ids.
const maxUnanswered = 16 << 10

// await has a Delivery wait for its answer, if there is one, and sets an id that is not in
// use.
func (f *filter) await(d *Delivery, id *uint16) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.err != nil:
		return f.err
	case d.answer == 0:
		return nil
	case len(f.unanswered) >= maxUnanswered:
		return errFull
	}
	for used := true; used || f.lastID == 0; {
		f.lastID++
		_, used = f.unanswered[f.lastID]
	}
	f.unanswered[f.lastID] = d
	*id = f.lastID
	return nil
}

// answer takes an answer of a type, with the code of one to a subscription; false when
// nothing waits for it.
func (f *filter) answer(id uint16, kind, code byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.unanswered[id]
	if d == nil || d.answer != kind {
		return false
	}
	delete(f.unanswered, id)
	if code == subscriptionRefused {
		d.Finish(unsubscribed{d.topic})
	} else {
		d.Finish(nil)
	}
	return true
}

// Unsubscribe ends a subscription. It does not wait for the broker's answer.
func (c *Conn) Unsubscribe(topic string) {
	packet := &packets.UnsubscribePacket{
		FixedHeader: packets.FixedHeader{MessageType: packets.Unsubscribe, Qos: 1}, // as section 3.10.1 wants it
		Topics:      []string{topic},
	}
	d := NewDelivery()
	d.answer = packets.Unsuback
	c.filter.request(d, packet, &packet.MessageID)
}

// unsubscribed is the error of a topic that the broker refuses.
type unsubscribed struct{ topic string }

func (u unsubscribed) Error() string { return "the broker refuses the subscription to " + u.topic }
