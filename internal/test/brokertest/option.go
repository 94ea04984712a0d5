package brokertest

// Option changes how a broker runs. Without any, everybody may do everything.
type Option func(*options)

type options struct {
	users       map[string]string
	permissions map[string]string
	acl         string
	certificate string
	key         string
	clientCA    string
	lines       []string
	whole       string
	encrypted   bool
}

func (o *options) tls() bool { return o.certificate != "" || o.encrypted }

func apply(with []Option) (o options) {
	for _, option := range with {
		option(&o)
	}
	return o
}

// Users lets in only who has one of these names with its password.
func Users(passwords map[string]string) Option {
	return func(o *options) { o.users = passwords }
}

// Permissions says what users of a NATS server may do, each in its own words, such as
// {publish: ["a.>"], subscribe: ["b"]}; who is not named may do everything.
func Permissions(texts map[string]string) Option {
	return func(o *options) { o.permissions = texts }
}

// ACL says who may do what, in a file of Mosquitto's format (mosquitto.conf(5),
// acl_file).
func ACL(file string) Option {
	return func(o *options) { o.acl = file }
}

// TLS makes the listener speak TLS with a certificate and its key, PEM files. Where
// clientCA is not "", a client needs a certificate that it signs, and is called by its
// common name.
func TLS(certificate, key, clientCA string) Option {
	return func(o *options) { o.certificate, o.key, o.clientCA = certificate, key, clientCA }
}

// Lines adds lines to the configuration file, in the broker's own words.
func Lines(lines ...string) Option {
	return func(o *options) { o.lines = append(o.lines, lines...) }
}

// Whole is the whole configuration of a Mosquitto, with the line "listener 8883", whose
// place a free port on loopback takes, and TLS. No other option goes with it.
func Whole(configuration string) Option {
	return func(o *options) { o.whole, o.encrypted = configuration, true }
}
