package doctor

import (
	"context"
	"fmt"
	"net"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/systemd"
)

// checkPorts looks for other programs that hold the ports of the gateway. A running one
// has its ports, or it would not have started; systemd opens port 80 by itself.
func checkPorts(ctx context.Context, g *subject, s *sheet) {
	if g.redirect["ActiveState"] == "failed" { // apps are sent there for ca.crt
		s.find(health.Notice, "Another program has port 80: http://ADDRESS/ca.crt and the redirection to HTTPS do not work",
			"stop that program (ss -ltnp names it), then systemctl stop gatehouse.socket gatehouse; systemctl start gatehouse.socket gatehouse", systemd.Redirect+" has failed")
	}
	switch {
	case g.runs():
		s.fine(fmt.Sprintf("All %d are open", len(g.status.Listeners)))
		return
	case g.sockets["ActiveState"] == "active":
		s.fine("systemd has them open")
		return
	case !fault.Is(g.silent, fault.Unavailable): // it runs, and holds them itself
		s.find(Skipped, "the gateway does not answer which ports it has", asRoot)
		return
	case g.broken != nil:
		s.find(Skipped, "the configuration, which names the ports, cannot be used", "")
		return
	}
	open, err := g.Machine.Sockets(ctx)
	if err != nil {
		s.unread("which ports are open", err)
		return
	}
	for _, of := range []struct {
		key       string
		addresses []string
	}{
		{"http.listen", g.settings.HTTP.Listen},
		{"http.tls_listen", g.settings.HTTP.TLSListen},
		{"mqtt.listen", g.settings.MQTT.Listen},
		{"mqtt.tls_listen", g.settings.MQTT.TLSListen},
	} {
		for _, address := range of.addresses {
			_, port, _ := net.SplitHostPort(address) // no program has port 0
			if holder, taken := open[port]; taken {
				s.find(health.Fatal, "Another program has the port of "+address+" open",
					fmt.Sprintf("stop that program, or change %s; then %s", of.key, g.command("restart gatehouse.socket")), holder)
			}
		}
	}
	s.fine("No other program uses them")
}
