package firstboot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

const (
	// patience is how long the gateway may take to be ready, and askEvery how often it is
	// asked whether it is.
	patience = time.Minute
	askEvery = 100 * time.Millisecond
	// serviceUser is the user of the service.
	serviceUser = "gatehouse"
)

// reach waits for the gateway. Where it does not come up because an earlier run laid
// settings on trial and the power was cut, they are taken back.
func (b *boot) reach(ctx context.Context) error {
	b.dial(b.plan.socket)
	err := b.await(ctx, "")
	switch {
	case err == nil:
		return nil
	case b.state.OnTrial:
		return b.takeBack(ctx, err)
	}
	return refuse("", "the gateway is not ready, so nothing can be set up: %s", cmp.Or(b.Complaint(ctx), fault.Text(err)))
}

func (b *boot) dial(socket string) { b.gateway = b.Dial(cmp.Or(b.Socket, socket)) }

// await waits until the gateway is ready, in another run than the one with the id
// before.
func (b *boot) await(ctx context.Context, before site.BootID) error {
	return b.poll(ctx, patience, askEvery, func(s adminapi.Status) error {
		switch {
		case s.Boot == before:
			return errors.New("it was not restarted")
		case s.Ready:
			return nil
		case len(s.Conditions) > 0:
			return errors.New(s.Conditions[0].Summary)
		}
		return errors.New("it is starting")
	})
}

// poll asks the gateway for its status until that is good, or limit is over. Its error is
// the last.
func (b *boot) poll(ctx context.Context, limit, every time.Duration, good func(adminapi.Status) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		status, err := b.gateway.Status(ctx)
		if err == nil {
			b.status, err = status, good(status)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// takeSettings writes the settings and has the gateway start with them. What was
// there before is kept until it did.
func (b *boot) takeSettings(ctx context.Context) error {
	if len(b.plan.keys) == 0 {
		return nil
	}
	b.out.SettingsFile = b.settingsPath()
	current, err := os.ReadFile(b.settingsPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return refuse(b.settingsPath(), "the file cannot be read: %s", cause(err))
	}
	if !b.state.OnTrial {
		if bytes.Equal(current, b.plan.settings) {
			return nil
		}
		b.state.OnTrial, b.state.Before = true, current
		if err := b.keepState(); err != nil {
			return err
		}
	}
	if err := b.writeSettings(b.plan.settings); err != nil {
		return err
	}
	if err := b.restart(ctx); err != nil {
		return b.takeBack(ctx, err)
	}
	b.state.OnTrial, b.state.Before = false, nil // the next step keeps it
	return nil
}

func (b *boot) writeSettings(text []byte) error {
	switch err := os.Mkdir(b.partsPath(), 0o755); { //nolint:gosec // a folder of the configuration, for everyone to read
	case err == nil:
		_ = os.Chmod(b.partsPath(), 0o755) //nolint:gosec // whatever the umask is: the gateway has a user of its own
	case !errors.Is(err, fs.ErrExist):
		return refuse(b.partsPath(), "the folder cannot be created: %s", cause(err))
	}
	mode, group := b.access()
	return b.write(b.settingsPath(), text, mode, group)
}

// access returns who may read the settings: everyone, or only root and the service.
func (b *boot) access() (mode fs.FileMode, group int) {
	present, err := os.Stat(b.settingsPath())
	closed := err == nil && present.Mode()&0o004 == 0 // an earlier site file had a secret
	if !b.plan.secret && !closed {
		return 0o644, ownGroup
	}
	if service, known := b.owner(serviceUser); known {
		return 0o640, service.GID
	}
	return 0o600, ownGroup
}

// restart has the gateway start with the settings on trial, and waits for it.
func (b *boot) restart(ctx context.Context) error {
	restarted, err := b.Restart(ctx)
	if err != nil {
		return err
	}
	if !restarted {
		b.warn("The settings take effect when the gateway is started again: no service manager runs it, so it was not done.")
		return nil
	}
	before := b.status.Boot
	b.dial(b.plan.config.Admin.Socket)
	return b.await(ctx, before)
}

// takeBack restores the settings of before, has the gateway start with them, and
// refuses with the reason.
func (b *boot) takeBack(ctx context.Context, why error) error {
	text := cmp.Or(b.Complaint(ctx), fault.Text(why))
	if err := b.restore(); err != nil {
		return refuse(b.settingsPath(), "the gateway does not come up with these settings (%s), and they cannot be taken back: %s", text, fault.Text(err))
	}
	b.out.SettingsFile = ""
	place := regexp.MustCompile(regexp.QuoteMeta(b.settingsPath()) + `:\d+: `) // that file is gone by now
	text = place.ReplaceAllString(text, "")
	refusal := &tomlfile.Error{Problems: []tomlfile.Problem{{File: b.path, Text: "the gateway does not come up with these settings, so they were taken back: " + text}}}
	restarted, err := b.Restart(ctx)
	if err == nil && restarted {
		b.dial(b.plan.socket)
		err = b.await(ctx, "")
	}
	if err != nil {
		return &tomlfile.Error{Problems: append(problemsOf(refusal), tomlfile.Problem{Text: "the gateway does not come up without them either: " + fault.Text(err)})}
	}
	return refusal
}

// restore puts the settings of before back; none are on trial then.
func (b *boot) restore() error {
	var err error
	if len(b.state.Before) > 0 {
		err = b.writeSettings(b.state.Before)
	} else {
		err = b.remove(b.settingsPath())
	}
	if err != nil {
		return err
	}
	b.state.OnTrial, b.state.Before = false, nil
	if len(b.state.Generated) == 0 {
		return b.remove(b.statePath())
	}
	return b.keepState() // secrets of an earlier run may be in force
}
