package broker

// refusal is one thing that is not let pass: how it is counted and logged, and how the
// station is answered.
type refusal struct {
	metric string // the reason in gatehouse_refusals_total
	reason string // for the log and the handler
	code   byte   // MQTT 5, section 2.4: of the DISCONNECT or CONNACK; 0: no answer
	v3     byte   // MQTT 3.1.1, table 3.1: of the CONNACK; 0: no answer
}

// Error returns the reason.
func (r *refusal) Error() string { return r.reason }

// Reason codes of MQTT 5 (section 2.4) and 3.1.1 (table 3.1).
const (
	codeNoSubscription = 0x11
	codeMalformed      = 0x81
	codeProtocol       = 0x82
	codeBadVersion     = 0x84
	codeBadClientID    = 0x85
	codeBadSecret      = 0x86
	codeNotAuthorized  = 0x87
	codeStopping       = 0x8B
	codeBadMethod      = 0x8C
	codeTakenOver      = 0x8E
	codeBadAlias       = 0x94
	codeTooLarge       = 0x95
	codeNoRetain       = 0x9A
	codeNoQoS          = 0x9B

	v3BadVersion    = 1
	v3BadClientID   = 2
	v3BadSecret     = 4
	v3NotAuthorized = 5
	v3Refused       = 0x80 // in a SUBACK, table 3.9.3
)

// Refusals of a CONNECT, which CONNACK answers:
var (
	errWill      = &refusal{"mqtt-will", "wills are not offered", codeNotAuthorized, v3NotAuthorized}
	errVersion   = &refusal{"mqtt-version", "only MQTT 3.1.1 and 5.0 are supported", codeBadVersion, v3BadVersion}
	errNoID      = &refusal{"mqtt-client-id", "no client id, and the old session wanted", codeBadClientID, v3BadClientID}
	errAnonymous = &refusal{"mqtt-anonymous", "no user name or password", codeBadSecret, v3BadSecret}
	errClientID  = &refusal{"mqtt-client-id", "client id and user name are not those of one station", codeNotAuthorized, v3NotAuthorized}
	errSecret    = &refusal{"mqtt-secret", "wrong station or secret", codeBadSecret, v3BadSecret}
	errTooSmall  = &refusal{"mqtt-small-packets", "takes no packet as large as a command", codeTooLarge, 0}
	errMethod    = &refusal{"mqtt-auth-method", "authentication methods are not offered", codeBadMethod, v3NotAuthorized}
)

// Breaches of the rights of a station:
var (
	errTopic     = &refusal{"mqtt-topic", "published to a foreign topic", codeNotAuthorized, 0}
	errRetain    = &refusal{"mqtt-retain", "published a retained message", codeNoRetain, 0}
	errQoS       = &refusal{"mqtt-qos", "published at QoS 2", codeNoQoS, 0}
	errAlias     = &refusal{"mqtt-alias", "used a topic alias", codeBadAlias, 0}
	errSubscribe = &refusal{"mqtt-subscribe", "subscribed to a foreign topic", codeNotAuthorized, 0}
)

// Breaches of the protocol and of the limits:
var (
	errFirst     = &refusal{"mqtt-protocol", "did not begin with CONNECT", 0, 0}
	errSecond    = &refusal{"mqtt-protocol", "sent a second CONNECT", codeProtocol, 0}
	errKind      = &refusal{"mqtt-protocol", "sent a packet that no client sends", codeProtocol, 0}
	errMalformed = &refusal{"mqtt-malformed", "sent a malformed packet", codeMalformed, 0}
	errBreach    = &refusal{"mqtt-protocol", "sent a packet that says what the protocol does not allow", codeProtocol, 0}
	errLarge     = &refusal{"mqtt-packet-size", "sent a packet that is too large", codeTooLarge, 0}
	errHandshake = &refusal{"mqtt-tls", "TLS handshake failed", 0, 0}
	errNoConnect = &refusal{"mqtt-connect-timeout", "no CONNECT in time", 0, 0}
	errCrowded   = &refusal{"mqtt-connecting", "evicted by newer connections before its CONNECT", 0, 0}
	errFull      = &refusal{"mqtt-connections", "too many connections", 0, 0}
	errAddress   = &refusal{"mqtt-address", "too many connections from one address", 0, 0}
	errPanic     = &refusal{"mqtt-panic", "a packet broke its handling", 0, 0}
)

// Reasons of ends that are no refusals.
const (
	reasonLeft      = "disconnected"
	reasonLost      = "connection lost"
	reasonSilent    = "silent for longer than its keepalive"
	reasonTakenOver = "taken over"
	reasonStopping  = "the gateway stops"
	reasonNotTaking = "did not take what was sent to it"
	reasonRefused   = "refused by the gateway"
)

// connack is the answer to a CONNECT that is refused; nil when there is none.
func (r *refusal) connack(version byte) []byte {
	switch {
	case version == 5 && r.code != 0:
		return []byte{typeConnack << 4, 3, 0, r.code, 0}
	case version == 4 && r.v3 != 0:
		return []byte{typeConnack << 4, 2, 0, r.v3}
	}
	return nil
}

// disconnect is the DISCONNECT with a reason code; nil in MQTT 3.1.1, where a
// server sends none.
func disconnect(version, code byte) []byte {
	if version != 5 || code == 0 {
		return nil
	}
	return []byte{typeDisconnect << 4, 2, code, 0}
}

// note counts and logs a refusal of c.
func (s *Server) note(c *Conn, r *refusal) {
	s.cfg.Metrics.Refused(r.metric)
	s.ledger.Warn("station refused", "reason", r.reason, "remote", c.remote, "station", int64(c.Station()))
}
