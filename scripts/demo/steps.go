package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func (d *demo) build(ctx context.Context) error {
	title("1. Build the gateway: one binary (the first time this takes a few minutes)")
	command("CGO_ENABLED=0 go build -o " + d.binary + " ./cmd/gatehouse && export PATH=" + d.dir + ":$PATH")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", d.binary, "./cmd/gatehouse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building: %w", err)
	}
	return nil
}

// serve starts the gateway on the usual ports, or on free ones where it ends because
// those are taken.
func (d *demo) serve(ctx context.Context) error {
	title("2. Start it on loopback, with its data in a temporary folder")
	err := d.serveOn(ctx, "127.0.0.1:8080", "127.0.0.1:1883")
	if errors.As(err, new(ended)) {
		d.children = nil
		err = d.serveOn(ctx, "127.0.0.1:0", "127.0.0.1:0")
	}
	return err
}

// serveOn starts the gateway on these addresses.
func (d *demo) serveOn(ctx context.Context, http, mqtt string) error {
	d.env = []string{
		"GATEHOUSE_DATA=" + filepath.Join(d.dir, "data"), "GATEHOUSE_HTTP_LISTEN=" + http, "GATEHOUSE_MQTT_LISTEN=" + mqtt,
	}
	for _, variable := range d.env {
		command("export " + variable)
	}
	command("gatehouse serve")
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

func (d *demo) apply(ctx context.Context) error {
	title("3. Add the accounts, stations and grants of a site file")
	command("gatehouse apply " + exampleSite)
	out, err := d.gatehouse(ctx, "apply", exampleSite)
	show(string(out))
	return err
}

func (d *demo) simulate(context.Context) error {
	title("4. Start simulated stations")
	command("gatehouse simulate --site " + exampleSite)
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
		return errors.Join(errors.New("the login returned no access token"), err)
	}
	show(`{"accessToken":"` + tokens.AccessToken[:16] + `…","refreshToken":"…"}   (shortened here; see the end)`)
	d.access, d.station = tokens.AccessToken, token
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

// exampleSecrets reads the password and the token from the example site, which is the
// one place for them. The program itself does the real parsing.
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
	title("8. Read the journal: who opened what, when, and the outcome")
	command("gatehouse journal --station " + fmt.Sprint(station))
	out, err := d.gatehouse(ctx, "journal", "--station", fmt.Sprint(station))
	show(string(out))
	return err
}

// follow shows the events of the stations until the demonstration is interrupted or a
// child ends.
func (d *demo) follow(ctx context.Context) error {
	title("The gateway and its stations keep running. Its web console is at " + d.base + ": sign in with admin@example.test and example-admin-password.")
	title("Paste this into another terminal to try the commands above:")
	for _, variable := range append(d.env, "PATH="+d.dir+":$PATH", "BASE="+d.base, "STATION="+d.station, "ACCESS_TOKEN="+d.access) {
		fmt.Println("export " + variable)
	}
	title("Ctrl-C ends the demonstration.")
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
