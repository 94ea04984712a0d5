package firstboot

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gatehouse/configs"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/setup/tomlfile"
)

// plan is what a site file means on this board.
type plan struct {
	data     []byte
	site     sitefile.Site
	config   config.Config   // as it is to be
	keys     []string        // of the configuration that the file sets, in order
	settings []byte          // the text of those of the file, laid over those of an earlier one
	secret   bool            // whether one of them is
	socket   string          // of the gateway as it runs now
	would    sitefile.Result // of a dry run
}

// check reads the site file and the configuration and reports all that is wrong with
// them.
func (b *boot) check(context.Context) (err error) {
	if b.plan.data, err = readSite(b.path); err != nil {
		return err
	}
	d, err := tomlfile.Decode(b.path, b.plan.data)
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	files, err := config.Files(b.Settings, b.Environ)
	if err != nil {
		return &tomlfile.Error{Problems: problemsOf(err)}
	}
	present, _, presentErr := config.Lay(files, b.Environ)
	if err := tomlfile.Report(b.read(d, files)); err != nil {
		return err //nolint:wrapcheck // as above
	}
	b.plan.socket = b.plan.config.Admin.Socket
	if presentErr == nil {
		b.plan.socket = present.Admin.Socket
	}
	return b.extract(d)
}

// readSite reads a site file.
func readSite(path string) ([]byte, error) {
	data, err := tomlfile.Read(path, sitefile.MaxSize)
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

// read reads the site in the document and returns what is wrong with it, and with the
// configuration that would result.
func (b *boot) read(d *tomlfile.Document, files []config.File) (problems []tomlfile.Problem) {
	b.plan.site, problems = sitefile.Read(d, ours())
	problems = append(problems, b.publicProblems()...)
	layers := b.layers(files, config.File{Name: b.path, Document: d, Only: ours()})
	settings, sources, err := config.Lay(layers, b.Environ)
	if err == nil {
		err = b.Check(settings)
	}
	if err != nil {
		return append(problems, problemsOf(err)...)
	}
	if zone, wanted := settings.TimeZone, b.plan.site.TimeZone; zone != "" && wanted != "" && zone != wanted { // the gateway refuses that once it has the settings
		problems = append(problems, tomlfile.Problem{File: b.path, Line: b.plan.site.Lines.Of("timezone"), Text: fmt.Sprintf(
			"timezone is %q here, but time_zone is %q in the configuration: leave one of the two out", wanted, zone)})
	}
	b.plan.config = settings
	for key, at := range sources {
		if at.File == b.path {
			b.plan.keys = append(b.plan.keys, key)
		}
	}
	slices.Sort(b.plan.keys)
	return problems
}

// exampleSecret matches a line with a secret.
var exampleSecret = regexp.MustCompile(`(?m)^#?[^#\n]*\b(password|secret|token)["']?[ \t]*=[ \t]*["']([^"'\r\n]+)["']`)

// publicProblems finds the passwords, secrets and tokens of the examples, which everyone
// can read. "gatehouse apply" accepts them, for demonstrations; a board at a door does
// not.
func (b *boot) publicProblems() (problems []tomlfile.Problem) {
	public := map[string]bool{}
	names, _ := fs.Glob(configs.Files, "*.example.toml") // fails for wrong patterns only
	for _, name := range names {
		text, _ := configs.Files.ReadFile(name) // it is part of this program
		for _, match := range exampleSecret.FindAllSubmatch(text, -1) {
			public[string(match[2])] = true
		}
	}
	n := 0
	for line := range bytes.Lines(b.plan.data) {
		n++
		if match := exampleSecret.FindSubmatch(line); match != nil && line[0] != '#' && public[string(match[2])] {
			problems = append(problems, tomlfile.Problem{File: b.path, Line: n, Text: "this " + string(match[1]) + " is that of the example: choose your own, or leave the line out"})
		}
	}
	return problems
}

// layers puts a layer, such as the site file, where its settings belong among the parts
// of the configuration: over those of an earlier site file.
func (b *boot) layers(files []config.File, layer config.File) []config.File {
	at := slices.IndexFunc(files, func(f config.File) bool {
		folder, err := filepath.Abs(filepath.Dir(f.Name))
		return err == nil && folder == b.partsPath() && filepath.Base(f.Name) > settingsName
	})
	if at < 0 {
		at = len(files)
	}
	return slices.Insert(slices.Clone(files), at, layer)
}

// settingsHead begins the file of the settings.
const settingsHead = `# What a site file set at a first boot. The next site file is laid over it, so do not
# change this file: your own settings belong in gatehouse.toml, or in a file such as
# 70-ours.toml in this folder, which wins.

`

// extract copies the settings of the site file, over those of an earlier one.
func (b *boot) extract(d *tomlfile.Document) error {
	if len(b.plan.keys) == 0 {
		return nil
	}
	documents := []*tomlfile.Document{d}
	if text, err := os.ReadFile(b.settingsPath()); err == nil {
		earlier, err := tomlfile.Decode(b.settingsPath(), text)
		if err != nil {
			return err //nolint:wrapcheck // it names the file
		}
		documents = []*tomlfile.Document{earlier, d}
	}
	text, redacted, err := tomlfile.Extract(ours(), documents...)
	if err != nil {
		return err //nolint:wrapcheck // it says what was done
	}
	b.plan.settings, b.plan.secret = append([]byte(settingsHead), text...), !bytes.Equal(text, redacted)
	return nil
}

// checkSite asks the gateway whether the site fits what it has already.
func (b *boot) checkSite(ctx context.Context) (err error) {
	if b.plan.would, err = b.gateway.Apply(ctx, b.toApply(), sitefile.Options{DryRun: true}); err != nil {
		return b.refusedBy(err)
	}
	return nil
}

// toApply is the site with what was generated for it. Its problems name the file without
// its folder.
func (b *boot) toApply() sitefile.Site {
	s := b.state.complete(b.plan.site)
	s.File = filepath.Base(b.path)
	return s
}

// refusedBy makes an error of what the gateway answered to the site: each line is a
// problem, which may name its place.
func (b *boot) refusedBy(err error) error {
	e := &tomlfile.Error{}
	for line := range strings.Lines(fault.Text(err)) {
		p := tomlfile.Problem{File: b.path, Text: strings.TrimSpace(line)}
		if strings.HasPrefix(p.Text, filepath.Base(b.path)+":") {
			p.File = ""
		}
		e.Problems = append(e.Problems, p)
	}
	return e
}
