package firstboot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/web/adminapi"
)

// Gateway is the running gateway; package adminapi/client satisfies it.
type Gateway interface {
	Status(ctx context.Context) (adminapi.Status, error)
	Apply(ctx context.Context, s sitefile.Site, o sitefile.Options) (sitefile.Result, error)
}

// Config is where to look and which gateway to ask. All functions are required.
type Config struct {
	File     string   // the site file; "" looks in Folders, then beside the configuration
	Folders  []string // in the order in which they are looked through
	Settings string   // the file of the configuration; "" is the system's
	Socket   string   // of the gateway; "" is the configured one
	Environ  []string
	Version  string
	DryRun   bool // only check

	Check     func(config.Config) error // reports whether the files that a configuration names can be used
	Dial      func(socket string) Gateway
	Restart   func(ctx context.Context) (restarted bool, err error) // false: the service manager does not run the gateway
	Complaint func(ctx context.Context) string                      // what the gateway said when it did not come up; "" is unknown
	Network   func() string                                         // what mDNS calls this machine, "" for none
	TakesName bool                                                  // this machine is about to be called like the gateway, as on the image
	Now       func() time.Time                                      // while the gateway does not tell the time

	// Tests replace these.
	touch  func(t touch) error                     // is called before each change of the disk; nil: nothing
	owner  func(name string) (machine.Owner, bool) // nil: NamedOwner
	public func(folder string) bool                // nil: onPublicDisk
}

// Outcome is what was done.
type Outcome struct {
	File         string             `json:"file"` // the site file; "" when there is none
	DryRun       bool               `json:"dryRun"`
	OnlyWiped    bool               `json:"onlyWiped"`              // it was applied by an earlier run
	Result       string             `json:"result,omitempty"`       // the result file that was written
	SettingsFile string             `json:"settingsFile,omitempty"` // that the settings were written to
	Changes      []sitefile.Change  `json:"changes"`                // of accounts, stations and grants; in a dry run those to make
	Addresses    []string           `json:"addresses"`              // URLs of the gateway
	Warnings     []string           `json:"warnings"`
	Problems     []tomlfile.Problem `json:"problems"`
}

const (
	doneName     = "gatehouse-site.done.toml"
	wipingName   = "gatehouse-site.toml.wiping" // the site file while it is overwritten; its unit starts for it too
	resultName   = "gatehouse-result.txt"
	settingsName = "50-site.toml"
	stateName    = "first-boot.state"
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

// Run looks for a site file and applies it. Without any, Outcome.File is empty and nothing
// happens. Its error is a [*tomlfile.Error] with everything that is wrong, which is in the
// result file too.
func Run(ctx context.Context, cfg Config) (Outcome, error) {
	if cfg.touch == nil {
		cfg.touch = func(touch) error { return nil }
	}
	if cfg.owner == nil {
		cfg.owner = machine.NamedOwner
	}
	if cfg.public == nil {
		cfg.public = onPublicDisk
	}
	folder, err := filepath.Abs(filepath.Dir(config.MainFile(cfg.Settings, cfg.Environ)))
	if err != nil {
		return Outcome{}, fmt.Errorf("finding the folder of the configuration: %w", err)
	}
	b := &boot{Config: cfg, folder: folder}
	b.out = Outcome{DryRun: cfg.DryRun, Changes: []sitefile.Change{}, Addresses: []string{}, Warnings: []string{}, Problems: []tomlfile.Problem{}}
	b.state = readState(b.statePath())
	if err := b.run(ctx); err != nil {
		b.out.Problems = problemsOf(err)
		return b.out, &tomlfile.Error{Problems: b.out.Problems}
	}
	return b.out, nil
}

func (b *boot) run(ctx context.Context) error {
	if !b.DryRun {
		if err := b.find(wipingName); err != nil {
			return err
		}
		if b.path != "" {
			b.out.OnlyWiped = true
			if err := b.wipe(); err != nil {
				return err
			}
		}
	}
	if err := b.find(sitefile.FileNames()...); err != nil || b.path == "" {
		return err
	}
	if b.DryRun {
		return b.rehearse(ctx)
	}
	if b.out.OnlyWiped = b.state.wipes(b.path); !b.out.OnlyWiped {
		if err := b.perform(ctx); err != nil {
			b.writeFailure(err)
			return err
		}
		if !b.state.wipes(b.path) {
			b.warn("The site file was changed meanwhile: the next start applies what it says now.")
			return nil
		}
	}
	return b.wipe()
}

// find sets the first file with one of the names; "" where there is none, as in most boots.
// Another one is found when the board starts again.
func (b *boot) find(names ...string) error {
	b.path = ""
	folders := slices.Concat(b.Folders, []string{b.folder})
	if b.File != "" {
		folders = []string{filepath.Dir(b.File)}
		if !slices.Contains(names, wipingName) {
			names = []string{filepath.Base(b.File)}
		}
	}
	for _, folder := range folders {
		for _, name := range names {
			path, err := filepath.Abs(filepath.Join(folder, name))
			if err == nil {
				_, err = os.Stat(path)
			}
			if err == nil {
				b.path, b.out.File = path, path
				return nil
			}
			missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
			if !missing || b.File != "" && name != wipingName {
				return refuse(path, "the site file cannot be read: %s", cause(err))
			}
		}
	}
	return nil
}

// perform does everything but the wiping, in an order in which each step may be the
// last before a power cut.
func (b *boot) perform(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		b.check, b.reach, b.checkSite, b.takeSettings, b.keepSecrets, b.apply, b.writeSuccess, b.markApplied,
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
		b.warn("Checked without the gateway: %s", fault.Text(err))
		return nil // at a desk there is no gateway
	}
	err := b.checkSite(ctx)
	b.out.Changes = append(b.out.Changes, b.plan.would.Changes...)
	return err
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

// warn adds a sentence to the result.
func (b *boot) warn(format string, args ...any) {
	b.out.Warnings = append(b.out.Warnings, fmt.Sprintf(format, args...))
}

// beside returns the path of a file in the folder of the site file.
func (b *boot) beside(name string) string { return filepath.Join(filepath.Dir(b.path), name) }

func (b *boot) statePath() string    { return filepath.Join(b.folder, stateName) }
func (b *boot) partsPath() string    { return filepath.Join(b.folder, "conf.d") }
func (b *boot) settingsPath() string { return filepath.Join(b.partsPath(), settingsName) }

// refuse makes an error of one problem.
func refuse(file, format string, args ...any) error {
	return &tomlfile.Error{Problems: []tomlfile.Problem{{File: file, Text: fmt.Sprintf(format, args...)}}}
}

// problemsOf takes the problems out of any error.
func problemsOf(err error) []tomlfile.Problem {
	if e, ok := errors.AsType[*tomlfile.Error](err); ok {
		return e.Problems
	}
	return []tomlfile.Problem{{Text: fault.Text(err)}}
}

// cause words an error of the file system without the name of the system call.
func cause(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
