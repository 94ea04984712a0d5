package doctor_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// certificate says what is special about a certificate.
type certificate struct {
	from, until time.Time
	names       []string
	key         byte      // another one is another key
	stranger    bool      // whether another authority signed it
	unbounded   bool      // whether its authority has no name constraints
	made        time.Time // when the authority was made; zero: a year ago
}

// certify makes the gateway's own authority and certificate. Ed25519 makes the same
// bytes each time.
func (w *ward) certify(t *testing.T, c certificate) (chain, key []byte) {
	t.Helper()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now().AddDate(-1, 0, 0), NotAfter: now().AddDate(30, 0, 0), KeyUsage: x509.KeyUsageCertSign,
	}
	if !c.unbounded {
		authority.PermittedDNSDomainsCritical, authority.PermittedDNSDomains = true, []string{"local", "north-gate"}
		authority.PermittedIPRanges = []*net.IPNet{{IP: net.IPv4(192, 168, 0, 0).To4(), Mask: net.CIDRMask(16, 32)}}
	}
	if !c.made.IsZero() {
		authority.NotAfter = c.made.AddDate(10, 0, 0)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: now().AddDate(0, -1, 0), NotAfter: now().AddDate(0, 11, 0), DNSNames: []string{"north-gate", "north-gate.local"},
	}
	if !c.from.IsZero() {
		leaf.NotBefore = c.from
	}
	if !c.until.IsZero() {
		leaf.NotAfter = c.until
	}
	if c.names != nil {
		leaf.DNSNames = c.names
	}
	signer := seeded(1)
	ca := sign(t, authority, authority, signer, signer)
	if c.stranger {
		signer = seeded(3)
	}
	chain = sign(t, leaf, authority, seeded(2), signer)
	der, err := x509.MarshalPKCS8PrivateKey(seeded(2 + c.key))
	if err != nil {
		t.Fatal(err)
	}
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	w.put("/var/lib/gatehouse/tls/ca.crt", string(ca), 0o644, gatewayUser)
	w.put("/var/lib/gatehouse/tls/server.crt", string(chain), 0o644, gatewayUser)
	w.put("/var/lib/gatehouse/tls/server.key", string(key), 0o600, gatewayUser)
	return chain, key
}

func seeded(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func sign(t *testing.T, what, by *x509.Certificate, key, signer ed25519.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(nil, what, by, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// given has the configuration name certificate files.
func (w *ward) given(t *testing.T, c certificate) {
	t.Helper()
	chain, key := w.certify(t, c)
	w.put("/etc/ssl/gate.crt", string(chain), 0o644, 0)
	w.put("/etc/gatehouse/credentials/gate.key", string(key), 0o600, 0)
	w.config = configText + "[tls]\ncertificate = \"/etc/ssl/gate.crt\"\nkey = \"credential:gate.key\"\n"
}

func ofCertificate() []illness {
	const day = 24 * time.Hour
	return append(ofGivenCertificate(), []illness{
		{"expired", func(t *testing.T, w *ward) { w.certify(t, certificate{until: now().Add(-day)}) }, []string{
			"fatal certificate: The certificate has expired > systemctl restart gatehouse, which makes another",
		}, "server.crt is valid until 2026-11-20 08:00:00 UTC"},
		{"expired while it is stopped", func(t *testing.T, w *ward) {
			w.stop()
			w.certify(t, certificate{until: now().Add(-day)})
		}, []string{
			"fatal gateway: The gateway is stopped > systemctl start gatehouse",
			"notice certificate: The certificate has expired: the gateway makes another when it starts > systemctl start gatehouse", stationsUnknown,
		}, ""},
		{"not renewed", func(t *testing.T, w *ward) { w.certify(t, certificate{until: now().Add(30 * day)}) }, []string{
			"warning certificate: The gateway has not renewed its certificate, which expires in 30 days > journalctl -u gatehouse -n 50",
		}, ""},
		{"not yet valid", func(t *testing.T, w *ward) { w.certify(t, certificate{from: now().Add(day)}) }, []string{
			"fatal certificate: The certificate is not valid yet: it, or the clock of this machine, is wrong > check the date with timedatectl; systemctl restart gatehouse, which makes another",
		}, "it is valid from 2026-11-22 08:00:00 UTC"},
		{"renamed", func(t *testing.T, w *ward) { w.certify(t, certificate{names: []string{"south-gate", "north-gate"}}) }, []string{
			"warning certificate: The certificate does not have the name of this gateway > systemctl restart gatehouse",
		}, "missing: north-gate.local\n"},
		{"another authority", func(t *testing.T, w *ward) { w.certify(t, certificate{stranger: true}) }, []string{
			"warning certificate: The gateway's authority does not vouch for its certificate > systemctl restart gatehouse",
		}, ""},
		{"an authority of a former version", func(t *testing.T, w *ward) { w.certify(t, certificate{unbounded: true}) }, []string{
			"notice certificate: The gateway's authority may vouch for any site: a thief of its key, from a backup too, can pose as one to the phones that trust it > rm /var/lib/gatehouse/tls/ca.key /var/lib/gatehouse/tls/ca.crt; systemctl restart gatehouse; then install the new ca.crt in every app and station",
		}, "made by a former version"},
		{"an authority that ends", func(t *testing.T, w *ward) { w.certify(t, certificate{made: now().AddDate(-9, -11, 0)}) }, []string{
			"warning certificate: The gateway's authority expires in 30 days; apps and stations refuse the gateway then > rm /var/lib/gatehouse/tls/ca.key /var/lib/gatehouse/tls/ca.crt; systemctl restart gatehouse; then install the new ca.crt in every app and station",
		}, ""},
		{"renamed since", func(t *testing.T, w *ward) { w.certify(t, certificate{names: []string{"north-gate.local"}}) }, []string{
			"notice certificate: The certificate leaves out a name of this gateway: its authority was made for another and may not vouch for it > have apps use north-gate.local; or rm /var/lib/gatehouse/tls/ca.key /var/lib/gatehouse/tls/ca.crt; systemctl restart gatehouse; then install the new ca.crt in every app and station",
		}, "missing: north-gate\n"},
		{"a public address", func(_ *testing.T, w *ward) {
			w.status.Addresses = []netip.Addr{netip.MustParseAddr("192.168.1.20"), netip.MustParseAddr("2001:db8::20")}
		}, []string{
			"notice certificate: The certificate leaves out public addresses of this machine: apps that call the gateway by one of them refuse it > have apps use north-gate.local or a local address; or name certificate files in [tls]",
		}, "left out: 2001:db8::20"},
		{"another key", func(t *testing.T, w *ward) { w.certify(t, certificate{key: 7}) }, []string{
			"fatal certificate: The key does not belong to the certificate, or cannot be used > systemctl restart gatehouse, which makes another",
		}, "private key does not match public key"},
		{"no certificate yet", func(_ *testing.T, w *ward) {
			w.stop()
			w.remove("/var/lib/gatehouse/tls/server.crt")
		}, []string{
			"fatal gateway: The gateway is stopped > systemctl start gatehouse",
			"notice certificate: There is no certificate yet: the gateway makes one when it starts > systemctl start gatehouse", stationsUnknown,
		}, "none at /var/lib/gatehouse/tls/server.crt"},
		{"certificate not kept", func(_ *testing.T, w *ward) { w.remove("/var/lib/gatehouse/tls/server.crt") }, []string{
			"warning certificate: The gateway's own certificate is not on the disk: after a restart apps and stations see another one > systemctl restart gatehouse",
		}, ""},
		{"authority not kept", func(_ *testing.T, w *ward) { w.remove("/var/lib/gatehouse/tls/ca.crt") }, []string{
			"warning certificate: The gateway's own authority is not on the disk: after a restart apps and stations see another one > systemctl restart gatehouse",
		}, ""},
		{"no PEM", func(_ *testing.T, w *ward) { w.put("/var/lib/gatehouse/tls/server.crt", "x", 0o644, gatewayUser) }, []string{
			"fatal certificate: The certificate cannot be used > systemctl restart gatehouse, which makes another",
		}, "it holds no certificate in PEM"},
		{"no TLS", func(_ *testing.T, w *ward) {
			w.config = strings.ReplaceAll(configText, `tls_listen = ["[::]:443"]`, "")
			w.remove("/var/lib/gatehouse/tls/server.crt")
		}, nil, ""},
	}...)
}

func ofGivenCertificate() []illness {
	const day = 24 * time.Hour
	return []illness{
		{"given", func(t *testing.T, w *ward) { w.given(t, certificate{}) }, nil, "/etc/ssl/gate.crt is valid until 2027-10-21 08:00:00 UTC"},
		{"given and expired", func(t *testing.T, w *ward) { w.given(t, certificate{until: now().Add(-day)}) }, []string{
			"fatal certificate: The certificate has expired > put a valid one there, then systemctl reload gatehouse",
		}, ""},
		{"given and late", func(t *testing.T, w *ward) { w.given(t, certificate{until: now().Add(10 * day)}) }, []string{
			"warning certificate: The certificate expires in 10 days > renew it, then systemctl reload gatehouse",
		}, ""},
		{"given for another name", func(t *testing.T, w *ward) { w.given(t, certificate{names: []string{"gate.example.test"}}) }, []string{
			"notice certificate: The certificate does not have the name of this gateway: apps must use one that it has > set name in the configuration, or get a certificate for the name",
		}, "it is for: gate.example.test\n"},
		{"given and gone", func(t *testing.T, w *ward) {
			w.given(t, certificate{})
			w.remove("/etc/ssl/gate.crt")
		}, []string{"fatal certificate: The certificate that the configuration names is not there > put it there, or change tls.certificate"}, ""},
		{"given key gone", func(t *testing.T, w *ward) {
			w.given(t, certificate{})
			w.remove("/etc/gatehouse/credentials/gate.key")
		}, []string{"fatal certificate: The key that the configuration names is not there > put it there, or change tls.key"}, "none at /etc/gatehouse/credentials/gate.key"},
		{"given key for all", func(t *testing.T, w *ward) {
			w.given(t, certificate{})
			w.files["etc/gatehouse/credentials/gate.key"].Mode = 0o644
		}, []string{"warning certificate: Everybody on this machine may read the key of the certificate > chmod o= /etc/gatehouse/credentials/gate.key"}, ""},
	}
}

func ofService() []illness {
	const opened = "warning service: The sandbox of the gateway has been opened > systemctl cat gatehouse shows by which lines; take out what is not needed"
	const stopAll = "systemctl stop gatehouse.socket gatehouse-site gatehouse; systemctl disable gatehouse.socket gatehouse-site gatehouse; "
	const startAll = "systemctl daemon-reload; systemctl enable --now gatehouse.socket gatehouse-site gatehouse"
	install := func(w *ward, change ...string) {
		unit := string(w.files["usr/lib/systemd/system/gatehouse.service"].Data)
		w.put("/etc/systemd/system/gatehouse.service", strings.NewReplacer(change...).Replace(unit), 0o644, 0)
		w.unit()["FragmentPath"] = "/etc/systemd/system/gatehouse.service"
		w.remove("/usr/lib/systemd/system/gatehouse.service")
	}
	return []illness{
		{"not installed", func(_ *testing.T, w *ward) { w.unit()["LoadState"] = "not-found" }, []string{
			"notice service: The gateway is no service: nothing starts it with the machine, or again when it ends > sudo gatehouse service install",
		}, ""},
		{"not reread", func(_ *testing.T, w *ward) { w.unit()["NeedDaemonReload"] = "yes" }, []string{
			"warning service: The unit was changed, and systemd has not read it > systemctl daemon-reload; systemctl restart gatehouse",
		}, ""},
		{"installed by hand", func(_ *testing.T, w *ward) { install(w, "/usr/bin/gatehouse", "/usr/local/bin/gatehouse") }, nil, ""},
		{"installed by hand, and older", func(_ *testing.T, w *ward) { install(w, "WatchdogSec=60s", "WatchdogSec=30s") }, []string{
			"notice service: The unit is not the one of this version > sudo gatehouse service install; to keep settings of your own use systemctl edit gatehouse",
		}, ""},
		{"hidden unit", func(_ *testing.T, w *ward) {
			install(w)
			w.put("/usr/lib/systemd/system/gatehouse.service", "", 0o644, 0)
		}, []string{
			"warning service: A unit in /etc/systemd/system/ hides the one of the package > " + stopAll + "rm /etc/systemd/system/gatehouse.service; " + startAll,
		}, ""},
		{"hidden units and program", func(_ *testing.T, w *ward) {
			install(w)
			for _, name := range []string{"gatehouse.service", "gatehouse.socket", "gatehouse-redirect.socket", "gatehouse-site.service"} {
				w.put("/usr/lib/systemd/system/"+name, "", 0o644, 0)
				w.put("/etc/systemd/system/"+name, "", 0o644, 0)
			}
			w.put("/usr/bin/gatehouse", "", 0o755, 0)
			w.put("/usr/local/bin/gatehouse", "", 0o755, 0)
		}, []string{
			"warning service: A unit in /etc/systemd/system/ hides the one of the package > " + stopAll +
				"rm /etc/systemd/system/gatehouse.service /etc/systemd/system/gatehouse.socket /etc/systemd/system/gatehouse-redirect.socket " +
				"/etc/systemd/system/gatehouse-site.service /usr/local/bin/gatehouse; " + startAll,
		}, "/usr/bin/gatehouse is hidden by: /usr/local/bin/gatehouse"},
		{"hidden program", func(_ *testing.T, w *ward) {
			w.put("/usr/bin/gatehouse", "", 0o755, 0)
			w.put("/usr/local/bin/gatehouse", "", 0o755, 0)
		}, []string{
			"warning service: Another program hides the one of the package, /usr/bin/gatehouse > rm /usr/local/bin/gatehouse; hash -r",
		}, ""},
		{
			"drop-in", func(_ *testing.T, w *ward) {
				w.unit()["DropInPaths"] = "/etc/systemd/system/gatehouse.service.d/override.conf"
			}, nil,
			"changed by: /etc/systemd/system/gatehouse.service.d/override.conf",
		},
		{"sandbox opened", func(_ *testing.T, w *ward) {
			w.outputs["systemd-analyze security"] = "→ Overall exposure level for gatehouse.service: 6.3 MEDIUM\n"
		}, []string{opened}, "an exposure of 6.3, of 10"},
		{"sandbox unknown", func(_ *testing.T, w *ward) { w.failing["systemd-analyze"] = errors.New("no bus") }, []string{
			"unchecked service: systemd-analyze does not tell how well the service is locked in > systemd-analyze security gatehouse",
		}, ""},
		{"no systemd-analyze", func(_ *testing.T, w *ward) { delete(w.outputs, "systemd-analyze security") }, nil, ""},
		{"restarted", func(_ *testing.T, w *ward) { w.unit()["NRestarts"] = "1" }, []string{
			"notice service: systemd had to start the gateway again > journalctl -u gatehouse -n 50; systemctl reset-failed gatehouse begins to count anew",
		}, "restarted once"},
		{"restarted often", func(_ *testing.T, w *ward) {
			w.unit()["NRestarts"], w.unit()["ActiveEnterTimestampMonotonic"] = "10", micros(30*24*time.Hour-time.Minute)
		}, []string{"warning service: systemd starts the gateway again and again > journalctl -u gatehouse -n 50"}, ""},
		{"restarted often, long ago", func(_ *testing.T, w *ward) { w.unit()["NRestarts"] = "10" }, []string{
			"notice service: systemd had to start the gateway again > journalctl -u gatehouse -n 50; systemctl reset-failed gatehouse begins to count anew",
		}, ""},
		{"hung", func(_ *testing.T, w *ward) {
			w.unit()["NRestarts"] = "2"
			w.outputs["journalctl --unit=gatehouse.service --boot"] = "gatehouse.service: Watchdog timeout (limit 1min)!\nx\ngatehouse.service: Watchdog timeout (limit 1min)!\n"
		}, []string{"warning service: The gateway hung, and the watchdog ended it > journalctl -u gatehouse -n 50; the disk may be slow: dmesg | tail -n 50"}, "ended by the watchdog 2 times"},
		{"starved", func(_ *testing.T, w *ward) {
			w.outputs["journalctl --unit=gatehouse.service --boot"] = "gatehouse.service: Failed with result 'oom-kill'.\n"
		}, []string{"warning service: The gateway ran out of memory, and was ended > raise MemoryMax with systemctl edit gatehouse; journalctl -u gatehouse -n 50"}, ""},
		{"systemd silent", func(_ *testing.T, w *ward) {
			w.failing["systemctl"] = errors.New("no bus")
			w.stop()
		}, []string{
			"fatal gateway: The gateway does not run, and systemd does not say why > systemctl status gatehouse",
			"unchecked service: systemd does not answer: no bus > systemctl status gatehouse", stationsUnknown,
		}, ""},
	}
}
