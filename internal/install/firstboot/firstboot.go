package firstboot

import (
	"context"
	"fmt"
	"os/user"
	"path/filepath"
	"time"

	"gatehouse/internal/config"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// Gateway is the running gateway; package adminapi/client satisfies it.
type Gateway interface {
	Status(ctx context.Context) (adminapi.Status, error)
	Apply(ctx context.Context, s sitefile.Site, o sitefile.Options) (sitefile.Result, error)
	Close()
}

// Config is where to look and which gateway to ask. Environ, Version, Folders, Dial,
// Restart, Network and Now are required.
type Config struct {
	File     string   // the site file; "" looks in Folders, then beside the configuration
	Folders  []string // in the order in which they are looked through
	Settings string   // the file of the configuration; "" is the system's
	Socket   string   // of the gateway; "" is the configured one
	Environ  []string
	Version  string
	DryRun   bool // only check

	Dial      func(socket string) Gateway
	Restart   func(ctx context.Context) (restarted bool, err error) // false: the service manager does not run the gateway
	Complaint func(ctx context.Context) string                      // what the gateway said when it did not come up; nil: unknown
	Network   func() string                                         // what mDNS calls this machine, "" for none
	TakesName bool                                                  // this machine is about to be called like the gateway, as on the image
	Now       func() time.Time                                      // while the gateway does not tell the time

	disk  disk                                   // nil: the real one
	group func(name string) (*user.Group, error) // nil: the system's

	public func(path string) bool // nil: what the system says
}

// Outcome is what was done.
type Outcome struct {
	File         string             `json:"file"` // the site file; "" when there is none
	DryRun       bool               `json:"dryRun"`
	OnlyWiped    bool               `json:"onlyWiped"`              // it was applied by an earlier run
	Result       string             `json:"result,omitempty"`       // the result file
	SettingsFile string             `json:"settingsFile,omitempty"` // that the settings were written to
	Changes      []sitefile.Change  `json:"changes"`                // of accounts, stations and grants; in a dry run those to make
	Addresses    []string           `json:"addresses"`              // URLs of the gateway
	Warnings     []string           `json:"warnings"`
	Problems     []tomlfile.Problem `json:"problems"`
}

const (
	doneName     = "gatehouse-site.done.toml"
	wipingName   = "gatehouse-site.wiping" // the site file while it is overwritten
	resultName   = "gatehouse-result.txt"
	settingsName = "50-site.toml"
	beforeName   = ".50-site.before" // what settingsName held; while it is there, the new one is on trial
	stateName    = "first-boot.state"

	patience = time.Minute // for the gateway to be ready
)

// boot is one run.
type boot struct {
	Config
	out     Outcome
	folder  string // of the configuration
	path    string // the site file
	plan    plan
	state   state
	gateway Gateway
	status  adminapi.Status // as the gateway last gave it
}

// Run looks for a site file and applies it. Without any,
// Outcome.File is empty and nothing happens. Its error is a
// [*tomlfile.Error] with everything that is wrong, which is in the result file too.
func Run(ctx context.Context, cfg Config) (Outcome, error) {
	if cfg.disk == nil {
		cfg.disk = realDisk{}
	}
	if cfg.group == nil {
		cfg.group = user.LookupGroup
	}
	if cfg.public == nil {
		cfg.public = onPublicDisk
	}
	folder, err := filepath.Abs(parentOf(config.PartsFolder(cfg.Settings, cfg.Environ)))
	if err != nil {
		return Outcome{}, fmt.Errorf("finding the folder of the configuration: %w", err)
	}
	b := &boot{Config: cfg, folder: folder}
	b.out = Outcome{DryRun: cfg.DryRun, Changes: []sitefile.Change{}, Addresses: []string{}, Warnings: []string{}, Problems: []tomlfile.Problem{}}
	defer b.hangUp()
	if !cfg.DryRun {
		if b.findWiping(); b.path != "" {
			if err := b.finishWiping(); err != nil {
				return b.out, b.failed(err)
			}
		}
	}
	if err := b.find(); err != nil || b.path == "" {
		return b.out, b.failed(err)
	}
	if cfg.DryRun {
		return b.out, b.failed(b.rehearse(ctx))
	}
	if b.state = readState(b.statePath()); b.state.wipes(b.path) {
		return b.out, b.failed(b.finishWiping())
	}
	b.out.OnlyWiped = false
	if err := b.perform(ctx); err != nil {
		b.writeFailure(err)
		return b.out, b.failed(err)
	}
	if err := b.wipe(); err != nil {
		return b.out, b.failed(err)
	}
	return b.out, nil
}

// finishWiping does what an earlier run left.
func (b *boot) finishWiping() error {
	b.out.OnlyWiped = true
	b.state = readState(b.statePath())
	return b.wipe()
}

// perform does everything but the wiping, in an order in which each step may be the
// last before a power cut.
func (b *boot) perform(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		b.check, b.reach, b.checkSite, b.keepSecrets, b.takeSettings, b.apply, b.writeSuccess, b.markApplied,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rehearse checks what can be checked from here, and changes nothing.
func (b *boot) rehearse(ctx context.Context) error {
	if err := b.check(ctx); err != nil {
		return err
	}
	b.dial(b.plan.socket)
	if _, err := b.gateway.Status(ctx); err != nil {
		b.warn("Checked without the gateway: %s", sentence(err))
		return nil // at a desk there is no gateway
	}
	return b.checkSite(ctx)
}

// failed keeps the problems of err for the outcome.
func (b *boot) failed(err error) error {
	if err == nil {
		return nil
	}
	b.out.Problems = problemsOf(err)
	return &tomlfile.Error{Problems: b.out.Problems}
}

// apply applies the accounts, stations and grants of the site.
func (b *boot) apply(ctx context.Context) error {
	applied, err := b.gateway.Apply(ctx, b.toApply(), sitefile.Options{})
	if err != nil {
		return b.refusedBy(err)
	}
	b.out.Changes = append(b.out.Changes, applied.Changes...)
	return nil
}

// stationName returns a station's name in the site, for people.
func stationName(s sitefile.Station) string {
	if s.Name == nil || *s.Name == "" {
		return ""
	}
	name, _ := site.CleanStationName(*s.Name)
	return name
}
