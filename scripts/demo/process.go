package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ended is the error of a child that has ended.
type ended struct{ error }

// childrenLive reports a child that has ended.
func (d *demo) childrenLive() error {
	for _, child := range d.children {
		var status syscall.WaitStatus
		if pid, _ := syscall.Wait4(child.Process.Pid, &status, syscall.WNOHANG, nil); pid != 0 {
			log, _ := os.ReadFile(child.Stdout.(*os.File).Name())
			return ended{fmt.Errorf("%s ended unexpectedly:\n%s", strings.Join(child.Args, " "), log)}
		}
	}
	return nil
}

// start runs the binary in the background, its output in a file of the folder. It
// is in a process group of its own, so that Ctrl-C reaches only the demonstration,
// which stops it in order; the kernel stops it if the demonstration is killed.
func (d *demo) start(log string, args ...string) error {
	f, err := os.Create(filepath.Join(d.dir, log))
	if err != nil {
		return fmt.Errorf("starting gatehouse %s: %w", args[0], err)
	}
	d.logs = append(d.logs, f)
	cmd := exec.Command(d.binary, args...)
	cmd.Env = append(os.Environ(), d.env...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting gatehouse %s: %w", args[0], err)
	}
	d.children = append(d.children, cmd)
	return nil
}

// gatehouse runs the binary to its end and returns what it prints.
func (d *demo) gatehouse(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, d.binary, args...)
	cmd.Env = append(os.Environ(), d.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("gatehouse %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

func (d *demo) request(ctx context.Context, method, path, bearer, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return answer, err
}

// await calls ok until it returns nil, for at most patience.
func (d *demo) await(ctx context.Context, what string, ok func() error) error {
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return nil
		}
		if live := d.childrenLive(); live != nil {
			return live
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %s until %s: %w", patience, what, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
