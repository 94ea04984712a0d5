package broker

// Where a property may stand: in the properties of a will or of a packet type.
const (
	inWill        = 1 << 0
	inConnect     = 1 << typeConnect
	inPublish     = 1 << typePublish
	inAnswer      = 1<<typePuback | 1<<typePubrec | 1<<typePubrel | 1<<typePubcomp
	inSubscribe   = 1 << typeSubscribe
	inUnsubscribe = 1 << typeUnsubscribe
	inDisconnect  = 1 << typeDisconnect
	inAny         = inWill | inConnect | inPublish | inAnswer | inSubscribe | inUnsubscribe | inDisconnect
)

// Properties that are asked for by name.
const (
	propIdentifier = 0x0B // Subscription Identifier
	propMethod     = 0x15 // Authentication Method
	propMethodData = 0x16 // Authentication Data
	propAlias      = 0x23 // Topic Alias
	propUser       = 0x26 // User Property
)

// form is how the value of a property is written, and which values it may have.
type form byte

const (
	flag       form = iota // a byte, 0 or 1
	interval               // a four byte integer
	text                   // a UTF-8 string
	topic                  // a topic name
	data                   // binary data
	identifier             // a variable byte integer, not 0
	count                  // a two byte integer
	quota                  // the same, not 0
	size                   // a four byte integer, not 0
	pair                   // two UTF-8 strings
)

// propertyOf returns the form of a property, and where a client may send it (MQTT 5,
// section 2.2.2.2): 0 is nowhere.
func propertyOf(id int) (form form, where int) {
	switch id {
	case 0x01: // Payload Format Indicator
		return flag, inWill | inPublish
	case 0x02: // Message Expiry Interval
		return interval, inWill | inPublish
	case 0x03: // Content Type
		return text, inWill | inPublish
	case 0x08: // Response Topic
		return topic, inWill | inPublish
	case 0x09: // Correlation Data
		return data, inWill | inPublish
	case propIdentifier:
		return identifier, inPublish | inSubscribe
	case 0x11: // Session Expiry Interval
		return interval, inConnect | inDisconnect
	case propMethod:
		return text, inConnect
	case propMethodData:
		return data, inConnect
	case 0x17, 0x19: // Request Problem Information, Request Response Information
		return flag, inConnect
	case 0x18: // Will Delay Interval
		return interval, inWill
	case 0x1F: // Reason String
		return text, inAnswer | inDisconnect
	case 0x21: // Receive Maximum
		return quota, inConnect
	case 0x22: // Topic Alias Maximum
		return count, inConnect
	case propAlias:
		return count, inPublish
	case propUser:
		return pair, inAny
	case 0x27: // Maximum Packet Size
		return size, inConnect
	}
	return 0, 0
}

// value reads a value of that form.
func (f *fields) value(as form) {
	switch as {
	case flag:
		f.demand(f.one() <= 1, errBreach)
	case interval:
		f.four()
	case text:
		f.text()
	case topic:
		f.topic()
	case data:
		f.binary()
	case identifier:
		f.demand(f.integer() > 0, errBreach)
	case count:
		f.two()
	case quota:
		f.demand(f.two() > 0, errBreach)
	case size:
		f.demand(f.four() > 0, errBreach)
	case pair:
		f.text()
		f.text()
	}
}

// found is the set of properties that a packet has, one bit each.
type found uint64

func (s found) has(id int) bool { return s>>id&1 == 1 }

// properties reads a section of properties that stands there. Each may come once, but
// for User Property (section 2.2.2.2 and those of the packets).
func (f *fields) properties(where int) (seen found) {
	section := fields{rest: f.take(f.integer())}
	for section.more() {
		id := section.integer()
		form, allowed := propertyOf(id)
		if allowed&where == 0 {
			section.refuse(errMalformed)
			break
		}
		section.demand(id == propUser || !seen.has(id), errBreach)
		seen |= 1 << id
		section.value(form)
	}
	f.padded = f.padded || section.padded
	if section.bad != nil {
		f.refuse(section.bad)
	}
	return seen
}
