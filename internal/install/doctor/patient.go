package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/web/adminapi"
)

const (
	serviceName = "gatehouse.service"
	socketName  = "gatehouse.socket"
	siteName    = "gatehouse-site.service"

	// systemFile is the configuration of a gateway that systemd runs; systemData and
	// systemSocket are where that keeps its data and is administered, for one whose
	// configuration cannot be read.
	systemFile   = "/etc/gatehouse/gatehouse.toml"
	systemData   = "/var/lib/gatehouse"
	systemSocket = "/run/gatehouse/admin.sock"

	databaseFile = "gatehouse.db"
	lockFile     = "lock"

	// askLimit is how long the gateway, systemd or a disk may take for one answer.
	askLimit = 5 * time.Second
)

// unitProperties are what is asked of systemd about the service and its sockets.
func unitProperties() []string {
	return []string{
		"LoadState", "ActiveState", "SubState", "Result", "UnitFileState", "MainPID", "NRestarts", "ExecMainStatus",
		"FragmentPath", "DropInPaths", "NeedDaemonReload", "Environment", "User", "ControlGroup", "ProtectClock",
		"ProtectSystem", "ProtectHome", "StateDirectory", "ReadWritePaths", "InvocationID", "ExecMainStartTimestampMonotonic", "InactiveExitTimestampMonotonic",
		"StateChangeTimestampMonotonic", "ActiveEnterTimestampMonotonic", "ReloadResult",
	}
}

// patient is a gateway with what several checks want to know of it. Nothing of it
// changes once [admit] has made it.
type patient struct {
	Config

	systemd bool         // runs this machine
	unit    machine.Unit // of the service; empty where there is none, or where it runs another gateway
	sockets machine.Unit // likewise, of its sockets
	site    machine.Unit // likewise, of its first boot
	asked   error        // why systemd did not answer

	settings config.Config
	wanted   string // the data directory that is configured; settings have the one in use
	files    []config.File
	broken   error // why the configuration cannot be used; then settings are those without the files

	gateway Gateway
	socket  string
	status  adminapi.Status
	silent  error // why the gateway does not say its status; nil: it does

	process int  // of the gateway; 0 where there is none or it cannot be told
	alien   bool // whether the process is not the one of the service, which is installed

	database func() (sqlite.FileState, error) // what is in the file; the first call takes a while
}

// admit gathers what the checks have in common.
func admit(ctx context.Context, cfg Config) *patient {
	p := &patient{Config: cfg, systemd: cfg.Machine.HasSystemd()}
	if p.systemd {
		p.askSystemd(ctx)
	}
	p.configure(ctx)
	p.askGateway(ctx)
	p.identify(ctx)
	p.database = sync.OnceValues(func() (sqlite.FileState, error) {
		ctx, cancel := context.WithTimeout(ctx, databaseTime(p.Deep))
		defer cancel()
		if p.runs() { // and nobody else can open its database
			state, err := p.gateway.Database(ctx)
			if !fault.Is(err, fault.NotFound) {
				return sqlite.FileState(state), err
			}
		}
		return p.Database(ctx, p.data(databaseFile))
	})
	return p
}

// databaseTime is how long looking into the database may take.
func databaseTime(deep bool) time.Duration {
	if deep {
		return deepLimit / 2
	}
	return databaseLimit - askLimit
}

// data gives the path of a file in the data directory.
func (p *patient) data(name string) string { return filepath.Join(p.settings.Data, name) }

// read returns the content of a file; of one in the data directory as its owner.
func (p *patient) read(ctx context.Context, path string) ([]byte, error) {
	if isWithin(path, p.settings.Data) || isWithin(p.direct(path), p.direct(p.settings.Data)) {
		return p.Read(ctx, path)
	}
	return p.Machine.Read(path)
}

// runs reports whether the gateway answers.
func (p *patient) runs() bool { return p.silent == nil }

// installed reports whether systemd has the gateway as a service.
func (p *patient) installed() bool { return p.unit.Loaded() }

// told gives what to do so that a change takes effect.
func (p *patient) told(verb string) string {
	if p.installed() && p.alien {
		return fmt.Sprintf("kill %d; systemctl restart gatehouse", p.process)
	}
	if p.installed() {
		return "systemctl " + verb + " gatehouse"
	}
	if !p.runs() && p.process == 0 {
		return "gatehouse serve"
	}
	return "stop the gateway and start it again: gatehouse serve"
}

func (p *patient) askSystemd(ctx context.Context) {
	type answer struct {
		units []machine.Unit
		err   error
	}
	got, done := within(ctx, askLimit, func(ctx context.Context) answer {
		units, err := p.Machine.Units(ctx, unitProperties(), serviceName, socketName, siteName)
		return answer{units, err}
	})
	switch {
	case !done:
		p.asked = errors.New("systemd does not answer")
	case got.err != nil:
		p.asked = got.err
	case len(got.units) == 3:
		p.unit, p.sockets, p.site = got.units[0], got.units[1], got.units[2]
	}
}

// named reports whether someone named the gateway that is meant; else it is the one
// of the system, where that has one.
func (p *patient) named() bool {
	if p.File != "" || p.Socket != "" {
		return true
	}
	for _, entry := range p.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if value != "" && (name == "GATEHOUSE_CONFIG" || name == "GATEHOUSE_DATA") {
			return true
		}
	}
	return false
}

// unitEnviron gives the settings that the unit has in its environment.
func (p *patient) unitEnviron() []string {
	var environ []string
	for _, entry := range p.unit.List("Environment") {
		if entry = strings.Trim(entry, `"`); strings.HasPrefix(entry, "GATEHOUSE_") {
			environ = append(environ, entry)
		}
	}
	return environ
}

// configure reads the configuration as the gateway that is meant does.
func (p *patient) configure(ctx context.Context) {
	if p.installed() && !p.named() {
		p.Environ = append(p.unitEnviron(), p.Environ...) // the later wins
	}
	type reading struct {
		files    []config.File
		settings config.Config
		err      error
	}
	got, done := within(ctx, askLimit, func(context.Context) (r reading) {
		if r.files, r.err = p.Files(p.File, p.Environ); r.err == nil {
			r.settings, _, r.err = config.Lay(r.files, p.Environ)
		}
		return r
	})
	if !done {
		got.err = fault.New(fault.Timeout, "the disk does not answer")
	}
	p.files, p.settings, p.broken = got.files, got.settings, got.err
	if p.broken != nil {
		var err error
		if p.settings, _, err = config.Lay(nil, p.Environ); err != nil {
			p.settings = config.Defaults(p.Environ)
		}
	}
	switch {
	case !p.installed():
	case p.named() && !p.isOfUnit():
		p.unit, p.sockets, p.site = nil, nil, nil
	case p.broken != nil:
		p.settings.Data, p.settings.Admin.Socket = systemData, systemSocket
	}
}

// isOfUnit reports whether the service keeps its data where the gateway that was
// named does.
func (p *patient) isOfUnit() bool {
	if p.broken != nil {
		return p.File == systemFile
	}
	files, err := p.Files("", p.unitEnviron())
	if err != nil {
		return false
	}
	settings, _, err := config.Lay(files, p.unitEnviron())
	return err == nil && settings.Data == p.settings.Data
}

// askGateway asks the gateway how it is.
func (p *patient) askGateway(ctx context.Context) {
	p.socket = cmp.Or(p.Socket, p.settings.AdminSocket())
	p.gateway = p.Connect(p.socket)
	type answer struct {
		status adminapi.Status
		err    error
	}
	got, done := within(ctx, askLimit, func(ctx context.Context) answer {
		status, err := p.gateway.Status(ctx)
		return answer{status, err}
	})
	if !done || errors.Is(got.err, context.DeadlineExceeded) {
		got.err = fault.New(fault.Timeout, "the gateway does not answer within "+askLimit.String())
	}
	p.status, p.silent, p.wanted = got.status, got.err, p.settings.Data
	if p.runs() && p.status.Data != "" {
		p.settings.Data = p.status.Data
	}
	p.settings.Data, _ = filepath.Abs(p.settings.Data)
}

// identify finds the process of the gateway.
func (p *patient) identify(ctx context.Context) {
	p.process = p.unit.Number("MainPID")
	holder, _ := within(ctx, askLimit, func(context.Context) int { return p.Machine.LockHolder(p.data(lockFile)) })
	if holder != 0 {
		p.alien = p.installed() && holder != p.process
		p.process = holder
	}
}

// mayNot reports whether an error only says that this user may not look.
func mayNot(err error) bool {
	return errors.Is(err, os.ErrPermission) || fault.Is(err, fault.Forbidden)
}
