package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

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
	adminFile  os.FileInfo // of the socket of admin
	adminError string      // why there is none, as it is in the log; "" while there is one
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
			if slices.ContainsFunc(*group.into, func(l listener) bool {
				narrow, ok := l.net.(*addressListener)
				return ok && l.name == group.name && narrow.join(address)
			}) {
				continue
			}
			l, err := g.listen(ctx, address)
			if err != nil {
				return g.unbound(group.name, group.key, address, err)
			}
			*group.into = append(*group.into, listener{group.name, l, group.tls})
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
// address it makes one that serves this address alone.
func (g *Gateway) listen(ctx context.Context, address string) (net.Listener, error) {
	if at := slices.IndexFunc(g.sockets, func(l net.Listener) bool { return serves(l.Addr(), address) }); at >= 0 {
		return g.takeSocket(at), nil
	}
	if wanted, err := netip.ParseAddrPort(address); err == nil {
		wider := fmt.Sprintf("[::]:%d", wanted.Port())
		if at := slices.IndexFunc(g.sockets, func(l net.Listener) bool { return serves(l.Addr(), wider) }); at >= 0 {
			return &addressListener{g.takeSocket(at), []netip.AddrPort{netip.AddrPortFrom(wanted.Addr().Unmap(), wanted.Port())}}, nil
		}
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
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
	g.conditions.Report(health.Notice, health.SocketUnused,
		"systemd holds ports that the configuration does not use: "+strings.Join(unused, ", "),
		"Name them in the configuration, or take them out with: systemctl edit gatehouse.socket")
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
	g.conditions.Report(health.Warning, health.PlainHTTP,
		"Apps may reach this gateway without encryption, on "+strings.Join(open, ", ")+": passwords and tokens cross the network in clear text",
		"Use tls_listen instead of listen in [http] of the configuration")
}

// bindAdmin takes the administration socket. Neither a wrong group nor a card that has
// failed is a reason to keep doors shut.
func (g *Gateway) bindAdmin(context.Context) (err error) {
	socket, group := g.cfg.AdminSocket(), g.cfg.Admin.Group
	g.listeners.admin, err = adminapi.Listen(socket, group)
	if group != "" && (fault.Is(err, fault.Invalid) || errors.Is(err, unix.EPERM)) {
		g.log.Error("the group may not use the administration socket", "group", group, "error", err)
		g.conditions.Report(health.Warning, health.NoAdminGroup,
			"Only root may administer the gateway, not the group "+group+": "+fault.Sentence(err),
			"Set group = \"gatehouse\" in [admin] of the configuration, add people to it with: usermod -aG gatehouse NAME, and restart the gateway")
		g.listeners.admin, err = adminapi.Listen(socket, "")
	}
	if fault.Is(err, fault.Unavailable) { // no reason to keep doors shut
		g.lackAdmin(err)
		return nil
	}
	if err == nil {
		g.listeners.adminFile, _ = os.Lstat(socket)
	}
	return err
}

// lackAdmin raises the condition of a missing administration socket, and logs each reason
// once.
func (g *Gateway) lackAdmin(err error) {
	if reason := err.Error(); reason != g.listeners.adminError {
		g.listeners.adminError = reason
		g.log.Error("no administration socket", "error", err)
	}
	g.conditions.Report(health.Warning, health.NoAdminSocket,
		"There is no administration socket: "+fault.Sentence(err),
		"Check the owner of its folder, its free space and inodes with df and df -i, and the disk with dmesg; the gateway creates the socket as soon as it can")
}

// adminEvery is how often the gateway checks whether the administration socket is there.
const adminEvery = 5 * time.Second

// adminThere reports whether the file at a path is the administration socket that is served.
func (l *listeners) adminThere(path string) bool {
	now, err := os.Lstat(path)
	return err == nil && l.adminFile != nil && os.SameFile(now, l.adminFile) && now.ModTime().Equal(l.adminFile.ModTime())
}

// abandonAdmin closes an administration socket whose path is not its own any more.
func (l *listeners) abandonAdmin() {
	if socket, ok := l.admin.(interface{ SetUnlinkOnClose(unlink bool) }); ok {
		socket.SetUnlinkOnClose(false)
	}
	_ = l.admin.Close() // nothing is written there
	l.admin = nil
}

// rebindAdmin creates the administration socket while the gateway runs.
func (g *Gateway) rebindAdmin(ctx context.Context) {
	switch err := g.bindAdmin(ctx); {
	case err != nil:
		g.lackAdmin(err)
	case g.listeners.admin != nil:
		g.listeners.adminError = ""
		g.log.Warn("the administration socket was missing and is created")
		g.conditions.Clear(health.NoAdminSocket)
	}
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
