package cloudtest_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/config"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/cloudapp"
	"gatehouse/internal/test/gatewaytest"
)

const (
	documentedRights        = "../../../packaging/cloud/mosquitto.acl"
	guide                   = "../../../packaging/README.md"
	documentedConfiguration = "../../../packaging/cloud/mosquitto.conf"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert = &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.issue("ca", a.cert)
	return a
}

// issue writes NAME.pem and NAME.key.
func (a *authority) issue(name string, template *x509.Certificate) (certificate, key string) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.key == nil {
		a.key = private
	}
	a.last++
	template.SerialNumber = big.NewInt(a.last)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	certificate, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	a.write(name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	a.write(name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	return certificate, key
}

func (a *authority) write(name, text string) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

func (a *authority) server() (certificate, key string) {
	a.t.Helper()
	return a.issue("broker", &x509.Certificate{Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

func (a *authority) client(name string) (certificate, key string) {
	a.t.Helper()
	return a.issue(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// identity makes the data of a gateway, and returns its id: its login is made before it
// is joined to the cloud.
func identity(t *testing.T, cfg config.Config) site.GatewayID {
	t.Helper()
	g := gatewaytest.Run(t, cfg)
	status, err := g.Admin.Status(t.Context())
	if err == nil {
		err = g.Stop()
	}
	if err != nil {
		t.Fatal(err)
	}
	return status.GatewayID
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// login returns the credentials of a user of the broker.
type login func(user string) mqttclient.Config

// The configuration and the rights of the installer's guide, with passwords.
func TestMosquitto_documented(t *testing.T) {
	t.Parallel()
	cfg := gatewaytest.Configure(t)
	id := identity(t, cfg)
	authority := newAuthority(t)
	authority.server()
	passwords := map[string]string{"another-gateway": "secret of another", "application": "secret of the application", "viewer": "secret of the viewer", string(id): "secret of the gateway"}
	if err := brokertest.PasswordFile(t, filepath.Join(authority.dir, "gatehouse.passwords"), passwords); err != nil {
		t.Fatal(err)
	}
	authority.write("gatehouse.acl", read(t, documentedRights))
	broker := brokertest.Mosquitto(t, brokertest.Whole(strings.NewReplacer(
		"/etc/mosquitto/certs/", authority.dir+"/",
		"/etc/mosquitto/", authority.dir+"/",
	).Replace(read(t, documentedConfiguration))))
	as := func(user string) mqttclient.Config {
		return mqttclient.Config{Broker: mqttclient.Broker{
			URL: broker.URL(), CA: filepath.Join(authority.dir, "ca.pem"), Username: user,
			PasswordFile: authority.write(user+".password", passwords[user]+"\n"),
		}}
	}
	login := as(string(id))
	cfg.Cloud.URL, cfg.Cloud.CA, cfg.Cloud.Username, cfg.Cloud.PasswordFile = login.URL, login.CA, login.Username, login.PasswordFile
	serves(t, cfg, as)
}

// The same rights with client certificates, whose common name is the user.
func TestMosquitto_certificates(t *testing.T) {
	t.Parallel()
	cfg := gatewaytest.Configure(t)
	id := identity(t, cfg)
	authority := newAuthority(t)
	certificate, key := authority.server()
	rights := authority.write("gatehouse.acl", read(t, documentedRights))
	broker := brokertest.Mosquitto(t, brokertest.TLS(certificate, key, filepath.Join(authority.dir, "ca.pem")), brokertest.ACL(rights))
	as := func(user string) mqttclient.Config {
		login := mqttclient.Config{Broker: mqttclient.Broker{URL: broker.URL(), CA: filepath.Join(authority.dir, "ca.pem")}}
		login.Certificate, login.Key = authority.client(user)
		return login
	}
	login := as(string(id))
	cfg.Cloud.URL, cfg.Cloud.CA, cfg.Cloud.Certificate, cfg.Cloud.Key = login.URL, login.CA, login.Certificate, login.Key
	serves(t, cfg, as)

	unknown := as(string(id))
	unknown.Certificate, unknown.Key = newAuthority(t).client(string(id))
	unknown.ClientID, unknown.Keepalive = "unknown", keepalive
	if conn, err := mqttclient.Dial(t.Context(), unknown); err == nil {
		conn.Close()
		t.Error("a certificate of another authority was accepted")
	}
}

// The rights of the installer's guide on NATS, over TLS.
func TestNATS_documented(t *testing.T) {
	t.Parallel()
	cfg := gatewaytest.Configure(t)
	id := identity(t, cfg)
	found := regexp.MustCompile("`permissions: ({publish: .*})`").FindStringSubmatch(read(t, guide))
	if found == nil {
		t.Fatal("the guide does not show the permissions of a gateway")
	}
	passwords := map[string]string{"another-gateway": "secret-1", "application": "secret-2", "viewer": "secret-3", string(id): "secret-4"}
	const up = `["gateways.*.status", "gateways.*.journal", "gateways.*.live", "gateways.*.result", "gateways.*.stations.*.state"]`
	authority := newAuthority(t)
	certificate, key := authority.server()
	broker := brokertest.NATS(t, brokertest.TLS(certificate, key, ""), brokertest.Users(passwords), brokertest.Permissions(map[string]string{
		string(id):        strings.ReplaceAll(found[1], "ID", string(id)),
		"another-gateway": strings.ReplaceAll(found[1], "ID", "another-gateway"),
		"application":     `{publish: ["gateways.*.command", "gateways.*.ack"], subscribe: ` + up + `}`,
		"viewer":          `{publish: {deny: [">"]}, subscribe: ` + up + `}`,
	}))
	as := func(user string) mqttclient.Config {
		return mqttclient.Config{Broker: mqttclient.Broker{URL: broker.URL(), CA: filepath.Join(authority.dir, "ca.pem"), Username: user, Password: site.Secret(passwords[user])}}
	}
	login := as(string(id))
	cfg.Cloud.URL, cfg.Cloud.CA, cfg.Cloud.Username, cfg.Cloud.Password = login.URL, login.CA, login.Username, login.Password
	serves(t, cfg, as)
}

// serves sees that everything goes through that has to, and nothing else.
func serves(t *testing.T, cfg config.Config, as login) {
	t.Helper()
	viewer := newApplication(t, cloudapp.Config{Broker: as("viewer")})
	d := &door{signer: newSigner(t)}
	cfg.Cloud.Keys, cfg.Unlock.TTL = []string{d.signer.public}, unlockTTL
	d.Gateway = gatewaytest.Run(t, cfg)
	d.acceptClock()
	status, err := d.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.id, d.signer.gateway = status.GatewayID, status.GatewayID
	d.play(t, 1)
	d.awaitUp()
	viewer.next(0, "the viewer sees records", func(e cloudapp.Event) bool { return e.Kind == cloudapp.Record })
	d.unheard(t, as)
	if _, delivered, _ := d.cloud(); delivered != 0 {
		t.Errorf("up to %d is delivered, and no application was there", delivered)
	}
	a := newApplication(t, cloudapp.Config{Broker: as("application"), Acknowledge: true})
	a.next(0, "the state has come", func(e cloudapp.Event) bool { return e.Kind == cloudapp.State && e.Station == 1 })
	newSender(t, as("application")).command(d.id, d.signer.right("c-1"))
	a.next(0, "the command is answered", isResult("c-1", site.Done))
	d.awaitDelivered()
	if n := d.opened(1, 1); n != 1 {
		t.Errorf("the lock opened %d times", n)
	}
	d.deaf(t, as)
	seq := d.newest(t) // whatever was said before this record has come with it
	for _, app := range []*application{viewer, a} {
		app.next(0, "the newest record has come", func(e cloudapp.Event) bool { return e.Kind == cloudapp.Record && e.Record.Seq >= seq })
	}
	for _, e := range append(viewer.seen(), a.seen()...) {
		if e.Gateway != d.id && e.Gateway != "" || isForged(e) {
			t.Errorf("somebody else was heard: %+v", e)
		}
	}
}

// isForged reports whether that is what unheard says.
func isForged(e cloudapp.Event) bool {
	switch e.Kind {
	case cloudapp.State:
		return e.State.ID == 0
	case cloudapp.Status:
		return e.Status.Status == ""
	case cloudapp.Result:
		return e.Result.Outcome == ""
	}
	return e.Kind == cloudapp.Malformed
}

// unheard: nobody hears what somebody says who has no right to.
func (d *door) unheard(t *testing.T, as login) {
	t.Helper()
	for user, topics := range map[string][]string{
		"viewer":          {api.Topic(d.id, api.AckLeaf), api.Topic(d.id, api.CommandLeaf), api.Topic(d.id, api.JournalLeaf), api.StateTopic(d.id, 1)},
		"application":     {api.Topic(d.id, api.StatusLeaf), api.StateTopic(d.id, 77), api.Topic(d.id, api.ResultLeaf)},
		"another-gateway": {api.Topic(d.id, api.StatusLeaf), api.Topic(d.id, api.JournalLeaf), api.Topic(d.id, api.AckLeaf), api.Topic("another-gateway", api.CommandLeaf)},
		string(d.id):      {api.Topic("third-gateway", api.StatusLeaf), api.Topic(d.id, api.AckLeaf), api.Topic(d.id, api.CommandLeaf)},
	} {
		s := newSender(t, as(user))
		for _, topic := range topics {
			s.publish(topic, []byte(`{"seq":1000000}`), false)
		}
	}
}

// newest makes a record and returns its seq.
func (d *door) newest(t *testing.T) uint64 {
	t.Helper()
	if _, err := d.Admin.UpdateStation(t.Context(), 1, rename(randomID())); err != nil {
		t.Fatal(err)
	}
	records := d.Records()
	return records[len(records)-1].Seq
}

// deaf: nobody hears what is not meant for him. It is all said before something that he
// may hear, and on a connection messages keep their order.
func (d *door) deaf(t *testing.T, as login) {
	t.Helper()
	const end = "the end"
	application := newSender(t, as("application"))
	may := map[string]string{"viewer": api.Topic(d.id, api.JournalLeaf), "another-gateway": api.Topic("another-gateway", api.CommandLeaf)}
	for user, topics := range map[string][]string{
		"viewer":          {api.Topic(d.id, api.CommandLeaf)},
		"another-gateway": {api.Topic(d.id, api.JournalLeaf), api.Topic(d.id, api.CommandLeaf), "gateways/#", "gateways/+/stations/+/state"},
	} {
		for _, topic := range topics {
			heard := make(chan mqttclient.Message, 1000)
			login := as(user)
			login.ClientID, login.Keepalive, login.Topics = "deaf-"+randomID(), keepalive, []string{topic, may[user]}
			login.Receive = func(m mqttclient.Message) {
				m.Payload = bytes.Clone(m.Payload)
				heard <- m
			}
			conn, err := mqttclient.Dial(await.Context(t), login)
			if failed, ok := errors.AsType[*mqttclient.DialError](err); ok && failed.Step == mqttclient.StepSubscribe {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			application.command(d.id, "nothing")
			seq := d.newest(t)
			d.awaitDelivered()
			application.command("another-gateway", end)
			for last := false; !last; {
				m := await.Receive(t, "what "+user+" may hear", heard)
				if m.Topic != may[user] {
					t.Errorf("%s hears %s, subscribed to %s", user, m.Topic, topic)
				}
				var r site.Record
				last = string(m.Payload) == end || user == "viewer" && json.Unmarshal(m.Payload, &r) == nil && r.Seq >= seq
			}
			conn.Close()
		}
	}
}
