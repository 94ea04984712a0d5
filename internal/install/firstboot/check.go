package firstboot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/internal/config"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

// plan is what a site file means on this board.
type plan struct {
	data     []byte
	files    []config.File // of the configuration as it stands
	mixed    sitefile.Mixed
	config   config.Config   // as it is to be
	keys     []string        // of the configuration that the file sets, in order
	sources  config.Sources  // of every key
	settings config.Settings // of the file laid over those of an earlier one
	socket   string          // of the gateway as it runs now
	zone     string          // in which the hours of grants are meant; "" is the system's
}

// check reads the site file and the configuration and reports all that is wrong with
// them.
func (b *boot) check(context.Context) error {
	data, err := readSite(b.path)
	if err != nil {
		return err
	}
	b.plan.data = data
	files, err := config.Files(b.Settings, b.Environ)
	if err != nil {
		return &Refusal{problemsOf(err)}
	}
	present, presentErr := config.Load(b.Settings, b.Environ)
	problems, err := b.read(files)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return &Refusal{inOrder(b.path, problems)}
	}
	b.plan.socket = b.plan.config.Admin.Socket
	if presentErr == nil {
		b.plan.socket = present.Admin.Socket
	}
	return b.extract(files)
}

// readSite reads a site file.
func readSite(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, refuse(path, "the site file cannot be read: %s", cause(err))
	case !info.Mode().IsRegular():
		return nil, refuse(path, "this is not a file: put a text file of this name in its place")
	case info.Size() > sitefile.MaxSize:
		return nil, refuse(path, "the file is too large: at most %d MiB", sitefile.MaxSize>>20)
	}
	f, err := os.Open(path) //nolint:gosec // a fixed name, or the one that root gave
	if err != nil {
		return nil, refuse(path, "the site file cannot be read: %s", cause(err))
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, sitefile.MaxSize+1))
	if err != nil {
		return nil, refuse(path, "the site file cannot be read: %s", cause(err))
	}
	return data, nil
}

// ours are the names at the top of the site file that the configuration has. What
// both have belongs to the site: station.
func ours() []string {
	return slices.DeleteFunc(config.Names(), func(name string) bool { return slices.Contains(sitefile.Names(), name) })
}

// read takes the site file apart and gives what is wrong with it, and with the
// configuration that would come of it.
func (b *boot) read(files []config.File) (problems []Problem, err error) {
	b.plan.mixed, err = sitefile.ParseMixed(b.path, b.plan.data, ours())
	if e, ok := errors.AsType[*sitefile.Error](err); ok && e.Unreadable {
		return nil, &Refusal{ofSite(b.path, err)}
	}
	if err != nil {
		problems = ofSite(b.path, err)
	}
	problems = append(problems, b.publicProblems()...)
	b.plan.files = files
	var sources config.Sources
	b.plan.config, sources, err = config.Lay(b.layers(files, b.siteLayer()), b.Environ)
	if err != nil {
		return append(problems, ofConfig(err)...), nil
	}
	for key, where := range sources {
		if strings.HasPrefix(where, b.path+":") {
			b.plan.keys = append(b.plan.keys, key)
		}
	}
	slices.Sort(b.plan.keys)
	b.plan.sources = sources
	b.plan.zone = b.plan.config.TimeZone
	problems = append(problems, b.publicSettings(sources)...)
	problems = append(problems, b.fileProblems(sources)...)
	return append(problems, b.zoneProblems(sources)...), nil
}

// siteLayer is the site file as a part of the configuration.
func (b *boot) siteLayer() config.File {
	return config.File{Name: b.path, Text: b.plan.data, Only: ours()}
}

// layers puts a layer, such as the site file, where the settings of it stand among the parts of the
// configuration: over those of an earlier site file.
func (b *boot) layers(files []config.File, layer config.File) []config.File {
	at := slices.IndexFunc(files, func(f config.File) bool {
		return b.isPart(f) && filepath.Base(f.Name) > settingsName
	})
	if at < 0 {
		at = len(files)
	}
	return slices.Insert(slices.Clone(files), at, layer)
}

// isPart reports whether a file of the configuration stands in conf.d.
func (b *boot) isPart(f config.File) bool {
	folder, err := filepath.Abs(filepath.Dir(f.Name))
	return err == nil && folder == b.partsPath()
}

// settingsHead begins the file of the settings.
const settingsHead = `# What a site file set at a first boot. The next site file is laid over it, so do not
# change this file: your own settings belong in gatehouse.toml, or in a file such as
# 70-ours.toml in this folder, which wins.

`

// extract takes the settings of the site file, over those of an earlier one.
func (b *boot) extract(files []config.File) error {
	if len(b.plan.keys) == 0 {
		return nil
	}
	layers := []config.File{b.siteLayer()}
	for _, f := range files {
		if b.isPart(f) && filepath.Base(f.Name) == settingsName {
			layers = slices.Insert(layers, 0, f)
		}
	}
	settings, err := config.Extract(layers...)
	if err != nil {
		return &Refusal{problemsOf(err)}
	}
	settings.Text = append([]byte(settingsHead), settings.Text...)
	if len(settings.Text) > config.MaxFile {
		return refuse(b.path, "the settings are too long: at most %d bytes", config.MaxFile)
	}
	b.plan.settings = settings
	return nil
}

// zoneProblems: the zone of the site is no use beside another in the configuration.
func (b *boot) zoneProblems(sources config.Sources) []Problem {
	configured, wanted := b.plan.zone, b.plan.mixed.Site.TimeZone
	if configured == "" || wanted == "" {
		b.plan.zone = configured + wanted
		return nil
	}
	if configured == wanted {
		return nil
	}
	return []Problem{{File: b.path, Line: b.plan.mixed.Line("timezone"), Text: fmt.Sprintf(
		"timezone is %q here, but time_zone is %q (%s): leave one of the two out", wanted, configured, shorten(sources["time_zone"]))}}
}

// shorten leaves out the folder of a place.
func shorten(where string) string { return filepath.Base(where) }

// placed makes a problem of the place where a key is set.
func placed(sources config.Sources, key, text string) Problem {
	where := sources[key]
	p := Problem{File: where, Text: key + ": " + text}
	if at := strings.LastIndexByte(where, ':'); at >= 0 {
		if n, err := fmt.Sscanf(where[at+1:], "%d", &p.Line); n == 1 && err == nil {
			p.File = where[:at]
		}
	}
	return p
}

// checkSite asks the gateway whether the site fits what it has already. What can be
// told by line is told by line.
func (b *boot) checkSite(ctx context.Context) error {
	there, err := b.look(ctx)
	if err != nil {
		return b.refusedBy(err)
	}
	if problems := b.grantProblems(there); len(problems) > 0 {
		return &Refusal{problems}
	}
	would, err := b.gateway.Apply(ctx, b.site(), sitefile.Options{DryRun: true})
	if err != nil {
		return b.refusedBy(err)
	}
	if b.DryRun {
		b.out.Changes = append(b.out.Changes, would.Changes...)
	}
	return nil
}

// refusedBy makes a Refusal of what the gateway answered to the site: each of its
// lines is a problem.
func (b *boot) refusedBy(err error) error {
	r := &Refusal{}
	for line := range strings.Lines(sentence(err)) {
		r.Problems = append(r.Problems, Problem{File: b.path, Text: strings.TrimSpace(line)})
	}
	return r
}

// inventory is what the gateway has.
type inventory struct {
	accounts map[site.Email]bool
	stations map[site.StationID]bool
}

func (b *boot) look(ctx context.Context) (inventory, error) {
	there := inventory{accounts: map[site.Email]bool{}, stations: map[site.StationID]bool{}}
	accounts, err := b.gateway.Accounts(ctx)
	if err != nil {
		return there, err
	}
	for _, a := range accounts {
		there.accounts[a.Email] = true
	}
	stations, err := b.gateway.Stations(ctx)
	for _, s := range stations {
		there.stations[s.ID] = true
	}
	return there, err
}

// grantProblems finds grants of what is neither in the site nor on the gateway.
func (b *boot) grantProblems(there inventory) (problems []Problem) {
	for _, a := range b.site().Accounts {
		there.accounts[a.Email] = true
	}
	for _, s := range b.site().Stations {
		there.stations[s.ID] = true
	}
	add := func(path, format string, args ...any) {
		problems = append(problems, Problem{File: b.path, Line: b.plan.mixed.Line(path), Text: fmt.Sprintf(format, args...)})
	}
	for i, g := range b.site().Grants {
		if !there.accounts[g.Account] {
			add(fmt.Sprintf("grant[%d].account", i), "there is no account %s, neither in this file nor on the gateway", g.Account)
		}
		for _, id := range g.Stations {
			if !there.stations[id] {
				add(fmt.Sprintf("grant[%d].stations", i), "there is no station %d, neither in this file nor on the gateway", id)
			}
		}
	}
	return problems
}
