package firstboot_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/firstboot"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// board is a machine with a boot partition, a configuration and a gateway, whose power
// can be cut.
type board struct {
	t    *testing.T
	root string
	fuse fuse

	// The gateway, with what it keeps over a power cut.
	accounts map[site.Email]site.Secret
	admins   map[site.Email]bool
	stations map[site.StationID]sitefile.Station
	// The gateway as it runs now.
	config    config.Config
	boots     int
	up        bool
	disabled  bool // whether no service manager runs it
	listeners []adminapi.Listener
	offline   int     // how often it is asked before it has an address from the network
	network   *string // what mDNS calls the machine; nil is the gateway's name
}

const present = "name = \"gate\"\n[log]\nlevel = \"warn\"\n"

func newBoard(t *testing.T) *board {
	b := &board{
		t: t, root: t.TempDir(), accounts: map[site.Email]site.Secret{}, admins: map[site.Email]bool{},
		stations: map[site.StationID]sitefile.Station{},
	}
	b.write("etc/gatehouse.toml", present)
	b.write("boot/cmdline.txt", "console=tty1\n")
	b.start()
	return b
}

// withListeners adds the listeners that the package sets.
func (b *board) withListeners() *board {
	b.listeners = []adminapi.Listener{
		{Name: "http", Address: "127.0.0.1:8080"}, {Name: "https", Address: "[::]:443", TLS: true}, {Name: "mqtt", Address: "[::]:1883"},
	}
	return b
}

func (b *board) path(name string) string { return filepath.Join(b.root, name) }

func (b *board) write(name, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// read returns the text of a file, or "" where there is none.
func (b *board) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(b.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(text)
}

func (b *board) exists(name string) bool {
	_, err := os.Stat(b.path(name))
	return err == nil
}

// files returns the text of every file, by its path below the root.
func (b *board) files() map[string]string {
	b.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(b.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, b.root+"/")] = string(text)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

func (b *board) environ() []string { return []string{"GATEHOUSE_DATA=/var/lib/gatehouse"} }

func (b *board) firstBoot() firstboot.Config {
	cfg := firstboot.Config{
		Folders: []string{b.path("boot"), b.path("boot2")}, Settings: b.path("etc/gatehouse.toml"), Environ: b.environ(), Version: "1.2.3",
		Dial:    func(string) firstboot.Gateway { return b },
		Restart: b.restart,
		Check:   b.check, Complaint: func(context.Context) string { return "" },
		Network: b.networkName,
		Now:     func() time.Time { return time.Date(2026, 11, 21, 19, 0, 0, 0, time.UTC) },
	}
	cfg.OnTouch(b.disk(nil))
	return cfg
}

// check refuses a certificate that is called bad.
func (b *board) check(c config.Config) error {
	if strings.HasSuffix(c.TLS.Certificate, "bad.crt") {
		return fault.New(fault.Invalid, "the certificate "+c.TLS.Certificate+" cannot be used")
	}
	return nil
}

// run is one first boot.
func (b *board) run() (firstboot.Outcome, error) {
	b.t.Helper()
	return firstboot.Run(b.t.Context(), b.firstBoot())
}

// start starts the gateway on the configuration that is there. It does not come up
// with one that is wrong, with a name that begins with "bad", or twice with one that
// begins with "flaky".
func (b *board) start() {
	cfg, err := config.Load(b.path("etc/gatehouse.toml"), b.environ())
	again := strings.HasPrefix(cfg.Name, "flaky") && cfg.Name == b.config.Name
	b.up = err == nil && !strings.HasPrefix(cfg.Name, "bad") && !again
	b.config = cfg
	b.boots++
}

func (b *board) restart(context.Context) (bool, error) {
	b.fuse.burn()
	if b.disabled {
		return false, nil
	}
	b.start()
	b.fuse.burn()
	return true, nil
}

var errDown = fault.New(fault.Unavailable, "the gateway does not answer") //nolint:gochecknoglobals // a sentinel

func (b *board) networkName() string {
	if b.network != nil {
		return *b.network
	}
	return b.config.HostName()
}

func (b *board) Status(context.Context) (adminapi.Status, error) {
	if !b.up {
		return adminapi.Status{}, errDown
	}
	return adminapi.Status{
		Version: "1.2.3", GatewayID: "0f0e0d0c-0b0a-4908-8706-050403020100", Boot: site.BootID("boot-" + strconv.Itoa(b.boots)), Ready: true,
		Clock:     adminapi.ClockStatus{Now: site.At(time.Date(2026, 11, 21, 19, 5, 12, 0, time.UTC)), Trusted: true},
		Listeners: b.listeners,
		Name:      b.config.HostName(), Addresses: b.addresses(),
		Certificate: &adminapi.CertificateStatus{AuthorityFingerprint: strings.Repeat("AB:", 31) + "CD"},
	}, nil
}

func (b *board) addresses() []netip.Addr {
	if b.offline--; b.offline > 0 {
		return nil
	}
	return []netip.Addr{netip.MustParseAddr("192.168.1.20"), netip.MustParseAddr("2001:db8::20")}
}

// Apply is what the gateway makes of a site. What is left open is generated, and shown by
// a dry run only: first boot must not rely on more.
func (b *board) Apply(_ context.Context, s sitefile.Site, o sitefile.Options) (done sitefile.Result, err error) {
	if !b.up {
		return done, errDown
	}
	if err := b.unknown(s); err != nil {
		return done, err
	}
	if o.DryRun {
		b.generate(s, &done)
	}
	change := func(kind, what string, do func()) {
		done.Changes = append(done.Changes, sitefile.Change{Kind: kind, What: what})
		if !o.DryRun {
			b.fuse.burn()
			do()
		}
	}
	for _, a := range s.Accounts {
		if a.Email == "refused@example.test" {
			return done, fault.New(fault.Conflict, "this account is refused\nand so is everything else")
		}
		password, there := b.accounts[a.Email]
		if !there && a.Password == "" {
			password = "generated-and-lost"
		}
		if a.Password != "" {
			password = a.Password
		}
		if !there || password != b.accounts[a.Email] {
			change("account-added", string(a.Email), func() {
				b.accounts[a.Email] = password
				b.admins[a.Email] = a.Admin != nil && *a.Admin
			})
		}
	}
	for _, st := range s.Stations {
		if old, there := b.stations[st.ID]; !there || st.Secret != "" && st.Secret != old.Secret {
			change("station-added", st.ID.String(), func() { b.stations[st.ID] = st })
		}
	}
	b.fuse.burn()
	return done, nil
}

// unknown finds grants of what does not exist.
func (b *board) unknown(s sitefile.Site) error {
	var problems []tomlfile.Problem
	for _, g := range s.Grants {
		if _, there := b.accounts[g.Account.Email]; !there && !slices.ContainsFunc(s.Accounts, func(a sitefile.Account) bool { return a.Email == g.Account.Email }) {
			problems = append(problems, tomlfile.Problem{File: s.File, Line: g.Lines.Of("account"), Text: "there is no account " + string(g.Account.Email)})
		}
	}
	if err := tomlfile.Report(problems); err != nil {
		return fault.New(fault.Conflict, err.Error())
	}
	return nil
}

// generate generates what the site leaves open for what is not there, each time anew.
func (b *board) generate(s sitefile.Site, done *sitefile.Result) {
	for _, a := range s.Accounts {
		if _, there := b.accounts[a.Email]; !there && a.Password == "" {
			done.Accounts = append(done.Accounts, sitefile.IssuedAccount{Email: a.Email, Password: rand.Text()})
		}
	}
	for _, st := range s.Stations {
		if _, there := b.stations[st.ID]; !there {
			done.Stations = append(done.Stations, sitefile.Issue(st.ID, cmp.Or(st.Token, site.Secret(rand.Text())), cmp.Or(st.Secret, site.Secret(rand.Text()))))
		}
	}
}

// fuse cuts the power after so many steps; zero never.
type fuse struct{ left int }

// cut is what a power cut throws.
type cut struct{}

func (f *fuse) burn() {
	if f.left--; f.left == 0 {
		panic(cut{})
	}
}

// disk returns what happens at each change of the disk: the power may be cut before,
// within and after it. Where broken says so, it fails.
func (b *board) disk(broken func(path string) error) func(firstboot.Touch) error {
	return func(touch firstboot.Touch) error {
		b.fuse.burn()
		if broken != nil {
			if err := broken(touch.Path); err != nil {
				return &fs.PathError{Op: "write", Path: touch.Path, Err: err}
			}
		}
		if touch.Mode != 0 { // a power cut within leaves half a neighbour behind
			if err := os.WriteFile(touch.Path+".new", touch.Data[:len(touch.Data)/2], 0o600); err != nil {
				return err
			}
		} else if touch.Data != nil {
			return b.overwriteHalf(touch)
		}
		b.fuse.burn()
		return nil
	}
}

// overwriteHalf leaves the first part, then every second one too, written when the power
// is cut within.
func (b *board) overwriteHalf(touch firstboot.Touch) error {
	text, err := os.ReadFile(touch.Path)
	if err != nil {
		return err
	}
	const sector = 16
	for _, now := range []func(i int) bool{func(i int) bool { return i < len(text)/3 }, func(i int) bool { return i/sector%2 == 1 }} {
		for i := range text {
			if now(i) {
				text[i] = touch.Data[i]
			}
		}
		f, err := os.OpenFile(touch.Path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(text, 0)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		b.fuse.burn()
	}
	return nil
}
