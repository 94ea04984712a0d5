package firstboot

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"time"

	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

const (
	// askEvery is how often the gateway is asked whether it is ready.
	askEvery = 100 * time.Millisecond
	// serviceGroup is the group of the service.
	serviceGroup = "gatehouse"
)

// reach waits for the gateway. Where it does not come up because an earlier run laid
// settings on trial and the power was cut, they are taken back.
func (b *boot) reach(ctx context.Context) error {
	b.dial(b.plan.socket)
	err := b.await(ctx, "")
	if err == nil {
		return nil
	}
	if _, onTrial := os.Stat(b.beforePath()); onTrial == nil {
		return b.takeBack(ctx, err)
	}
	return refuse("", "the gateway is not ready, so nothing can be set up: %s", b.complaint(ctx, err))
}

func (b *boot) dial(socket string) {
	b.hangUp()
	if b.Socket != "" {
		socket = b.Socket
	}
	b.gateway = b.Dial(socket)
}

func (b *boot) hangUp() {
	if b.gateway != nil {
		b.gateway.Close()
	}
}

// await waits until the gateway is ready, in another run than the one with the id
// before.
func (b *boot) await(ctx context.Context, before site.BootID) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	failed := errors.New("it was not restarted")
	for {
		status, err := b.gateway.Status(ctx)
		switch {
		case err == nil && status.Boot == before:
		case err == nil && status.Ready:
			b.status = status
			return nil
		case err == nil:
			failed = errNotReady(status)
		default:
			failed = err
		}
		select {
		case <-limited.Done():
			return failed
		case <-ticker.C:
		}
	}
}

// errNotReady returns why a gateway that answers is not ready.
func errNotReady(s adminapi.Status) error {
	if len(s.Conditions) > 0 {
		return errors.New(s.Conditions[0].Summary)
	}
	return errors.New("it is starting")
}

// complaint returns what the gateway itself said, else err.
func (b *boot) complaint(ctx context.Context, err error) string {
	if b.Complaint != nil {
		if text := b.Complaint(ctx); text != "" {
			return text
		}
	}
	return sentence(err)
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
	_, onTrial := os.Stat(b.beforePath())
	if onTrial != nil && bytes.Equal(current, b.plan.settings) {
		return nil
	}
	if err := b.writeSettings(current, onTrial == nil); err != nil {
		return err
	}
	if err := b.restart(ctx); err != nil {
		return b.takeBack(ctx, err)
	}
	return b.remove(b.beforePath())
}

// writeSettings keeps the current settings, unless an earlier run did, and writes the
// new ones. An empty file and none mean the same.
func (b *boot) writeSettings(current []byte, kept bool) error {
	if err := b.disk.MakeFolder(b.partsPath()); err != nil {
		return refuse(b.partsPath(), "the folder cannot be made: %s", cause(err))
	}
	mode, group := b.access() // the new settings have the secrets of the current ones too
	if !kept {
		if err := b.write(b.beforePath(), current, mode, group); err != nil {
			return err
		}
	}
	return b.write(b.settingsPath(), b.plan.settings, mode, group)
}

// write replaces a file.
func (b *boot) write(path string, data []byte, mode fs.FileMode, group int) error {
	if err := b.disk.Write(path, data, mode, group); err != nil {
		return refuse(path, "the file cannot be written: %s", cause(err))
	}
	return nil
}

// remove removes a file.
func (b *boot) remove(path string) error {
	if err := b.disk.Remove(path); err != nil {
		return refuse(path, "the file cannot be removed: %s", cause(err))
	}
	return nil
}

// access returns who may read the settings: everyone, or only root and the service.
func (b *boot) access() (mode fs.FileMode, group int) {
	if !b.plan.secret {
		return 0o644, ownGroup
	}
	if g, err := b.group(serviceGroup); err == nil {
		if id, err := strconv.Atoi(g.Gid); err == nil {
			return 0o640, id
		}
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
	text := b.complaint(ctx, why)
	if err := b.restore(); err != nil {
		return refuse(b.settingsPath(), "the gateway does not come up with these settings (%s), and they cannot be taken back: %s", text, cause(err))
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
		return &tomlfile.Error{Problems: append(problemsOf(refusal), tomlfile.Problem{Text: "the gateway does not come up without them either: " + sentence(err)})}
	}
	return refusal
}

// restore puts the settings of before back.
func (b *boot) restore() error {
	before, err := os.Stat(b.beforePath())
	switch {
	case err != nil:
		return err //nolint:wrapcheck // takeBack words it
	case before.Size() > 0:
		return b.disk.Rename(b.beforePath(), b.settingsPath()) //nolint:wrapcheck // as above
	}
	if err := b.disk.Remove(b.settingsPath()); err != nil {
		return err //nolint:wrapcheck // as above
	}
	return b.disk.Remove(b.beforePath()) //nolint:wrapcheck // as above
}
