package mqttclient

import (
	"bytes"
	"errors"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// errFull is why a message is not sent. The connection goes on.
var errFull = errors.New("too many messages wait for the broker's acknowledgement")

// Delivery is a message on its way to the broker.
type Delivery struct {
	topic string // of a subscription, for which the package itself uses a Delivery
	done  chan struct{}
	err   error // set before done is closed
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
	d := &Delivery{done: make(chan struct{})}
	c.filter.request(d, m.QoS > 0, func(id uint16) packets.ControlPacket {
		return &packets.PublishPacket{
			FixedHeader: packets.FixedHeader{MessageType: packets.Publish, Qos: m.QoS, Retain: m.Retained},
			TopicName:   m.Topic, Payload: m.Payload, MessageID: id,
		}
	})
	return d
}

// subscribe asks for the messages of a topic; the Delivery is done with the answer.
func (f *filter) subscribe(topic string) *Delivery {
	d := &Delivery{topic: topic, done: make(chan struct{})}
	f.request(d, true, func(id uint16) packets.ControlPacket {
		return &packets.SubscribePacket{
			FixedHeader: packets.FixedHeader{MessageType: packets.Subscribe, Qos: 1}, // as section 3.8.1 wants it
			Topics:      []string{topic}, Qoss: []byte{1}, MessageID: id,
		}
	})
	return d
}

// request writes a packet. One that is to be answered gets an id, under which its Delivery
// waits from before it is written.
func (f *filter) request(d *Delivery, answered bool, packet func(id uint16) packets.ControlPacket) {
	if !f.lock() {
		d.finish(f.cause())
		return
	}
	defer f.unlock()
	var id uint16
	if answered {
		var err error
		if id, err = f.await(d); err != nil {
			d.finish(err)
			return
		}
	}
	var whole bytes.Buffer
	_ = packet(id).Write(&whole) // to memory
	f.send(whole.Bytes())
	if !answered {
		d.finish(f.cause())
	}
}

// maxUnanswered bounds what waits for an answer. There are 65,535 ids.
const maxUnanswered = 16 << 10

// await has a Delivery wait for the answer to an id that is not in use.
func (f *filter) await(d *Delivery) (id uint16, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.err != nil:
		return 0, f.err
	case len(f.unanswered) >= maxUnanswered:
		return 0, errFull
	}
	for used := true; used || f.lastID == 0; {
		f.lastID++
		_, used = f.unanswered[f.lastID]
	}
	f.unanswered[f.lastID] = d
	return f.lastID, nil
}

// answer takes an answer to a message or, with its code, to a subscription; false when
// none of that kind waits for it.
func (f *filter) answer(id uint16, subscription bool, code byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, waits := f.unanswered[id]
	if !waits || (d.topic != "") != subscription {
		return false
	}
	delete(f.unanswered, id)
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
