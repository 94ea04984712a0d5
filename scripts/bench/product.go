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

const (
	accountEmail    = "bench@example.test"
	accountPassword = "a password for the bench"
	// productPatience is how long the gateway may take to be ready, or one
	// command of its command line to finish.
	productPatience = 60 * time.Second
)

// product is one gateway with its data folder, perhaps running.
type product struct {
	binary    string
	data      string
	extra     []string // more variables of its environment
	boundless bool     // it knows no bounds for the unlocks of an account
	process   *child
	http      string // addresses, while it runs
	https     string
	mqtt      string
	stations  []enrolled
}

// enrolled is a station as apply prints it.
type enrolled struct {
	StationID    int    `json:"stationId"`
	StationToken string `json:"stationToken"`
	MQTT         struct {
		ClientID string `json:"clientId"`
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"mqtt"`
}

// buildProduct builds the binary as it is shipped.
func buildProduct(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "gatehouse")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "gatehouse/cmd/gatehouse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building gatehouse: %w\n%s", err, out)
	}
	return binary, nil
}

// newProduct makes the folder of a gateway that has never run.
func newProduct(binary, dir, name string) (*product, error) {
	p := &product{binary: binary, data: filepath.Join(dir, name)}
	if err := os.Mkdir(p.data, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	return p, nil
}

// environment is that of the harness without anything of another gateway.
func (p *product) environment(httpListen string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "GATEHOUSE_") {
			env = append(env, entry)
		}
	}
	env = append(env, "GATEHOUSE_DATA="+p.data, "GATEHOUSE_HTTP_LISTEN="+httpListen, "GATEHOUSE_MQTT_LISTEN=127.0.0.1:0")
	if p.boundless {
		return env
	}
	return append(env, "GATEHOUSE_UNLOCK_ACCOUNT_RATE=0", "GATEHOUSE_UNLOCK_ACCOUNT_PENDING=0") // one account makes all of the load
}

// launch starts the process, with more in its environment, and waits for nothing.
func (p *product) launch(ctx context.Context, httpListen string, more ...string) (err error) {
	environment := func(cmd *exec.Cmd) error {
		cmd.Env = append(p.environment(httpListen), more...)
		return nil
	}
	p.process, err = startChild(ctx, environment, p.binary, "serve")
	return err
}

// start launches the gateway on free ports and waits until it says that it is
// ready, and where it listens.
func (p *product) start(ctx context.Context) error {
	if err := p.launch(ctx, "127.0.0.1:0", p.extra...); err != nil {
		return err
	}
	var err error
	for deadline := time.Now().Add(productPatience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if p.process.exited() {
			return fmt.Errorf("gatehouse ended at once: %s", p.process.log)
		}
		if err = p.locate(ctx); err == nil {
			return nil
		}
	}
	p.process.stop()
	return fmt.Errorf("gatehouse is not ready: %w: %s", err, p.process.log)
}

// locate asks the running gateway for its addresses.
func (p *product) locate(ctx context.Context) error {
	var status struct {
		Ready     bool `json:"ready"`
		Listeners []struct {
			Name    string `json:"name"`
			Address string `json:"address"`
		} `json:"listeners"`
	}
	if err := p.command(ctx, &status, "status", "--json"); err != nil {
		return err
	}
	for _, l := range status.Listeners {
		switch l.Name {
		case "http":
			p.http = l.Address
		case "https":
			p.https = l.Address
		case "mqtt":
			p.mqtt = l.Address
		}
	}
	if !status.Ready || p.http == "" || p.mqtt == "" {
		return errors.New("status says not ready, or names no http or mqtt listener")
	}
	return nil
}

func (p *product) stop() {
	if p.process != nil {
		p.process.stop()
	}
}

// command runs the command line beside the gateway and decodes what it prints.
func (p *product) command(ctx context.Context, out any, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, productPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.binary, args...)
	cmd.Env = p.environment("127.0.0.1:0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	printed, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("gatehouse %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	if err := json.Unmarshal(printed, out); err != nil {
		return fmt.Errorf("gatehouse %s printed no JSON that is expected: %w: %.200q", args[0], err, printed)
	}
	return nil
}

// provision makes one account and n stations that it may use.
func (p *product) provision(ctx context.Context, n int) error {
	var text strings.Builder
	fmt.Fprintf(&text, "[[account]]\nemail = %q\npassword = %q\n", accountEmail, accountPassword)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(i + 1)
		fmt.Fprintf(&text, "[[station]]\nid = %d\nname = \"Station %d\"\nlocks = 1\n", i+1, i+1)
	}
	fmt.Fprintf(&text, "[[grant]]\naccount = %q\nstations = [%s]\n", accountEmail, strings.Join(ids, ", "))
	file := p.data + ".toml"
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("writing the site file: %w", err)
	}
	var made struct {
		Stations []enrolled `json:"stations"`
	}
	if err := p.command(ctx, &made, "apply", file, "--json"); err != nil {
		return err
	}
	if len(made.Stations) != n {
		return fmt.Errorf("apply made %d stations instead of %d", len(made.Stations), n)
	}
	p.stations = made.Stations
	return nil
}

// logins are the stations as they connect.
func (p *product) logins() []stationLogin {
	logins := make([]stationLogin, len(p.stations))
	for i, s := range p.stations {
		logins[i] = stationLogin{ID: s.StationID, ClientID: s.MQTT.ClientID, Username: s.MQTT.Username, Password: s.MQTT.Password}
	}
	return logins
}

// login returns an access token of the account.
func (p *product) login(ctx context.Context) (string, error) {
	body, _ := json.Marshal(map[string]string{"email": accountEmail, "password": accountPassword})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.http+"/v1/auth/login", bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("making the login: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	_, answer, err := exchange(request)
	if err != nil {
		return "", fmt.Errorf("logging in: %w", err)
	}
	var tokens struct {
		AccessToken string `json:"accessToken"`
	}
	if err := json.Unmarshal(answer, &tokens); err != nil || tokens.AccessToken == "" {
		return "", fmt.Errorf("logging in: no access token in the answer (%w)", err)
	}
	return tokens.AccessToken, nil
}

// read returns the headers and the body of one station read, for the bare handler
// to write.
func (p *product) read(ctx context.Context, bearer string) (http.Header, []byte, error) {
	url := "http://" + p.http + "/v1/stations/" + p.stations[0].StationToken
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("making the read: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+bearer)
	header, body, err := exchange(request)
	if err != nil {
		return nil, nil, fmt.Errorf("reading a station: %w", err)
	}
	header.Del("Date") // net/http writes its own
	return header, body, nil
}

// exchange makes one request that must be answered with status 200.
func exchange(request *http.Request) (http.Header, []byte, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s: %.200q", response.Status, body)
	}
	return response.Header, body, nil
}

// startGatehouse starts the gateway with its stations; ours is the contender for
// unlocks, reads are the gateway and the bare handler.
func startGatehouse(ctx context.Context, o options, dir string, started *stack) (ours contender, reads []contender, err error) {
	p, err := newProduct(o.binary, dir, "gatehouse.data")
	if err != nil {
		return ours, nil, err
	}
	if ours, err = p.contend(ctx, o, "gatehouse", started); err != nil {
		return ours, nil, err
	}
	bearer, err := p.login(ctx)
	if err != nil {
		return ours, nil, err
	}
	read := contender{name: "gatehouse", address: p.http, want: `"stationId":`, pids: ours.pids}
	for _, s := range p.stations {
		read.requests = append(read.requests, readRequest(s.StationToken, bearer))
	}
	bare, err := startBare(ctx, p, bearer, read, started)
	return ours, []contender{bare, read}, err
}

// startPrevious starts the gateway of an earlier commit.
func startPrevious(ctx context.Context, o options, dir string, started *stack) (contender, error) {
	p, err := newProduct(o.previous, dir, "previous.data")
	if err != nil {
		return contender{}, err
	}
	c, err := p.contend(ctx, o, "previous", started)
	if err != nil { // it may be older than those bounds
		p.boundless = true
		return p.contend(ctx, o, "previous", started)
	}
	return c, nil
}

// contend starts the gateway with its stations, as a contender for unlocks.
func (p *product) contend(ctx context.Context, o options, name string, started *stack) (contender, error) {
	if err := p.start(ctx); err != nil {
		return contender{}, err
	}
	started.push(p.stop)
	if err := p.provision(ctx, o.stations); err != nil {
		return contender{}, err
	}
	stations, err := startStations(ctx, stationsJob{Address: p.mqtt, Results: o.results, Toggle: o.toggle, Stations: p.logins()}, started)
	if err != nil {
		return contender{}, err
	}
	bearer, err := p.login(ctx)
	if err != nil {
		return contender{}, err
	}
	c := contender{name: name, address: p.http, want: strings.TrimSpace(okBody), pids: []int{p.process.pid()}, stations: stations}
	for _, s := range p.stations {
		c.requests = append(c.requests, unlockRequest(s.StationToken, bearer))
	}
	return c, nil
}

// startBare starts the handler that writes what one read of ours gave.
func startBare(ctx context.Context, p *product, bearer string, read contender, started *stack) (contender, error) {
	header, body, err := p.read(ctx, bearer)
	if err != nil {
		return contender{}, err
	}
	var at serverAddresses
	server, err := startRole(ctx, "bare", serverJob{Headers: header, Body: body}, &at)
	if err != nil {
		return contender{}, err
	}
	started.push(server.stop)
	return contender{name: "bare", address: at.HTTP, requests: read.requests, want: read.want, pids: []int{server.pid()}}, nil
}
