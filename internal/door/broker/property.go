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
	size                   // the same, not 0
	count                  // a two byte integer
	quota                  // the same, not 0
	identifier             // a variable byte integer, not 0
	text                   // a UTF-8 string
	pair                   // two of them
	topic                  // a topic name
	data                   // binary data
)

// property is a property's form, and where a client may send it.
type property struct {
	form  form
	where uint16
}

// propertyOf returns the property with that identifier (MQTT 5, section 2.2.2.2); of one
// that there is not, where is 0.
func propertyOf(id int) property {
	known := [...]property{
		0x01:           {flag, inWill | inPublish},     // Payload Format Indicator
		0x02:           {interval, inWill | inPublish}, // Message Expiry Interval
		0x03:           {text, inWill | inPublish},     // Content Type
		0x08:           {topic, inWill | inPublish},    // Response Topic
		0x09:           {data, inWill | inPublish},     // Correlation Data
		propIdentifier: {identifier, inPublish | inSubscribe},
		0x11:           {interval, inConnect | inDisconnect}, // Session Expiry Interval
		propMethod:     {text, inConnect},
		propMethodData: {data, inConnect},
		0x17:           {flag, inConnect},               // Request Problem Information
		0x18:           {interval, inWill},              // Will Delay Interval
		0x19:           {flag, inConnect},               // Request Response Information
		0x1F:           {text, inAnswer | inDisconnect}, // Reason String
		0x21:           {quota, inConnect},              // Receive Maximum
		0x22:           {count, inConnect},              // Topic Alias Maximum
		propAlias:      {count, inPublish},
		propUser:       {pair, inAny},
		0x27:           {size, inConnect}, // Maximum Packet Size
	}
	if id < len(known) {
		return known[id]
	}
	return property{}
}

// value reads a value of that form.
func (f *fields) value(as form) {
	switch as {
	case flag:
		f.demand(f.one() <= 1, errBreach)
	case interval, size:
		f.demand(f.four() > 0 || as == interval, errBreach)
	case count, quota:
		f.demand(f.two() > 0 || as == count, errBreach)
	case identifier:
		f.demand(f.integer() > 0, errBreach)
	case pair:
		f.text()
		f.text()
	case text:
		f.text()
	case topic:
		f.topic()
	case data:
		f.binary()
	}
}

// found is the set of properties that a packet has, one bit each.
type found uint64

func (s found) has(id int) bool { return s>>id&1 == 1 }

// properties reads a section of properties that stands there. Each may come once, but
// for User Property (section 2.2.2.2 and those of the packets).
func (f *fields) properties(where uint16) (seen found) {
	section := fields{rest: f.take(f.integer())}
	for section.more() {
		id := section.integer()
		property := propertyOf(id)
		if property.where&where == 0 {
			section.refuse(errMalformed)
			break
		}
		section.demand(id == propUser || !seen.has(id), errBreach)
		seen |= 1 << id
		section.value(property.form)
	}
	f.padded = f.padded || section.padded
	if section.bad != nil {
		f.refuse(section.bad)
	}
	return seen
}
