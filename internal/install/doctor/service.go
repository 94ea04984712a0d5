package doctor

import "context"

// checkService checks how systemd runs the gateway.
func checkService(_ context.Context, g *subject, s *sheet) {
	switch {
	case g.unasked != nil:
		s.skip("systemd could not be asked: "+g.unasked.Error(), "systemctl status gatehouse")
	case !g.installed():
		s.notice("The gateway is no service: nothing starts it with the machine, or restarts it when it ends", "sudo gatehouse service install")
	case g.runs() && g.unit.Number("MainPID") == 0:
		s.warn("The gateway that runs was not started by "+serviceName, "stop it; systemctl restart gatehouse", unitState(g.unit))
	case g.unit.Number("NRestarts") > 0:
		s.notice("systemd had to restart the gateway", logCommand+"; systemctl reset-failed gatehouse resets the count", unitState(g.unit))
	}
	s.fine("systemd runs it, from "+g.unit["FragmentPath"], unitState(g.unit))
}
