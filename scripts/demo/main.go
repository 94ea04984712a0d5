// Command demo shows a lock opening: it builds the gateway, runs it on loopback
// with its data in a temporary folder, applies the example site, starts simulated
// stations, logs in, unlocks lock-1, and goes on running until it is interrupted.
// It prints each step with the command that does the same by hand, and leaves
// nothing behind.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

// The account and the station of the example site; they are examples and stand in
// configs/site.example.toml.
const (
	exampleSite = "configs/site.example.toml"
	email       = "porter@example.test"
	station     = 1042
	patience    = 20 * time.Second // for each step after the build
)

func main() {
	runtime.LockOSThread() // children end with the thread that started them: the first one
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one running demonstration.
type demo struct {
	dir, binary string
	env         []string
	base        string // http://127.0.0.1:…
	broker      string
	children    []*exec.Cmd
	logs        []*os.File
}

func run(ctx context.Context) (err error) {
	if _, err := os.Stat(exampleSite); err != nil {
		return errors.New("run it from the top folder of the repository: make demo")
	}
	dir, err := os.MkdirTemp("", "gatehouse-demo-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	d := &demo{dir: dir, binary: filepath.Join(dir, "gatehouse")}
	defer func() {
		d.end()
		fmt.Println("\nStopped; nothing is left behind.")
	}()
	for _, step := range []func(context.Context) error{
		d.build, d.serve, d.apply, d.simulate, d.unlockDoor, d.journal, d.goOn,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// end stops the children in reverse order and removes the folder.
func (d *demo) end() {
	for i := len(d.children) - 1; i >= 0; i-- {
		child := d.children[i]
		_ = child.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(10*time.Second, func() { _ = child.Process.Kill() })
		_ = child.Wait()
		timer.Stop()
	}
	for _, f := range d.logs {
		_ = f.Close()
	}
	_ = os.RemoveAll(d.dir)
}

func title(text string)   { fmt.Printf("\n%s\n", bold(text)) }
func command(text string) { fmt.Printf("  $ %s\n", text) }

// bold is for terminals; a pipe gets plain text.
func bold(text string) string {
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		return text
	}
	return "\033[1m" + text + "\033[0m"
}

// show prints an answer, indented.
func show(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Println("    " + line)
	}
}

func (d *demo) build(ctx context.Context) error {
	title("1. Build the gateway: one binary")
	command("CGO_ENABLED=0 go build -o " + d.binary + " ./cmd/gatehouse")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", d.binary, "./cmd/gatehouse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building: %w", err)
	}
	return nil
}

// serve starts the gateway on the usual ports, or on free ones where those are
// taken.
func (d *demo) serve(ctx context.Context) error {
	d.env = []string{
		"GATEHOUSE_DATA=" + filepath.Join(d.dir, "data"),
		"GATEHOUSE_HTTP_LISTEN=" + usual("127.0.0.1:8080"),
		"GATEHOUSE_MQTT_LISTEN=" + usual("127.0.0.1:1883"),
	}
	title("2. Start it on loopback, with its data in a temporary folder")
	for _, variable := range d.env {
		command("export " + variable)
	}
	command(d.binary + " serve")
	if err := d.start("gateway.log", "serve"); err != nil {
		return err
	}
	return d.await(ctx, "the gateway is ready", func() error {
		out, err := d.gatehouse(ctx, "status", "--json")
		if err != nil {
			return err
		}
		var status struct {
			Ready     bool `json:"ready"`
			Listeners []struct{ Name, Address string }
		}
		if err := json.Unmarshal(out, &status); err != nil || !status.Ready {
			return errors.Join(errors.New("not ready yet"), err)
		}
		for _, l := range status.Listeners {
			switch l.Name {
			case "http":
				d.base = "http://" + l.Address
			case "mqtt":
				d.broker = l.Address
			}
		}
		show("ready: HTTP on " + d.base + ", MQTT on " + d.broker)
		return nil
	})
}

// usual gives the address, or one with port 0 where something listens there.
func usual(address string) string {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "127.0.0.1:0"
	}
	_ = l.Close()
	return address
}

func (d *demo) apply(ctx context.Context) error {
	title("3. Make accounts, stations and grants as a site file names them")
	command(d.binary + " apply " + exampleSite)
	out, err := d.gatehouse(ctx, "apply", exampleSite)
	show(string(out))
	return err
}

func (d *demo) simulate(context.Context) error {
	title("4. Start simulated stations")
	command(d.binary + " simulate --site " + exampleSite)
	return d.start("stations.log", "simulate", "--site", exampleSite)
}

// unlockDoor logs in, waits for the station and opens its first lock.
func (d *demo) unlockDoor(ctx context.Context) error {
	password, token, err := exampleSecrets()
	if err != nil {
		return err
	}
	title("5. Log in, as an app on the LAN does")
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)
	command("curl -s " + d.base + "/v1/auth/login -H 'Content-Type: application/json' -d '" + body + "'")
	login, err := d.request(ctx, http.MethodPost, "/v1/auth/login", "", body)
	if err != nil {
		return err
	}
	var tokens struct {
		AccessToken string `json:"accessToken"`
	}
	if err := json.Unmarshal(login, &tokens); err != nil || tokens.AccessToken == "" {
		return errors.Join(errors.New("the login gave no access token"), err)
	}
	show(`{"accessToken":"` + tokens.AccessToken[:16] + `…","refreshToken":"…"}   (shortened here)`)
	bearer := " -H \"Authorization: Bearer $ACCESS_TOKEN\""

	title("6. Read the station until it is online")
	path := "/v1/stations/" + token
	command("curl -s " + d.base + path + bearer)
	err = d.await(ctx, "the station is online", func() error {
		state, err := d.request(ctx, http.MethodGet, path, tokens.AccessToken, "")
		if err != nil || !bytes.Contains(state, []byte(`"online"`)) {
			return errors.Join(errors.New("the station is not online yet"), err)
		}
		show(string(state))
		return nil
	})
	if err != nil {
		return err
	}

	title("7. Unlock lock-1")
	command("curl -s -X POST " + d.base + path + "/locks/lock-1/unlock" + bearer)
	answer, err := d.request(ctx, http.MethodPost, path+"/locks/lock-1/unlock", tokens.AccessToken, "")
	if err != nil {
		return err
	}
	show(string(answer))
	if !bytes.Contains(answer, []byte("true")) {
		return errors.New("the lock did not open")
	}
	command("curl -s " + d.base + path + bearer)
	return d.await(ctx, "the lock is open", func() error {
		state, err := d.request(ctx, http.MethodGet, path, tokens.AccessToken, "")
		if err != nil || !bytes.Contains(state, []byte(`"unlocked"`)) {
			return errors.Join(errors.New("the lock is not reported unlocked yet"), err)
		}
		show(string(state))
		fmt.Println("\n  " + bold("The lock is open.") + " It locks itself again in a few seconds.")
		return nil
	})
}

// exampleSecrets reads the example password and token from the example site, so
// that they stand in one place. The program itself does the real parsing.
func exampleSecrets() (password, token string, err error) {
	data, err := os.ReadFile(exampleSite)
	if err != nil {
		return "", "", fmt.Errorf("reading the example site: %w", err)
	}
	var here string // the account or station that the line belongs to
	for line := range strings.SplitSeq(string(data), "\n") {
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		value, _, _ = strings.Cut(value, "#")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch key = strings.TrimSpace(key); {
		case key == "email", key == "id":
			here = value
		case key == "password" && here == email:
			password = value
		case key == "token" && here == fmt.Sprint(station):
			token = value
		}
	}
	if password == "" || token == "" {
		return "", "", fmt.Errorf("%s names no password of %s or no token of station %d", exampleSite, email, station)
	}
	return password, token, nil
}

func (d *demo) journal(ctx context.Context) error {
	title("8. Read the record: who opened what, when, and how it ended")
	command(d.binary + " journal --station " + fmt.Sprint(station))
	out, err := d.gatehouse(ctx, "journal", "--station", fmt.Sprint(station))
	show(string(out))
	return err
}

// goOn shows what the stations do until the demonstration is interrupted or a
// child ends.
func (d *demo) goOn(ctx context.Context) error {
	title("The gateway and its stations go on running. Try the commands above in another terminal; Ctrl-C ends the demonstration.")
	f, err := os.Open(filepath.Join(d.dir, "stations.log"))
	if err != nil {
		return fmt.Errorf("following the stations: %w", err)
	}
	defer func() { _ = f.Close() }()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := io.Copy(os.Stdout, f); err != nil {
			return fmt.Errorf("following the stations: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := d.childrenLive(); err != nil {
				return err
			}
		}
	}
}

// childrenLive reports a child that has ended.
func (d *demo) childrenLive() error {
	for i, child := range d.children {
		var status syscall.WaitStatus
		if pid, _ := syscall.Wait4(child.Process.Pid, &status, syscall.WNOHANG, nil); pid != 0 {
			log, _ := os.ReadFile(d.logs[i].Name())
			return fmt.Errorf("%s ended by itself:\n%s", strings.Join(child.Args, " "), log)
		}
	}
	return nil
}

// start runs the binary in the background, its output in a file of the folder. It
// is in a process group of its own, so that Ctrl-C reaches only the demonstration,
// which ends it in order; the kernel ends it should the demonstration be killed.
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

// gatehouse runs the binary to its end and gives what it prints.
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

// await tries until ok gives nil, for at most patience.
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
