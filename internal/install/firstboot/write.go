package firstboot

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gatehouse/internal/setup/tomlfile"
)

// writeFailure writes what is wrong. A result that cannot be written is no second
// error: the log has the first.
func (b *boot) writeFailure(err error) {
	_ = b.writeResult(b.failure(problemsOf(err)).String())
}

// noteUnwiped writes the result of the first boot again, with what is left to wipe, or
// without such a note where all is wiped; on the card if that can be written by now. A
// result that cannot be written stays as it is.
func (b *boot) noteUnwiped(left []tomlfile.Problem) {
	old := b.state.Result
	text, err := os.ReadFile(old) //nolint:gosec // written by root for root, see removes
	if err != nil || (old != b.resultPath() && old != b.asidePath()) {
		return // removed by the user
	}
	b.out.Result = old
	whole, _, _ := strings.Cut(string(text), "\n"+leftTitle)
	p := &paper{}
	_, _ = p.WriteString(whole) // never fails (strings.Builder)
	var sentences []string
	for _, problem := range left {
		sentences = append(sentences, problem.String())
	}
	p.list(leftTitle, sentences)
	if p.String() == string(text) && old == b.resultPath() {
		return
	}
	if b.writeResult(p.String()) != nil || b.out.Result == old {
		return
	}
	if old == b.asidePath() {
		_ = b.disk.Remove(old)
	}
	b.state.Result = b.out.Result
	_ = b.keepState()
}

// writeResult writes beside the site file, or beside the configuration where that
// cannot be. Generated passwords are not written to a card that every user can read.
func (b *boot) writeResult(text string) error {
	if strings.Contains(text, issuedTitle) && b.public(parentOf(b.path)) {
		if err := b.writeResultTo(b.asidePath(), text); err != nil {
			return refuse(b.asidePath(), "the result cannot be written: %s", cause(err))
		}
		return nil
	}
	err := b.writeResultTo(b.resultPath(), text)
	if err == nil {
		return nil
	}
	if b.asidePath() == b.resultPath() || b.writeResultTo(b.asidePath(), text) != nil {
		return refuse(b.resultPath(), "the result cannot be written: %s", cause(err))
	}
	return nil
}

// asidePath is where the result is when the card cannot be written.
func (b *boot) asidePath() string { return filepath.Join(b.folder, resultName) }

func (b *boot) writeResultTo(path, text string) error {
	if err := b.keepUnread(path, text); err != nil {
		return err
	}
	if err := b.disk.Write(path, []byte(text), 0o600, ownGroup); err != nil {
		return err //nolint:wrapcheck // the caller words it
	}
	b.out.Result = path
	return nil
}

// keepUnread renames an earlier result with passwords that the new one does not have:
// they are stored nowhere else, and may not have been read yet.
func (b *boot) keepUnread(path, text string) error {
	old, err := os.ReadFile(path) //nolint:gosec // a fixed name beside the site file or the configuration
	if err != nil || !hasMore(string(old), text) {
		return nil //nolint:nilerr // there is none, or none that can be read
	}
	for n := 1; ; n++ {
		kept := fmt.Sprintf("%s.%d.txt", strings.TrimSuffix(path, ".txt"), n)
		if _, err := os.Lstat(kept); err == nil {
			continue
		}
		if err := b.disk.Rename(path, kept); err != nil {
			return err //nolint:wrapcheck // the caller words it
		}
		b.warn("An earlier result with generated passwords is called %s now: delete it once you have them.", kept)
		return nil
	}
}

// generated finds the passwords in a result.
var generated = regexp.MustCompile(`(?m)^    (?:` + namePassword + `|` + nameSecret + `|` + nameToken + `) +(\S+)$`)

// hasMore reports whether a result has generated passwords that another has not.
func hasMore(old, text string) bool {
	return slices.ContainsFunc(generated.FindAllStringSubmatch(old, -1), func(match []string) bool {
		return !strings.Contains(text, match[1])
	})
}
