package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/board/machine"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// noticePath is where the login prompt of the text console finds the notice
// (issue(5)): in the folder that systemd made for this run, else beside the data.
func noticePath(data string) string {
	return filepath.Join(cmp.Or(runtimeFolder(), data), "setup.issue")
}

// setupNotice is what the text console shows of a gateway without an administrator.
func (g *Gateway) setupNotice(code string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nGatehouse %q has no administrator yet.\n\n  Setup code   %s\n", g.cfg.HostName(), code)
	for _, url := range g.setupURLs() {
		fmt.Fprintf(&b, "  Address      %s\n", url)
	}
	if f := g.certificateInfo().CAFingerprint; f != "" {
		fmt.Fprintf(&b, "  Fingerprint  %s\n               %s\n", f[:len(f)/2+1], f[len(f)/2+1:])
	}
	b.WriteString("\nMake the first one with this code in an app, or here as root:\n  gatehouse account add YOU@EXAMPLE.COM --admin\n\n")
	return b.String()
}

// setupURLs returns the addresses at which the code is accepted from the network: with
// TLS only.
func (g *Gateway) setupURLs() []string {
	all := adminapi.URLs(g.listeners.describe(), machine.Addresses(), g.networkName())
	return slices.DeleteFunc(slices.Compact(all), func(url string) bool { return !strings.HasPrefix(url, "https://") })
}

// setupFiles keeps the setup code and shows it, in files that only this user and root
// may read.
type setupFiles struct {
	code, notice string // paths
	text         func(code string) string
	shown        string // the text of the notice; "" is not known
}

func (f *setupFiles) Code() (site.Secret, error) {
	text, err := os.ReadFile(f.code)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return site.Secret(strings.TrimSpace(string(text))), err
}

func (f *setupFiles) Keep(code site.Secret) error {
	return durable.Write(f.code, []byte(code.Reveal()+"\n"), 0o600)
}

func (f *setupFiles) Forget() error { return removeIfThere(f.code) }

func (f *setupFiles) Show(code site.Secret) error {
	text := f.text(code.Reveal())
	if text == f.shown {
		return nil
	}
	if err := durable.Write(f.notice, []byte(text), 0o600); err != nil {
		return err
	}
	f.shown = text
	return nil
}

func (f *setupFiles) Hide() error { return removeIfThere(f.notice) }

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
