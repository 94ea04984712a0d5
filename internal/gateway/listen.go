package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/web/adminapi"
)

// listener is one bound address.
type listener struct {
	name string // as status shows it: http, https, mqtt, mqtts, redirect
	net  net.Listener
	tls  *tls.Config // nil: plain
}

// redirect is the name of the plain port that only leads to HTTPS.
const redirect = "redirect"

// plainPort is the port on which browsers look for a way to HTTPS.
const plainPort = 80

// listeners are all bound addresses.
type listeners struct {
	http, mqtt []listener
	admin      net.Listener
}

// bindAll takes every address before anything is served, so that an address in use
// shows at the start. A socket that the service manager holds for the address is
// used; what it holds beside that either leads to HTTPS or is given back.
func (g *Gateway) bindAll(ctx context.Context) error {
	var forApps, forStations *tls.Config // session tickets hold for all listeners of each
	if g.usesTLS() {
		forApps = g.handshakes.Config(&tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: g.certificate})
		forStations = forApps.Clone()
		forApps.NextProtos = []string{"h2", "http/1.1"}
		// No post-quantum key exchange: no station offers it, and it costs a slow board
		// a quarter of each handshake.
		forStations.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	}
	narrow := make(map[uint16]*addressListener)
	for _, group := range []struct {
		name, key string
		addresses []string
		tls       *tls.Config
		into      *[]listener
	}{
		{"http", "http.listen", g.cfg.HTTP.Listen, nil, &g.listeners.http},
		{"https", "http.tls_listen", g.cfg.HTTP.TLSListen, forApps, &g.listeners.http},
		{"mqtt", "mqtt.listen", g.cfg.MQTT.Listen, nil, &g.listeners.mqtt},
		{"mqtts", "mqtt.tls_listen", g.cfg.MQTT.TLSListen, forStations, &g.listeners.mqtt},
	} {
		for _, address := range group.addresses {
			l, err := g.listen(ctx, address, narrow)
			if err != nil {
				return g.unbound(group.name, group.key, address, err)
			}
			if l != nil {
				*group.into = append(*group.into, listener{group.name, l, group.tls})
			}
		}
	}
	g.settleSockets()
	g.warnOfPlainHTTP()
	g.fronts = g.newFronts()
	return nil
}

// usesTLS reports whether any listener does.
func (g *Gateway) usesTLS() bool { return len(g.cfg.HTTP.TLSListen)+len(g.cfg.MQTT.TLSListen) > 0 }

// certificate is a GetCertificate of [tls.Config].
func (g *Gateway) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	shown := g.shown.Load()
	if shown == nil {
		return nil, errors.New("the certificate has not been read yet")
	}
	return shown.GetCertificate(hello)
}

// listen returns the inherited socket for an address, or binds it. Of a socket of every
// address it makes one that serves this address alone. Those are kept in narrow, by port,
// and a further address of the same port joins them: then there is no new listener.
func (g *Gateway) listen(ctx context.Context, address string, narrow map[uint16]*addressListener) (net.Listener, error) {
	at := slices.IndexFunc(g.sockets, func(l net.Listener) bool { return serves(l.Addr(), address) })
	if at >= 0 {
		return g.takeSocket(at), nil
	}
	wanted, err := netip.ParseAddrPort(address)
	if err != nil {
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	wanted = netip.AddrPortFrom(wanted.Addr().Unmap(), wanted.Port())
	if l := narrow[wanted.Port()]; l != nil {
		l.only = append(l.only, wanted)
		return nil, nil //nolint:nilnil // it joined
	}
	at = slices.IndexFunc(g.sockets, func(l net.Listener) bool { return serves(l.Addr(), fmt.Sprintf("[::]:%d", wanted.Port())) })
	if at < 0 {
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	l := &addressListener{Listener: g.takeSocket(at), only: []netip.AddrPort{wanted}}
	narrow[wanted.Port()] = l
	return l, nil
}

func (g *Gateway) takeSocket(at int) net.Listener {
	l := g.sockets[at]
	g.sockets = slices.Delete(g.sockets, at, at+1)
	return l
}

// unbound words why an address could not be bound, and where it stands.
func (g *Gateway) unbound(name, key, address string, err error) error {
	advice := "check the address"
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		advice = "the port is in use: stop the program that has it (ss -ltnp shows it), or change " + key
	case errors.Is(err, unix.EACCES):
		advice = "systemd has to hold a port below 1024: add ListenStream= with \"systemctl edit gatehouse.socket\", run \"systemctl restart gatehouse.socket gatehouse\", and see \"systemctl status gatehouse.socket\""
	case errors.Is(err, unix.EADDRNOTAVAIL):
		advice = "this machine has no such address: change " + key
	}
	return fault.Wrap(fault.Conflict, fmt.Sprintf("%s: %s cannot listen on %s: %s", g.where(key), name, address, advice), err)
}

// serves reports whether an inherited socket is what a configured address means: the
// same port of the same address, where all ways to write "every address" are one.
func serves(socket net.Addr, address string) bool {
	held, ok := socket.(*net.TCPAddr)
	host, port, err := net.SplitHostPort(address)
	if !ok || err != nil || strconv.Itoa(held.Port) != port {
		return false
	}
	wanted, err := netip.ParseAddr(host)
	if host == "" || (err == nil && wanted.IsUnspecified()) {
		return held.IP.IsUnspecified()
	}
	return err == nil && held.AddrPort().Addr().Unmap() == wanted.Unmap()
}

// settleSockets finds work for the inherited sockets that no configured address
// claims: port 80 leads to HTTPS. The others are not served.
func (g *Gateway) settleSockets() {
	var unused []string
	for _, l := range g.sockets {
		if addr, ok := l.Addr().(*net.TCPAddr); ok && addr.Port == plainPort && g.httpsPort() != "" {
			g.listeners.http = append(g.listeners.http, listener{redirect, l, nil})
			continue
		}
		unused = append(unused, l.Addr().String())
		_ = l.Close()
	}
	g.sockets = nil
	if len(unused) == 0 {
		return
	}
	g.conditions.Raise(health.Condition{
		Code: health.SocketUnused, Severity: health.Notice,
		Summary: "systemd holds ports that the configuration does not use: " + strings.Join(unused, ", "),
		Advice:  "Name them in the configuration, or take them out with: systemctl edit gatehouse.socket",
	})
}

// httpsPort returns the port of the first HTTPS listener, or "".
func (g *Gateway) httpsPort() string {
	for _, l := range g.listeners.http {
		if addr, ok := l.net.Addr().(*net.TCPAddr); ok && l.tls != nil {
			return strconv.Itoa(addr.Port)
		}
	}
	return ""
}

// warnOfPlainHTTP keeps saying that passwords cross the network in clear text, where
// someone has configured it so.
func (g *Gateway) warnOfPlainHTTP() {
	var open []string
	for _, l := range g.listeners.http {
		if l.name == "http" && !isLoopback(l.net) {
			open = append(open, l.net.Addr().String())
		}
	}
	if len(open) == 0 {
		return
	}
	g.conditions.Raise(health.Condition{
		Code: health.PlainHTTP, Severity: health.Warning,
		Summary: "Apps may reach this gateway without encryption, on " + strings.Join(open, ", ") + ": passwords and tokens cross the network in clear text",
		Advice:  "Use tls_listen instead of listen in [http] of the configuration",
	})
}

// bindAdmin takes the administration socket.
func (g *Gateway) bindAdmin(context.Context) (err error) {
	g.listeners.admin, err = adminapi.Listen(g.cfg.AdminSocket(), g.cfg.Admin.Group)
	if g.cfg.Admin.Group != "" && (fault.Is(err, fault.Invalid) || errors.Is(err, unix.EPERM)) {
		g.listeners.admin, err = g.bindWithoutGroup(err)
	}
	if !errors.Is(err, unix.EROFS) {
		return err
	}
	// A card that has failed; doors open all the same.
	g.log.Error("no administration socket", "error", err)
	g.conditions.Raise(health.Condition{
		Code: health.NoAdminSocket, Severity: health.Warning,
		Summary: "There is no administration socket: its folder is read-only",
		Advice:  "Check the disk with dmesg; replace the card if it is worn",
	})
	return nil
}

// bindWithoutGroup takes the administration socket for root and the gateway's own user
// alone: a group is no reason to keep doors shut.
func (g *Gateway) bindWithoutGroup(why error) (net.Listener, error) {
	g.log.Error("the group may not use the administration socket", "group", g.cfg.Admin.Group, "error", why)
	g.conditions.Raise(health.Condition{
		Code: health.NoAdminGroup, Severity: health.Warning,
		Summary: "Only root may administer the gateway, not the group " + g.cfg.Admin.Group + ": " + fault.Sentence(why),
		Advice:  "Set group = \"gatehouse\" in [admin] of the configuration, add people to it with: usermod -aG gatehouse NAME, and restart the gateway",
	})
	return adminapi.Listen(g.cfg.AdminSocket(), "")
}

// closeListeners closes every address that is still open; twice does no harm.
func (g *Gateway) closeListeners() error {
	var errs []error
	for _, one := range append(g.listeners.http, g.listeners.mqtt...) {
		errs = append(errs, ignoreClosed(one.net.Close()))
	}
	g.listeners.http, g.listeners.mqtt = nil, nil
	for _, l := range g.sockets {
		errs = append(errs, l.Close())
	}
	g.sockets = nil
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// describe lists the bound addresses for status.
func (l *listeners) describe() []adminapi.Listener {
	all := make([]adminapi.Listener, 0, len(l.http)+len(l.mqtt))
	for _, one := range append(l.http[:len(l.http):len(l.http)], l.mqtt...) {
		all = append(all, adminapi.Listener{Name: one.name, Address: one.net.Addr().String(), TLS: one.tls != nil})
	}
	return all
}

// isLoopback reports whether only this machine can reach the listener.
func isLoopback(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}
