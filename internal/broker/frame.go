package broker

// Packet types (MQTT 5, section 2.1.2).
const (
	typeConnect     = 1
	typeConnack     = 2
	typePublish     = 3
	typePuback      = 4
	typeSubscribe   = 8
	typeUnsubscribe = 10
	typePingreq     = 12
	typeDisconnect  = 14
)

// controlSize bounds the packets that carry no payload: the longest right one, a
// SUBSCRIBE to one topic with a few user properties, is much shorter. It keeps
// what a refused packet costs to decode small.
const controlSize = 1 << 10

// framer follows the packets in the bytes that a station sends, ahead of mochi:
// nothing that is too large or out of place is handed on, so none of it is ever
// allocated for, decoded or logged; what comes too fast is handed on later.
type framer struct {
	limit  int         // of a whole packet
	allow  func() bool // whether one more packet may come now
	begun  bool        // CONNECT has come
	kind   byte        // of the packet at hand
	at     stage
	digits int // of its length that have been read
	left   int // bytes of its body still to come; while measuring, its length
}

// stage is a part of a packet.
type stage byte

const (
	atHeader stage = iota
	atLength
	atBody
)

// scan reads on through p. It gives how many bytes may be handed on and, when the
// next never may, why; without a reason, the rest begins with a packet that may not
// come yet, and is to be scanned again.
func (f *framer) scan(p []byte) (int, *refusal) {
	for i := 0; i < len(p); {
		switch f.at {
		case atBody:
			n := min(f.left, len(p)-i)
			i, f.left = i+n, f.left-n
			if f.left == 0 {
				f.at = atHeader
			}
			continue
		case atHeader:
			if r := f.open(p[i]); r != nil {
				return i, r
			}
			if !f.allow() {
				return i, nil
			}
			f.begun = true
			f.at, f.digits, f.left = atLength, 0, 0
		case atLength:
			if r := f.measure(p[i]); r != nil {
				return i, r
			}
		}
		i++
	}
	return len(p), nil
}

// open judges the first byte of a packet.
func (f *framer) open(b byte) *refusal {
	f.kind = b >> 4
	switch {
	case !f.begun && f.kind != typeConnect:
		return errFirst
	case f.begun && f.kind == typeConnect:
		return errSecond
	case !fromClient(f.kind):
		return errKind
	}
	return nil
}

// measure takes one byte of the packet's length, which has at most four (MQTT 5,
// section 1.5.5).
func (f *framer) measure(b byte) *refusal {
	f.left |= int(b&0x7f) << (7 * f.digits)
	f.digits++
	if b&0x80 != 0 {
		if f.digits == 4 {
			return errMalformed
		}
		return nil
	}
	if r := f.checkSize(1 + f.digits + f.left); r != nil {
		return r
	}
	f.at = atBody
	if f.left == 0 {
		f.at = atHeader
	}
	return nil
}

func (f *framer) checkSize(whole int) *refusal {
	switch f.kind {
	case typePingreq:
		if f.left > 0 {
			return errMalformed
		}
	case typeSubscribe, typeUnsubscribe:
		if whole > controlSize {
			return errSubscribe
		}
	case typePuback, typeDisconnect:
		if whole > controlSize {
			return errLarge
		}
	}
	if whole > f.limit {
		return errLarge
	}
	return nil
}

// fromClient reports whether a station may send that type. Those of QoS 2 and
// AUTH are among the others: neither is offered.
func fromClient(kind byte) bool {
	switch kind {
	case typeConnect, typePublish, typePuback, typeSubscribe, typeUnsubscribe, typePingreq, typeDisconnect:
		return true
	}
	return false
}
