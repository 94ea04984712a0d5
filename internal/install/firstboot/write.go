package firstboot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeFailure writes what is wrong. A result that cannot be written is no second
// error: the log has the first.
func (b *boot) writeFailure(err error) {
	_ = b.writeResult(b.failure(problemsOf(err)).String())
}

// writeUnwiped adds to the result that secrets are left in the site file.
func (b *boot) writeUnwiped(err error) {
	p := &paper{}
	_, _ = p.WriteString(b.success)
	var texts []string
	for _, problem := range problemsOf(err) {
		texts = append(texts, problem.String())
	}
	p.list(leftTitle, texts)
	_ = b.moveResult(p.String()) // as in writeFailure
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

// hasMore reports whether a result has generated passwords that another has not.
func hasMore(old, text string) bool {
	_, issued, _ := strings.Cut(old, issuedTitle)
	for line := range strings.Lines(issued) {
		if value := issuedIn(line); !strings.Contains(text, value) {
			return true
		}
	}
	return false
}

// issuedIn returns the password in a line of a result; "" is none.
func issuedIn(line string) string {
	for _, name := range []string{namePassword, nameSecret, nameToken} {
		if value, is := strings.CutPrefix(strings.TrimSpace(line), name+" "); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// earlierResult finds the result that an earlier run wrote, and returns its text without
// the note that passwords are left. "" is none.
func (b *boot) earlierResult() string {
	places := []string{b.resultPath(), b.asidePath()}
	if b.state.Result == b.asidePath() {
		slices.Reverse(places)
	}
	for _, path := range places {
		text, err := os.ReadFile(path) //nolint:gosec // as in keepUnread
		if err != nil || !strings.HasPrefix(string(text), okHead) {
			continue // gone, or of an attempt before
		}
		b.out.Result = path
		whole, _, _ := strings.Cut(string(text), "\n"+leftTitle)
		return whole
	}
	return ""
}

// settleResult moves the result of an earlier run beside the site file, without the note
// that passwords are left. The site file is wiped by now: a result that cannot be written
// stays where it is.
func (b *boot) settleResult() {
	if b.success == "" || strings.Contains(b.success, issuedTitle) && b.public(parentOf(b.path)) {
		return
	}
	text, err := os.ReadFile(b.out.Result)
	if err == nil && b.out.Result == b.resultPath() && string(text) == b.success {
		return
	}
	_ = b.moveResult(b.success)
}

// moveResult writes the result again, removes the one that it replaces elsewhere, and
// remembers where it is.
func (b *boot) moveResult(text string) error {
	old := b.out.Result
	if err := b.writeResult(text); err != nil || b.out.Result == old {
		return err
	}
	if old == b.asidePath() {
		if err := b.disk.Remove(old); err != nil {
			return refuse(old, "the file cannot be removed: %s", cause(err))
		}
	}
	b.state.Result = b.out.Result
	return b.keepState()
}
