package installation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// commandTimeout bounds one program of the system. It is longer than the gateway may
// take to start, with the migration of a large database.
const commandTimeout = 15 * time.Minute

// runner runs a program of the system and gives what it prints. The error says what
// the program complained of, or is [exec.ErrNotFound].
type runner func(ctx context.Context, name string, args ...string) (string, error)

func runProgram(ctx context.Context, name string, args ...string) (string, error) {
	path, err := find(name)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // the callers name it, nobody else
	cmd.Env = append(os.Environ(), "LC_ALL=C", "SYSTEMD_PAGER=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us: what was begun is undone
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w", strings.Join(append([]string{name}, args...), " "), worded(err, complaint.String()))
	}
	return out.String(), nil
}

// worded puts the first line of a complaint in the place of an exit status.
func worded(err error, complaint string) error {
	line, _, _ := strings.Cut(strings.TrimSpace(complaint), "\n")
	if _, exited := errors.AsType[*exec.ExitError](err); exited && line != "" {
		return errors.New(line)
	}
	return err
}

// find looks for a program also where it is for root alone, which a root by "su"
// does not have in its path.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	for _, folder := range []string{"/usr/sbin/", "/sbin/"} {
		if err == nil {
			break
		}
		path, err = exec.LookPath(folder + name)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
	}
	return path, nil
}
