package broker

import "encoding/binary"

// Packet types (MQTT 5, section 2.1.2).
const (
	typeConnect     = 1
	typeConnack     = 2
	typePublish     = 3
	typePuback      = 4
	typePubrec      = 5
	typePubrel      = 6
	typePubcomp     = 7
	typeSubscribe   = 8
	typeSuback      = 9
	typeUnsubscribe = 10
	typeUnsuback    = 11
	typePingreq     = 12
	typePingresp    = 13
	typeDisconnect  = 14
)

// controlSize bounds the packets that carry no payload: the longest right one, a
// SUBSCRIBE to one topic with a few user properties, is much shorter. It keeps
// what a refused packet costs to decode small.
const controlSize = 1 << 10

// framer cuts what a station sends into packets. It hands on only whole
// packets that conform to the standard (see check), so nothing else is ever decoded or
// logged. A packet that is too large or out of place is refused by its first bytes.
type framer struct {
	limit   int  // of a whole packet
	begun   bool // CONNECT has come and is well-formed
	version byte // that CONNECT names; 0: not known
}

// next returns the size of the packet that b begins with, once it is whole and may be
// handed on, else 0; and a reason when it never may.
func (f *framer) next(b []byte) (size int, r *refusal) {
	size, r = f.measure(b)
	if r != nil || size > len(b) {
		return 0, r
	}
	return size, f.check(b[:size])
}

// measure returns the size of the packet that b begins with, or more than there is while
// its length has not come. A length has at most four bytes (MQTT 5, section 1.5.5).
func (f *framer) measure(b []byte) (size int, r *refusal) {
	if len(b) == 0 {
		return 1, nil
	}
	kind := b[0] >> 4
	if r := f.open(kind); r != nil {
		return 0, r
	}
	left, n := binary.Uvarint(b[1:min(len(b), 5)]) // the same encoding as MQTT's
	switch {
	case n > 0:
		size = 1 + n + int(left) //nolint:gosec // four bytes of 7 bits
		return size, f.checkSize(kind, size)
	case len(b) >= 5:
		return 0, errMalformed
	}
	return len(b) + 1, nil
}

// open judges the type of a packet.
func (f *framer) open(kind byte) *refusal {
	switch {
	case !f.begun && kind != typeConnect:
		return errFirst
	case f.begun && kind == typeConnect:
		return errSecond
	case !fromClient(kind):
		return errKind
	}
	return nil
}

func (f *framer) checkSize(kind byte, size int) *refusal {
	switch {
	case size > controlSize && (kind == typeSubscribe || kind == typeUnsubscribe):
		return errSubscribe
	case size > f.limit, size > controlSize && kind != typeConnect && kind != typePublish:
		return errLarge
	}
	return nil
}

// check judges a whole packet.
func (f *framer) check(packet []byte) (r *refusal) {
	if f.begun {
		return checkPacket(f.version, packet)
	}
	f.version, r = checkConnect(packet)
	f.begun = r == nil
	return r
}

// answer returns the packet that answers r: CONNACK until a well-formed CONNECT,
// DISCONNECT after it.
func (f *framer) answer(r *refusal) []byte {
	if f.begun {
		return disconnect(f.version, r.code)
	}
	return r.connack(f.version)
}

// fromClient reports whether a client may send that type. AUTH is among the others:
// it is not offered.
func fromClient(kind byte) bool {
	const types = 1<<typeConnect | 1<<typePublish | inAnswer | inSubscribe | inUnsubscribe | 1<<typePingreq | inDisconnect
	return types>>kind&1 == 1
}
