package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// shell is the root shell on the console of one start.
type shell struct {
	m      *machine
	start  int // the start that it belongs to
	number int // of the command
}

var errRestarted = errors.New("the machine has restarted")

// openShell waits for the shell on the console.
func (m *machine) openShell(ctx context.Context) (*shell, error) {
	prompt := func() error {
		if err := m.checkRunning(); err != nil {
			return err
		}
		if !bytes.Contains(m.thisStart(), []byte("root@")) {
			return errors.New("there is no prompt")
		}
		return nil
	}
	if err := await(ctx, "there is a shell on the console", prompt); err != nil {
		return nil, fmt.Errorf("%w (the console is in %s)", err, m.log)
	}
	s := &shell{m: m, start: m.starts()}
	_, err := s.run(ctx, "dmesg -n 1; stty -echo cols 1000; PS1=; bind 'set enable-bracketed-paste off'")
	return s, err
}

// run runs a command and returns what it prints. The error is errRestarted if the machine
// restarts before it is done.
func (s *shell) run(ctx context.Context, command string) (string, error) {
	s.number++
	at := len(s.m.consoleLog())
	// The quotes keep the echo of the command from looking like its output.
	if err := s.m.write(fmt.Sprintf("\n echo 'BEG''IN%d'; %s; echo 'E''ND%d'\n", s.number, command, s.number)); err != nil {
		return "", errors.Join(err, s.m.checkRunning())
	}
	pattern := regexp.MustCompile(fmt.Sprintf(`(?s)BEGIN%d\r?\n(.*?)\r?\n?END%d\r?\n`, s.number, s.number))
	out := ""
	err := await(ctx, "the shell has run "+command, func() error {
		if found := pattern.FindSubmatch(s.m.consoleLog()[at:]); found != nil {
			out = strings.TrimSpace(strings.ReplaceAll(string(found[1]), "\r", ""))
			return nil
		}
		if s.m.starts() != s.start {
			return final{errRestarted}
		}
		if err := s.m.checkRunning(); err != nil {
			return final{err}
		}
		return fmt.Errorf("the console says: %.2000s", s.m.consoleLog()[at:])
	})
	return out, err
}

// final is an error after which await does not try again.
type final struct{ error }

func (f final) Unwrap() error { return f.error }
