package broker

// What is checked here is the form of the packets of clients: every rule of MQTT
// 3.1.1 and 5.0 that one packet alone can break. testdata/mqtt lists the rules. What
// a station may ask for is checked later (see [Conn.receive]), and mochi decodes only what
// has passed. Nothing is allocated.

// Bits of the flags of CONNECT (section 3.1.2.3).
const (
	flagReserved = 1 << 0
	flagClean    = 1 << 1
	flagWill     = 1 << 2
	flagsOfWill  = 3<<3 | 1<<5 // its QoS and retain
	flagPassword = 1 << 6
	flagUser     = 1 << 7
)

// checkConnect judges a CONNECT. The version is the one to answer in; 0 when it is
// not known.
func checkConnect(packet []byte) (version byte, r *refusal) {
	f := fields{rest: packet[1:]}
	f.integer()
	name, version := f.binary(), f.one()
	switch {
	case f.bad != nil:
		return 0, f.bad
	case string(name) == "MQIsdp" && version == 3:
		return 4, errVersion
	case string(name) != "MQTT":
		return 0, errMalformed
	case version < 4:
		return 4, errVersion
	case version > 5:
		return 5, errVersion
	}
	f.demand(packet[0]&0x0F == 0, errMalformed)
	return version, f.connect(version)
}

// connect reads on from the flags of a CONNECT.
func (f *fields) connect(version byte) *refusal {
	v5 := version == 5
	flags := f.one()
	f.two() // keepalive
	var seen found
	if v5 {
		seen = f.properties(inConnect)
	}
	id := f.text()
	f.will(flags, v5)
	f.demand(flags&flagReserved == 0, errMalformed)
	f.demand(v5 || flags&flagPassword == 0 || flags&flagUser != 0, errMalformed) // MQTT-3.1.2-22 of 3.1.1
	if flags&flagUser != 0 {
		f.text()
	}
	password := 1
	if flags&flagPassword != 0 {
		password = len(f.binary())
	}
	f.demand(len(f.rest) == 0, errMalformed)
	f.demand(!v5 || !f.padded, errMalformed)
	f.demand(seen.has(propMethod) || !seen.has(propMethodData), errBreach)
	// It is well-formed. What follows is not offered, and mochi has answers of its own to it.
	f.demand(v5 || len(id) > 0 || flags&flagClean != 0, errNoID)
	f.demand(flags&flagWill == 0, errWill)
	f.demand(!seen.has(propMethod), errMethod)
	f.demand(password > 0, errSecret)
	return f.bad
}

// will reads the will of a CONNECT, if its flags announce one.
func (f *fields) will(flags byte, v5 bool) {
	if flags&flagWill == 0 {
		f.demand(flags&flagsOfWill == 0, errMalformed)
		return
	}
	f.demand(flags>>3&3 < 3, errMalformed)
	if v5 {
		f.properties(inWill)
	}
	f.topic()
	f.binary()
}

// checkPacket judges any other packet of a client.
func checkPacket(version byte, packet []byte) *refusal {
	header, v5 := packet[0], version == 5
	kind := header >> 4
	f := fields{rest: packet[1:]}
	f.integer()
	f.demand(kind == typePublish || header&0x0F == flagsOf(kind), errMalformed)
	switch kind {
	case typePublish:
		f.publish(header, v5)
	case typePuback, typePubrec, typePubrel, typePubcomp:
		f.acknowledgement(kind, v5)
	case typeSubscribe, typeUnsubscribe:
		f.subscription(kind, v5)
	case typeDisconnect:
		f.disconnect(v5)
	}
	f.demand(len(f.rest) == 0, errMalformed)
	f.demand(!v5 || !f.padded, errMalformed)
	f.demand(kind < typePubrec || kind > typePubcomp, errKind) // QoS 2 is not offered
	return f.bad
}

// flagsOf returns the flags of the fixed header (section 2.1.3).
func flagsOf(kind byte) byte {
	switch kind {
	case typePubrel, typeSubscribe, typeUnsubscribe:
		return 2
	}
	return 0
}

// packetID reads a packet identifier.
func (f *fields) packetID() { f.demand(f.two() > 0, errBreach) }

func (f *fields) publish(header byte, v5 bool) {
	qos, dup := header>>1&3, header&8 != 0
	f.demand(qos < 3 && (qos > 0 || !dup), errMalformed)
	topic := f.text()
	f.demand(isName(topic), errBreach)
	if qos > 0 {
		f.packetID()
	}
	if v5 {
		seen := f.properties(inPublish)
		f.demand(!seen.has(propAlias), errAlias)
		f.demand(!seen.has(propIdentifier), errBreach) // only a server sends it: MQTT-3.3.4-6
	}
	f.demand(len(topic) > 0, errBreach)
	if f.bad == nil {
		f.rest = nil // the payload
	}
}

func (f *fields) acknowledgement(kind byte, v5 bool) {
	f.packetID()
	if !v5 || !f.more() {
		return
	}
	f.demand(isAnswer(kind, f.one()), errBreach)
	if f.more() {
		f.properties(1 << kind)
	}
}

// isAnswer reports whether a client may answer with that reason code (sections
// 3.4.2.1, 3.5.2.1, 3.6.2.1 and 3.7.2.1).
func isAnswer(kind, code byte) bool {
	switch code {
	case 0x00:
		return true
	case 0x92: // packet identifier not found
		return kind == typePubrel || kind == typePubcomp
	case 0x10, 0x80, 0x83, codeNotAuthorized, 0x90, 0x91, 0x97, 0x99:
		return kind == typePuback || kind == typePubrec
	}
	return false
}

func (f *fields) subscription(kind byte, v5 bool) {
	f.packetID()
	if v5 {
		f.properties(1 << kind)
	}
	f.demand(len(f.rest) > 0, errBreach) // MQTT-3.8.3-2, MQTT-3.10.3-2
	for f.more() {
		filter := f.text()
		name, below, shared := []byte(nil), filter, false
		if v5 {
			name, below, shared = share(filter)
		}
		f.demand(isFilter(below), errBreach)
		f.demand(!shared || len(name) > 0 && isName(name), errBreach) // MQTT-4.8.2-1, MQTT-4.8.2-2
		if kind == typeSubscribe {
			f.options(v5, shared)
		}
	}
}

// options reads how a topic is subscribed to (section 3.8.3.1).
func (f *fields) options(v5, shared bool) {
	o := f.one()
	if !v5 {
		f.demand(o <= 2, errMalformed)
		return
	}
	f.demand(o&0xC0 == 0, errMalformed)
	f.demand(o&3 < 3 && o>>4 < 3, errBreach)
	f.demand(!shared || o&4 == 0, errBreach) // MQTT-3.8.3-4
}

// disconnect reads the rest of a DISCONNECT. Its reason code may be any: the
// connection ends in either case.
func (f *fields) disconnect(v5 bool) {
	if !v5 || !f.more() {
		return
	}
	f.one()
	if f.more() {
		f.properties(inDisconnect)
	}
}
