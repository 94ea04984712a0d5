package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"gatehouse/internal/adminapi"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
)

// listener is one bound address.
type listener struct {
	name string // as status shows it: http, https, mqtt, mqtts
	net  net.Listener
	tls  *tls.Config // nil: plain
}

// listeners are all bound addresses.
type listeners struct {
	http, mqtt []listener
	admin      net.Listener
}

// bind takes every address before anything is served, so that an address in use
// shows at the start.
func (g *Gateway) bind(ctx context.Context) error {
	secure, err := g.tlsConfig()
	if err != nil {
		return err
	}
	for _, group := range []struct {
		name      string
		addresses []string
		tls       *tls.Config
		into      *[]listener
	}{
		{"http", g.cfg.HTTP.Listen, nil, &g.listeners.http},
		{"https", g.cfg.HTTP.TLSListen, secure, &g.listeners.http},
		{"mqtt", g.cfg.MQTT.Listen, nil, &g.listeners.mqtt},
		{"mqtts", g.cfg.MQTT.TLSListen, secure, &g.listeners.mqtt},
	} {
		for _, address := range group.addresses {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
			if err != nil {
				return fault.Wrap(fault.Conflict, fmt.Sprintf("%s cannot listen on %s: is it in use? change [%s] in the configuration", group.name, address, group.name[:4]), err)
			}
			*group.into = append(*group.into, listener{group.name, l, group.tls})
		}
	}
	g.listeners.admin, err = adminapi.Listen(g.cfg.AdminSocket(), g.cfg.Admin.Group)
	if errors.Is(err, unix.EROFS) { // a card that has failed; doors open all the same
		g.log.Error("no administration socket", "error", err)
		g.conditions.Raise(health.Condition{
			Code: health.NoAdminSocket, Severity: health.Warning,
			Summary: "There is no administration socket: its folder is read-only",
			Advice:  "Check the disk with dmesg; replace the card if it is worn",
		})
		return nil
	}
	return err
}

// tlsConfig loads the configured certificate; nil without one.
func (g *Gateway) tlsConfig() (*tls.Config, error) {
	if g.cfg.TLS.Certificate == "" {
		return nil, nil //nolint:nilnil // no certificate is a valid configuration
	}
	pair, err := tls.LoadX509KeyPair(g.cfg.TLS.Certificate, g.cfg.TLS.Key)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, fmt.Sprintf("the certificate %s with the key %s cannot be used: %v", g.cfg.TLS.Certificate, g.cfg.TLS.Key, err), err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// close closes what is still open; closing twice does no harm.
func (l *listeners) close() error {
	var errs []error
	for _, one := range append(l.http, l.mqtt...) {
		errs = append(errs, ignoreClosed(one.net.Close()))
	}
	if l.admin != nil {
		errs = append(errs, ignoreClosed(l.admin.Close()))
	}
	*l = listeners{}
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
