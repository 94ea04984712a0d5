package doctor

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/web/adminapi"
	"gatehouse/systemd"
)

const (
	// systemFile is the configuration of a gateway that systemd runs; systemData and
	// systemSocket are its data and its socket, for one whose configuration cannot be read.
	systemFile   = "/etc/gatehouse/gatehouse.toml"
	systemData   = "/var/lib/gatehouse"
	systemSocket = "/run/gatehouse/admin.sock"

	databaseFile = "gatehouse.db"
)

// subject is the gateway that is examined, with what several checks need to know of it.
// Nothing of it changes once [newSubject] has returned it.
type subject struct {
	Config

	unit     machine.Unit // of the service; empty where there is none, or where it runs another gateway
	sockets  machine.Unit // likewise, of its sockets
	redirect machine.Unit // likewise, of port 80
	site     machine.Unit // likewise, of its first boot
	unasked  error        // why systemd did not answer

	settings config.Config
	files    []config.File
	broken   error // why the configuration cannot be used; then settings are those without the files

	gateway Gateway
	socket  string
	status  adminapi.Status
	silent  error // why the gateway does not report its status; nil: it does
}

// newSubject gathers what the checks have in common.
func newSubject(ctx context.Context, cfg Config) *subject {
	g := &subject{Config: cfg}
	g.askSystemd(ctx)
	g.configure()
	g.askGateway(ctx)
	return g
}

// data returns the path of a file in the data directory.
func (g *subject) data(name string) string { return filepath.Join(g.settings.Data, name) }

// runs reports whether the gateway answers.
func (g *subject) runs() bool { return g.silent == nil }

// installed reports whether systemd has the gateway as a service.
func (g *subject) installed() bool { return g.unit.Loaded() }

// command returns what to do to start or restart the gateway.
func (g *subject) command(verb string) string {
	if g.installed() || g.unasked != nil {
		return "systemctl " + verb + " gatehouse"
	}
	return "start the gateway again: gatehouse serve"
}

// askSystemd asks for the units of the gateway that is meant, if systemd runs it.
func (g *subject) askSystemd(ctx context.Context) {
	if !g.Machine.HasSystemd() || g.elsewhere() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	properties := []string{
		"LoadState", "ActiveState", "SubState", "Result", "UnitFileState", "MainPID", "NRestarts", "ExecMainStatus", "FragmentPath", "Environment",
	}
	units, err := g.Machine.Units(ctx, properties, systemd.Service, systemd.Socket, systemd.Redirect, systemd.Site)
	if err != nil {
		g.unasked = err
		return
	}
	g.unit, g.sockets, g.redirect, g.site = units[0], units[1], units[2], units[3]
}

// configure reads the configuration as the gateway does that is meant.
func (g *subject) configure() {
	for _, entry := range g.unit.List("Environment") {
		if entry = strings.Trim(entry, `"`); strings.HasPrefix(entry, "GATEHOUSE_") {
			g.Environ = append([]string{entry}, g.Environ...) // the later wins
		}
	}
	if g.files, g.broken = g.Files(g.File, g.Environ); g.broken == nil {
		g.settings, _, g.broken = config.Lay(g.files, g.Environ)
	}
	if g.broken == nil {
		return
	}
	g.settings = config.Defaults(g.Environ)
	if g.installed() {
		g.settings.Data, g.settings.Admin.Socket = systemData, systemSocket
	}
}

// askGateway asks the gateway for its status.
func (g *subject) askGateway(ctx context.Context) {
	g.socket = cmp.Or(g.Socket, g.settings.AdminSocket())
	g.gateway = g.Connect(g.socket)
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	g.status, g.silent = g.gateway.Status(ctx)
	if errors.Is(g.silent, context.DeadlineExceeded) {
		g.silent = fault.New(fault.Timeout, "the gateway does not answer within "+askLimit.String())
	}
	if g.runs() && g.status.Data != "" {
		g.settings.Data = g.status.Data
	}
	g.settings.Data, _ = filepath.Abs(g.settings.Data)
}
